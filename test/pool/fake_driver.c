#include "test/pool/fake_driver.h"

#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pool/space/size_classes.h"
#include "base/lock.h"
#include "test/pool/fake_driver_parts.h"

/* The work of one allocation by every context that used it. */
static uint64_t (*works)[FAKE_CONTEXTS];

void *fake_table_new(size_t bytes)
{
  void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(table != MAP_FAILED);
  return table;
}

void fake_table_delete(void *table, size_t bytes)
{
  REQUIRE(munmap(table, bytes) == 0);
}

void fake_enter(fake_driver_t *driver)
{
  REQUIRE(gp_locks_held() == 0); /* always, in a build without asserts */
  if (driver->locked)
    pthread_mutex_lock(&driver->mutex);
  uint64_t now_ns = __atomic_load_n(&driver->now_ns, __ATOMIC_RELAXED);
  for (int i = 0; i < FAKE_CONTEXTS; i++)
    if (driver->complete_at_ns[i] != 0 && driver->complete_at_ns[i] <= now_ns)
      driver->completed[i] = driver->submitted[i];
}

void fake_leave(fake_driver_t *driver)
{
  if (driver->locked)
    pthread_mutex_unlock(&driver->mutex);
}

bool fake_must_fail(fake_driver_t *driver, fake_call_t call)
{
  driver->count[call]++;
  driver->calls++;
  return driver->calls == driver->fail_at ||
         (driver->fail_stays && driver->fail_at > 0 && driver->calls > driver->fail_at);
}

int fake_context_index(const gp_driver_context_t *context)
{
  return (int)(uintptr_t)context->handle - 1;
}

static bool is_busy(const fake_driver_t *driver, int context)
{
  return driver->submitted[context] > driver->completed[context];
}

static int find(const fake_driver_t *driver, uint64_t address)
{
  for (int i = 0; i < driver->allocation_count; i++)
    if (driver->allocations[i].address == address)
      return i;
  return -1;
}

/* One after the other, but no small allocation lies in two pages: the driver cuts them from one (G17 in
 * doc/gpu-results.md). */
static uint64_t take_address(fake_driver_t *driver, uint64_t bytes)
{
  uint64_t used = driver->next_address % GP_DRIVER_PAGE;

  if (bytes <= GP_DRIVER_SHARED_MAX && used + bytes > GP_DRIVER_PAGE)
    driver->next_address += GP_DRIVER_PAGE - used;
  uint64_t address = driver->next_address;
  driver->next_address += gp_round_up(bytes, GP_BLOCK_GRANULE);
  return address;
}

static int allocate(
    fake_driver_t *driver, fake_call_t call, void *context, uint64_t bytes, uint64_t *ret_address)
{
  int code = 0;

  fake_enter(driver);
  if (fake_must_fail(driver, call))
    code = driver->fail_code;
  else if (bytes == 0)
    code = FAKE_INVALID_VALUE;
  else if (bytes > driver->capacity || driver->used > driver->capacity - bytes)
    code = FAKE_OUT_OF_MEMORY;
  if (code == 0) {
    REQUIRE(driver->allocation_count < FAKE_ALLOCATIONS);
    int i = driver->allocation_count++;
    *ret_address = take_address(driver, bytes);
    driver->allocations[i] = (fake_allocation_t){*ret_address, bytes, context, 0};
    memset(works[i], 0, sizeof(works[i]));
    driver->used += bytes;
    if (driver->used > driver->peak)
      driver->peak = driver->used;
  }
  fake_leave(driver);
  return code;
}

static void take_out(fake_driver_t *driver, int i)
{
  driver->used -= driver->allocations[i].bytes;
  int last = --driver->allocation_count;
  driver->allocations[i] = driver->allocations[last];
  memcpy(works[i], works[last], sizeof(works[i]));
}

static int fake_alloc(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  return allocate(self, FAKE_ALLOC, context->handle, bytes, ret_address);
}

static int fake_alloc_in(
    void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  REQUIRE(context->handle);
  return allocate(self, FAKE_ALLOC_IN, context->handle, bytes, ret_address);
}

static int fake_enter_stream(void *self, const gp_driver_context_t *context, uint64_t stream, void **event)
{
  fake_driver_t *driver = self;
  int code = 0;

  REQUIRE(context->handle);
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_ENTER_STREAM)) {
    code = driver->fail_code;
  } else {
    if (!*event) {
      REQUIRE(driver->fence_count < FAKE_FENCES);
      *event = &driver->fences[driver->fence_count++];
    }
    driver->entered = stream;
    **(uint64_t **)event = driver->submitted[fake_context_index(context)];
  }
  fake_leave(driver);
  return code;
}

static int fake_stream_wait(void *self, const gp_driver_context_t *context, uint64_t stream, void *event)
{
  fake_driver_t *driver = self;
  int code = 0;

  REQUIRE(context->handle && event);
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_STREAM_WAIT))
    code = driver->fail_code;
  driver->waiting = stream;
  driver->awaited = *(uint64_t *)event;
  fake_leave(driver);
  return code;
}

static bool is_pending(const fake_driver_t *driver, int allocation)
{
  bool pending = false;
  for (int context = 0; context < FAKE_CONTEXTS; context++)
    pending |= works[allocation][context] > driver->completed[context];
  return pending;
}

static int fake_free(void *self, const gp_driver_context_t *context, uint64_t address)
{
  fake_driver_t *driver = self;
  int code = 0;

  fake_enter(driver);
  for (int i = 0; context->handle && i < FAKE_CONTEXTS; i++)
    if (is_busy(driver, i)) {
      driver->busy_frees++;
      break;
    }
  if (fake_must_fail(driver, FAKE_FREE)) {
    code = driver->fail_code;
  } else {
    int i = find(driver, address);
    if (i < 0) {
      driver->errors++;
      code = FAKE_INVALID_VALUE;
    } else {
      take_out(driver, i);
    }
  }
  fake_leave(driver);
  return code;
}

static bool is_done(const fake_driver_t *driver, const fake_use_t *use)
{
  return use->work <= driver->completed[use->context];
}

bool fake_work_is_pending(const fake_driver_t *driver, uint64_t address, uint64_t bytes)
{
  bool in_use = false;

  for (int i = 0; i < driver->use_count; i++) {
    const fake_use_t *use = &driver->uses[i];
    in_use |= !is_done(driver, use) && address < use->address + use->bytes && use->address < address + bytes;
  }
  return in_use;
}

static int wait_for(fake_driver_t *driver, const gp_driver_context_t *context, fake_call_t call)
{
  int code = 0;

  fake_enter(driver);
  if (fake_must_fail(driver, call))
    code = driver->fail_code;
  else if (driver->has_ended[fake_context_index(context)])
    code = FAKE_GONE;
  else if (call == FAKE_WAIT || !driver->free_returns)
    driver->completed[fake_context_index(context)] = driver->submitted[fake_context_index(context)];
  fake_leave(driver);
  return code;
}

static int fake_wait(void *self, const gp_driver_context_t *context)
{
  return wait_for(self, context, FAKE_WAIT);
}

static int fake_wait_as_free(void *self, const gp_driver_context_t *context)
{
  return wait_for(self, context, FAKE_WAIT_AS_FREE);
}

static void fake_pause(void *self, uint64_t ns)
{
  fake_driver_t *driver = self;
  REQUIRE(gp_locks_held() == 0);
  (void)__atomic_add_fetch(&driver->now_ns, ns, __ATOMIC_RELAXED);
  if (driver->on_pause)
    driver->on_pause();
  if (driver->locked)
    sched_yield();
}

static int fake_record(void *self, const gp_driver_context_t *context, void **fence)
{
  fake_driver_t *driver = self;
  int code = 0;

  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_RECORD)) {
    code = driver->fail_code;
  } else if (driver->has_ended[fake_context_index(context)]) {
    code = FAKE_GONE;
  } else {
    if (!*fence) {
      REQUIRE(driver->fence_count < FAKE_FENCES);
      *fence = &driver->fences[driver->fence_count++];
    }
    **(uint64_t **)fence = driver->submitted[fake_context_index(context)];
  }
  fake_leave(driver);
  return code;
}

static int fake_query(void *self, const gp_driver_context_t *context, void *fence)
{
  fake_driver_t *driver = self;
  int code;

  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_QUERY))
    code = driver->fail_code;
  else if (driver->has_ended[fake_context_index(context)])
    code = FAKE_GONE;
  else
    code = driver->completed[fake_context_index(context)] >= *(uint64_t *)fence ? 0 : FAKE_NOT_READY;
  fake_leave(driver);
  return code;
}

/* The streams of a context are not told apart. */
static int ask_stream(fake_driver_t *driver, const gp_driver_context_t *context)
{
  int code;

  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_ASK_STREAM))
    code = driver->fail_code;
  else if (driver->has_ended[fake_context_index(context)])
    code = FAKE_GONE;
  else
    code = is_busy(driver, fake_context_index(context)) ? FAKE_NOT_READY : 0;
  fake_leave(driver);
  return code;
}

static int fake_stream_query(void *self, const gp_driver_context_t *context, uint64_t stream)
{
  (void)stream;
  return ask_stream(self, context);
}

static int fake_default_query(void *self, const gp_driver_context_t *context)
{
  return ask_stream(self, context);
}

static int fake_info(void *self, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total)
{
  fake_driver_t *driver = self;
  int code = 0;

  (void)context;
  fake_enter(driver);
  if (fake_must_fail(driver, FAKE_INFO)) {
    code = driver->fail_code;
  } else {
    *ret_free = driver->capacity - driver->used;
    *ret_total = driver->capacity;
  }
  fake_leave(driver);
  return code;
}

static uint64_t fake_now(void *self)
{
  fake_driver_t *driver = self;
  return __atomic_load_n(&driver->now_ns, __ATOMIC_RELAXED);
}

static bool fake_is_sticky(int code)
{
  return code == FAKE_STICKY;
}

static bool fake_is_gone(int code)
{
  return code == FAKE_GONE;
}

void fake_driver_init(fake_driver_t *driver, uint64_t capacity, bool with_fence)
{
  memset(driver, 0, sizeof(*driver));
  driver->ops = (gp_driver_ops_t){
      .alloc = fake_alloc,
      .alloc_in = fake_alloc_in,
      .enter_stream = fake_enter_stream,
      .stream_wait = fake_stream_wait,
      .free = fake_free,
      .wait = fake_wait,
      .wait_as_free = fake_wait_as_free,
      .fence_record = with_fence ? fake_record : NULL,
      .fence_query = with_fence ? fake_query : NULL,
      .stream_query = with_fence ? NULL : fake_stream_query,
      .default_query = with_fence ? NULL : fake_default_query,
      .memory_info = fake_info,
      .now_ns = fake_now,
      .pause = fake_pause,
      .code_out_of_memory = FAKE_OUT_OF_MEMORY,
      .code_invalid_value = FAKE_INVALID_VALUE,
      .code_not_ready = FAKE_NOT_READY,
      .code_is_sticky = fake_is_sticky,
      .code_is_context_gone = fake_is_gone,
  };
  fake_add_mapped(&driver->ops);
  fake_add_fills(&driver->ops);
  pthread_mutex_init(&driver->mutex, NULL);
  driver->capacity = capacity;
  driver->next_address = FAKE_PLAIN;
  driver->now_ns = 1000;
  driver->allocations = fake_table_new(FAKE_ALLOCATIONS * sizeof(*driver->allocations));
  works = fake_table_new(FAKE_ALLOCATIONS * sizeof(*works));
  driver->uses = fake_table_new(FAKE_USES * sizeof(*driver->uses));
}

void fake_driver_fini(fake_driver_t *driver)
{
  for (int i = 0; i < FAKE_CONTEXTS; i++)
    fake_end_hosts(driver, i);
  fake_table_delete(driver->allocations, FAKE_ALLOCATIONS * sizeof(*driver->allocations));
  fake_table_delete(works, FAKE_ALLOCATIONS * sizeof(*works));
  fake_table_delete(driver->uses, FAKE_USES * sizeof(*driver->uses));
  works = NULL;
  pthread_mutex_destroy(&driver->mutex);
}

gp_driver_t fake_driver_table(fake_driver_t *driver)
{
  return (gp_driver_t){&driver->ops, driver};
}

gp_driver_context_t fake_context(int index, int device)
{
  return (gp_driver_context_t){(void *)(uintptr_t)(index + 1), (uint64_t)index + 100, device, true};
}

void fake_submit(fake_driver_t *driver, int context, uint64_t address)
{
  fake_enter(driver);
  uint64_t work = ++driver->submitted[context];
  int i = find(driver, address);
  REQUIRE(i >= 0);
  works[i][context] = work;
  fake_leave(driver);
}

void fake_complete(fake_driver_t *driver, int context)
{
  fake_enter(driver);
  driver->completed[context] = driver->submitted[context];
  fake_leave(driver);
}

void fake_complete_in(fake_driver_t *driver, int context, uint64_t ns)
{
  fake_enter(driver);
  driver->complete_at_ns[context] = ns > 0 ? __atomic_load_n(&driver->now_ns, __ATOMIC_RELAXED) + ns : 0;
  fake_leave(driver);
}

bool fake_is_in_use(fake_driver_t *driver, uint64_t address)
{
  fake_enter(driver);
  int i = find(driver, address);
  REQUIRE(i >= 0);
  bool in_use = is_pending(driver, i);
  fake_leave(driver);
  return in_use;
}

void fake_submit_on(fake_driver_t *driver, int context, uint64_t address, uint64_t bytes)
{
  int kept = 0;

  fake_enter(driver);
  for (int i = 0; i < driver->use_count; i++)
    if (!is_done(driver, &driver->uses[i]))
      driver->uses[kept++] = driver->uses[i];
  REQUIRE(kept < FAKE_USES);
  if (address - FAKE_RANGES < driver->reserved_address)
    driver->errors += !fake_is_usable(driver, address, bytes, 0);
  driver->uses[kept] = (fake_use_t){address, bytes, ++driver->submitted[context], context};
  driver->use_count = kept + 1;
  fake_leave(driver);
}

bool fake_is_any_in_use(fake_driver_t *driver, uint64_t address, uint64_t bytes)
{
  fake_enter(driver);
  bool in_use = fake_work_is_pending(driver, address, bytes);
  fake_leave(driver);
  return in_use;
}

static const char *look_up(void *arg, const char *variable)
{
  size_t length = strlen(variable);
  for (const char *const *setting = arg; setting && *setting; setting++)
    if (strncmp(*setting, variable, length) == 0 && (*setting)[length] == '=')
      return *setting + length + 1;
  return NULL;
}

void fake_options(gp_options_t *options, const char *const *settings)
{
  ck_assert_int_eq(gp_options_parse(options, look_up, (void *)(uintptr_t)settings, NULL, NULL), 0);
}

gp_engine_t *fake_engine(fake_driver_t *driver, const gp_observer_t *observer, const char *const *settings)
{
  static gp_options_t options;
  gp_driver_t table = fake_driver_table(driver);

  fake_options(&options, settings);
  gp_engine_t *engine = gp_engine_create(&table, observer, &options);
  ck_assert_ptr_nonnull(engine);
  return engine;
}
