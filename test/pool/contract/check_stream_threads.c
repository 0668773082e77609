/*
 * Reuse mode `single` with many threads, each with many streams: all threads share the default stream,
 * streams come and go with work pending, and the work is in one stream at first. Run under TSan it finds
 * races; everywhere it checks that work on memory comes after all work of its earlier owners, by a rule or
 * because the host knows.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pool/reuse/single.h"
#include "base/lock_gaps.h"
#include "test/pool/check_main.h"
#include "test/pool/fake_driver.h"
#include "test/pool/run_together.h"

#define THREADS 16
#define STREAMS 16 /* of each thread */
#define ROUNDS  6  /* each with an engine of its own */
#define STEPS   600
#define BYTES   4096u
#define SHARED  64
#define GAPS    8 /* between holds of locks: in each second round */
#define BLOCKS  FAKE_ALLOCATIONS
#define RECORDS (1 + THREADS * STREAMS * 16)

/* What the device was given and what the host knows of it. Record 0: the default stream; each stream that is
 * made has one. */
static struct {
  _Atomic uint64_t submitted, known;
  _Atomic uint64_t
      behind; /* of the default stream's work, what comes before all of this stream's that is yet to come */
} records[RECORDS];
static atomic_int record_count;
static _Atomic int record_of[THREADS * STREAMS]; /* by handle */

/* The last work on each block, by its owners so far. Belongs to the block's owner. */
static struct {
  int record;
  uint64_t number; /* of the work in its stream; 0: none */
} last[BLOCKS];

static fake_driver_t driver;
static gp_engine_t *engine;
static gp_context_t *context;
static uint64_t first_address;
static _Atomic uint64_t shared[SHARED]; /* blocks that any thread may free */
static _Atomic uint64_t early, orders, handed_out;

static uint32_t next_random(uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static uint64_t handle_of(int stream)
{
  return UINT64_C(0x10000000) + (uint64_t)stream * 16;
}

static void raise_to(_Atomic uint64_t *number, uint64_t value)
{
  uint64_t before = atomic_load(number);
  while (before < value && !atomic_compare_exchange_weak(number, &before, value)) {
  }
}

/* All that was submitted before it is known to be complete after it. */
static void complete(int record, uint64_t number)
{
  raise_to(&records[record].known, number);
}

static void complete_all(void)
{
  int count = atomic_load(&record_count);
  for (int i = 0; i < count; i++)
    complete(i, atomic_load(&records[i].submitted));
}

static int wait_for_all(void *self, const gp_driver_context_t *key)
{
  (void)self;
  (void)key;
  complete_all();
  return 0;
}

/* The default stream's work that the fence behind it covers. */
static _Atomic uint64_t fence;
static int (*query_another)(void *, const gp_driver_context_t *, void *);

static int record_fence(void *self, const gp_driver_context_t *key, uint64_t stream, void **event)
{
  (void)self;
  (void)key;
  if (stream != GP_STREAM_LEGACY || *event)
    abort();
  atomic_store(&fence, atomic_load(&records[0].submitted));
  *event = &fence;
  return 0;
}

static int query_fence(void *self, const gp_driver_context_t *key, void *event)
{
  if (event != &fence)
    return query_another(self, key, event);
  return atomic_load(&records[0].known) >= atomic_load(&fence) ? 0 : FAKE_NOT_READY;
}

static int wait_for_fence(void *self, const gp_driver_context_t *key, uint64_t stream, void *event)
{
  int record = atomic_load(&record_of[(stream - handle_of(0)) / 16]);
  (void)self;
  (void)key;
  if (event != &fence)
    abort();
  raise_to(&records[record].behind, atomic_load(&fence));
  atomic_fetch_add(&orders, 1);
  return 0;
}

static bool comes_after(int record, size_t block)
{
  int before = last[block].record;
  uint64_t number = last[block].number;
  return before == record || number <= atomic_load(&records[before].known) ||
         (before == 0 && number <= atomic_load(&records[record].behind));
}

static void work(int record, uint64_t address)
{
  size_t block = (address - first_address) / BYTES;
  if (!comes_after(record, block))
    atomic_fetch_add(&early, 1);
  last[block].number = atomic_fetch_add(&records[record].submitted, 1) + 1;
  last[block].record = record;
}

/* The stub's part, then the driver's. */
static void work_in(int stream, uint64_t address)
{
  if (gp_single_end_for_stream(engine, handle_of(stream), "the test says so") != 0)
    abort();
  work(atomic_load(&record_of[stream]), address);
}

static void free_block(uint64_t address)
{
  int code = -1;
  if (address != 0 && (gp_engine_free(engine, address, &code) != GP_FREE_DONE || code != 0))
    abort();
}

static void synchronize(int record)
{
  complete(record, atomic_load(&records[record].submitted));
}

static void synchronize_all(void)
{
  uint64_t token = gp_engine_sync_begin(engine);
  complete_all();
  gp_engine_sync_end(engine, context, token);
}

static void create(int stream)
{
  int record = atomic_fetch_add(&record_count, 1);
  if (record >= RECORDS)
    abort();
  atomic_store(&record_of[stream], record);
}

static void use(uint32_t *state, int stream)
{
  uint64_t address;
  if (gp_engine_alloc(engine, context, BYTES, &address) != 0)
    abort();
  atomic_fetch_add(&handed_out, 1);
  if (stream < 0 || next_random(state) % 4 == 0)
    work(0, address);
  else
    work_in(stream, address);
  free_block(atomic_exchange(&shared[next_random(state) % SHARED], address));
}

static void run_round(uint32_t *state, int thread)
{
  int made = 0;
  for (int i = 0; i < STEPS; i++) {
    uint32_t dice = next_random(state) % 100;
    int stream = made ? thread * STREAMS + (int)(next_random(state) % (uint32_t)made) : -1;
    if (i >= STEPS / 3 && made < STREAMS && dice < 40) /* in the middle of the others' first allocations */
      create(thread * STREAMS + made++);
    else if (dice < 85)
      use(state, stream);
    else if (dice < 90)
      free_block(atomic_exchange(&shared[next_random(state) % SHARED], 0));
    else if (dice < 96 && stream >= 0)
      synchronize(atomic_load(&record_of[stream]));
    else if (atomic_load(&orders) > 0 && dice < 99) /* before, it would settle what is unordered */
      synchronize(0);
    else if (atomic_load(&orders) > 0)
      synchronize_all();
    if (stream >= 0 && dice == 97) /* another one under its handle */
      create(stream);
  }
}

static int round_number;

static void run(uintptr_t number)
{
  uint32_t state = (uint32_t)(round_number * THREADS + (int)number + 1);
  run_round(&state, (int)number);
}

START_TEST(test_threads_and_streams)
{
  static const char *const settings[] = {"GPUPOOL_REUSE=single", NULL};
  gp_driver_context_t key = fake_context(0, 0);
  uint64_t address = 0;
  gp_stats_t stats;

  fake_driver_init(&driver, GP_GIB, false);
  driver.locked = true;
  driver.ops.wait = wait_for_all;
  query_another = driver.ops.fence_query;
  driver.ops.enter_stream = record_fence;
  driver.ops.fence_query = query_fence;
  driver.ops.stream_wait = wait_for_fence;
  engine = fake_engine(&driver, NULL, settings);
  gp_lock_leave_gaps(_i % 2 ? GAPS : 0);
  round_number = _i;
  context = gp_engine_context(engine, &key);
  memset(records, 0, sizeof(records));
  memset(last, 0, sizeof(last));
  atomic_store(&record_count, 1);
  early = orders = handed_out = 0;
  ck_assert_int_eq(gp_engine_alloc(engine, context, BYTES, &address), 0);
  first_address = address;
  free_block(address);
  gp_run_together(THREADS, run);
  for (int i = 0; i < SHARED; i++)
    free_block(atomic_exchange(&shared[i], 0));

  gp_engine_stats(engine, 0, &stats);
  ck_assert_uint_eq(atomic_load(&early), 0);
  ck_assert_uint_gt(atomic_load(&orders), 0); /* else the round did not begin with one stream */
  ck_assert_uint_gt(stats.cache_hits, atomic_load(&handed_out) / 2);
  ck_assert_uint_eq(stats.allocation.current, 0);
  ck_assert_int_eq(driver.errors, 0);
  ck_assert(gp_engine_check(engine));
  gp_engine_destroy(engine);
  fake_driver_fini(&driver);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stream threads");
  TCase *threads = tcase_create("threads");
  tcase_set_timeout(threads, 300);
  tcase_add_loop_test(threads, test_threads_and_streams, 0, ROUNDS);
  suite_add_tcase(suite, threads);
  return gp_check_main(suite);
}
