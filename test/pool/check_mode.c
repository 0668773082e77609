/*
 * The engine beside stream captures: what a synchronization tells then, and that no wait of the engine's own
 * begins while one runs. Over the fake driver, which answers success whatever is captured.
 */
#include <sched.h>
#include <stdatomic.h>

#include "pool/engine_record.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

static gp_suspension_t capture;

static void begin_capture(void)
{
  capture = gp_engine_suspend_in(engine, context, GP_REACH_THREADS);
}

static void end_capture(void)
{
  gp_engine_resume_in(engine, &capture);
}

static void nothing(void)
{
}

/* Where a capture begins and ends around a synchronization: before it, in it, and after it. */
static const struct {
  void (*before)(void), (*first)(void), (*second)(void), (*after)(void);
  bool tells;
} orders[] = {
    {nothing, nothing, nothing, nothing, true},
    {begin_capture, nothing, nothing, end_capture, false},
    {nothing, begin_capture, nothing, end_capture, false},
    {begin_capture, end_capture, nothing, nothing, false},
    {nothing, begin_capture, end_capture, nothing, false},
};

START_TEST(test_a_synchronization_beside_a_capture_tells_nothing)
{
  start(NULL, GP_GIB, true);
  uint64_t block = allocate(1000);
  ck_assert_int_eq(free_code(block), 0);
  orders[_i].before();
  uint64_t token = gp_engine_sync_begin(engine);
  orders[_i].first();
  orders[_i].second();
  gp_engine_sync_end(engine, context, token);
  orders[_i].after();
  ck_assert_int_eq(stats().cached_bytes.current > 0, orders[_i].tells);
  synchronize(); /* one without a capture says it all */
  ck_assert_uint_gt(stats().cached_bytes.current, 0);
  stop();
}
END_TEST

/* What hooks on streams and events ask. */
START_TEST(test_an_answer_beside_a_capture_concludes_nothing)
{
  start(NULL, GP_GIB, true);
  orders[_i].before();
  uint64_t token = gp_engine_ask_begin(engine);
  orders[_i].first();
  orders[_i].second();
  ck_assert_int_eq(gp_engine_may_conclude(engine, token), orders[_i].tells);
  orders[_i].after();
  ck_assert(gp_engine_may_conclude(engine, gp_engine_ask_begin(engine)));
  stop();
}
END_TEST

START_TEST(test_a_capture_that_goes_with_its_context)
{
  gp_driver_context_t other = fake_context(1, 0);
  start(NULL, GP_GIB, true);
  gp_context_t *second = gp_engine_context(engine, &other);
  capture = gp_engine_suspend_in(engine, second, GP_REACH_THREADS);
  uint64_t token = gp_engine_ask_begin(engine);
  gp_engine_context_lost(engine, second);
  ck_assert(!gp_engine_may_conclude(engine, token));
  ck_assert(gp_engine_may_conclude(engine, gp_engine_ask_begin(engine)));
  stop();
}
END_TEST

static atomic_bool in_wait, capturing, waited_in_capture;
static atomic_int waits;

/* A call that may wait is on its way to the driver when a capture begins in another thread. */
static void wait_until_captured(void)
{
  atomic_fetch_add(&waits, 1);
  atomic_store(&in_wait, true);
  while (!gp_engine_is_suspended(engine))
    sched_yield();
  for (int i = 0; i < 1000 && !atomic_load(&capturing); i++)
    sched_yield();
  atomic_store(&waited_in_capture, atomic_load(&capturing));
  fake_complete(&driver, 0);
}

static int (*real_free)(void *self, const gp_driver_context_t *which, uint64_t address);

static int free_until_captured(void *self, const gp_driver_context_t *which, uint64_t address)
{
  wait_until_captured();
  return real_free(self, which, address);
}

static int context_until_captured(void *self, const gp_driver_context_t *which)
{
  (void)self;
  (void)which;
  wait_until_captured();
  return 0;
}

/* Each makes the engine call the driver where that may wait. `block` is in use by the device. */
static void free_strictly(uint64_t block)
{
  (void)free_code(block);
}

static void run_out_of_memory(uint64_t block)
{
  uint64_t address = 0;
  (void)free_code(block);
  (void)gp_engine_alloc(engine, context, 700 * GP_MIB, &address);
}

static void make_room(uint64_t block)
{
  (void)free_code(block);
  (void)gp_engine_make_room(engine, context);
}

static void give_back(uint64_t block)
{
  (void)free_code(block);
  synchronize();
}

static const struct {
  const char *setting;
  void (*run)(uint64_t block);
  bool has_fence;
} waiting[] = {
    {"GPUPOOL_REUSE=strict", free_strictly, true},
    {"GPUPOOL_MAX_DEFERRED=none", run_out_of_memory, false}, /* before 12.5: it waits for the context */
    {"GPUPOOL_MAX_DEFERRED=none", run_out_of_memory, true},  /* later drivers: the driver's free */
    {"GPUPOOL_MAX_DEFERRED=none", make_room, true},
    {"GPUPOOL_MAX_CACHED=0", give_back, true},
};

static void begin_waiting(int which, uint64_t *ret_block)
{
  const char *const settings[] = {waiting[which].setting, "GPUPOOL_RESERVE=0", NULL};
  atomic_store(&in_wait, false);
  atomic_store(&capturing, false);
  atomic_store(&waited_in_capture, false);
  atomic_store(&waits, 0);
  start(settings, GP_GIB, waiting[which].has_fence);
  *ret_block = allocate(600 * GP_MIB);
  fake_submit(&driver, 0, *ret_block);
}

static int which_waiting;

static void *run_waiting(void *block)
{
  waiting[which_waiting].run(*(uint64_t *)block);
  atomic_store(&in_wait, true); /* without a wait, too */
  return NULL;
}

/* The thread that runs is in the driver's call when a capture is to begin: it begins after that. */
static void capture_while_it_runs(uint64_t block)
{
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, run_waiting, &block), 0);
  while (!atomic_load(&in_wait))
    sched_yield();
  begin_capture();
  atomic_store(&capturing, true);
  pthread_join(thread, NULL);
  ck_assert_int_eq(atomic_load(&waits), 1);
  ck_assert(!atomic_load(&waited_in_capture));
  end_capture();
  stop();
}

START_TEST(test_no_wait_is_on_its_way_when_a_capture_begins)
{
  uint64_t block;
  which_waiting = _i;
  begin_waiting(_i, &block);
  driver.complete_at_ns[0] = driver.now_ns + 1000000;
  real_free = driver.ops.free;
  driver.ops.free = free_until_captured;
  driver.ops.wait = context_until_captured;
  driver.ops.wait_as_free = context_until_captured;
  capture_while_it_runs(block);
}
END_TEST

static int query_until_captured(void *self, const gp_driver_context_t *which, void *fence)
{
  (void)self;
  (void)which;
  (void)fence;
  if (atomic_load(&waits) == 0)
    wait_until_captured();
  return FAKE_NOT_READY;
}

START_TEST(test_no_question_is_on_its_way_when_a_capture_begins)
{
  uint64_t block;
  which_waiting = 3; /* it polls fences */
  begin_waiting(which_waiting, &block);
  driver.complete_at_ns[0] = driver.now_ns + 1000000;
  driver.ops.fence_query = query_until_captured;
  capture_while_it_runs(block);
}
END_TEST

START_TEST(test_none_begins_while_it_runs)
{
  start(NULL, GP_GIB, _i);
  uint64_t block = allocate(1000);
  fake_submit(&driver, 0, block);
  ck_assert_int_eq(free_code(block), 0);
  driver.complete_at_ns[0] = driver.now_ns + 1000000;
  begin_capture();
  uint64_t before_ns = driver.now_ns;
  (void)gp_engine_make_room(engine, context); /* for a call of the program that found no memory */
  ck_assert_uint_eq(driver.now_ns, before_ns);
  ck_assert_int_eq(driver.count[FAKE_WAIT] + driver.count[FAKE_WAIT_AS_FREE] + driver.count[FAKE_RECORD] +
                       driver.count[FAKE_FREE] + driver.count[FAKE_ASK_STREAM],
      0);
  end_capture();
  ck_assert(gp_engine_make_room(engine, context));
  ck_assert_int_eq(driver.count[FAKE_WAIT], _i ? 0 : 1);
  ck_assert_uint_eq(driver.used, 0);
  ck_assert_int_eq(driver.busy_frees, 0);
  stop();
}
END_TEST

static uint64_t (*real_now)(void *self);
static bool is_due;

/* Another thread begins a capture as soon as it can: this one has no lock then, and calls no driver. The
 * clock does it in that thread's stead. */
static uint64_t now_in_capture(void *self)
{
  if (is_due && gp_lock_is_free(&engine->contexts_lock) && gp_lock_is_free(&context->device->lock) &&
      atomic_load(&engine->own_calls) == 0) {
    is_due = false;
    begin_capture();
  }
  return real_now(self);
}

/* The engine has found the device quiet, and looks at the clock before it gives memory back. */
START_TEST(test_none_begins_after_it_has_begun)
{
  static const char *const nothing_cached[] = {"GPUPOOL_MAX_CACHED=0", NULL};

  start(nothing_cached, GP_GIB, true);
  ck_assert_int_eq(free_code(allocate(1000)), 0);
  uint64_t token = gp_engine_sync_begin(engine);
  real_now = driver.ops.now_ns;
  driver.ops.now_ns = now_in_capture;
  is_due = true;
  gp_engine_sync_end(engine, context, token);
  ck_assert(!is_due);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  driver.ops.now_ns = real_now;
  end_capture();
  synchronize();
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  stop();
}
END_TEST

/* The device waits for the thread that begins the capture, which therefore does not wait for ever. */
static int wait_for_the_capture(void *self, const gp_driver_context_t *which)
{
  (void)self;
  (void)which;
  atomic_store(&in_wait, true);
  while (!gp_engine_is_suspended(engine))
    sched_yield();
  while (!atomic_load(&capturing)) {
    __atomic_fetch_add(&driver.now_ns, 100000000, __ATOMIC_RELAXED);
    sched_yield();
  }
  return 0;
}

/* For work as the driver's free does, or, on a driver before 12.5, for the context. */
START_TEST(test_a_capture_begins_beside_a_wait_that_needs_it)
{
  pthread_t thread;
  uint64_t block;
  which_waiting = _i;
  begin_waiting(_i, &block);
  driver.complete_at_ns[0] = driver.now_ns + 1000000;
  driver.ops.wait_as_free = wait_for_the_capture;
  driver.ops.wait = wait_for_the_capture;
  ck_assert_int_eq(pthread_create(&thread, NULL, run_waiting, &block), 0);
  while (!atomic_load(&in_wait))
    sched_yield();
  begin_capture();
  atomic_store(&capturing, true);
  pthread_join(thread, NULL);
  end_capture();
  ck_assert_uint_eq(stats().cached_bytes.current, 0); /* that wait was no fact */
  fake_complete(&driver, 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("mode");
  TCase *tests = tcase_create("captures");
  tcase_add_loop_test(
      tests, test_a_synchronization_beside_a_capture_tells_nothing, 0, sizeof orders / sizeof *orders);
  tcase_add_loop_test(
      tests, test_an_answer_beside_a_capture_concludes_nothing, 0, sizeof orders / sizeof *orders);
  tcase_add_test(tests, test_a_capture_that_goes_with_its_context);
  tcase_add_loop_test(
      tests, test_no_wait_is_on_its_way_when_a_capture_begins, 0, sizeof waiting / sizeof *waiting);
  tcase_add_test(tests, test_no_question_is_on_its_way_when_a_capture_begins);
  tcase_add_loop_test(tests, test_none_begins_while_it_runs, 0, 2);
  tcase_add_test(tests, test_none_begins_after_it_has_begun);
  tcase_add_loop_test(tests, test_a_capture_begins_beside_a_wait_that_needs_it, 0, 2);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
