/*
 * The program's cudaFree waits for the device once too much is deferred: when, how long, for what, and which
 * frees do not. Over the fake driver, whose clock moves in pauses of the engine only.
 */
#include "pool/limits/limit.h"
#include "pool/reuse/mode.h"
#include "pool/space/surplus.h"
#include "test/pool/check_main.h"
#include "test/pool/async_fixture.h"

#define MILLISECOND UINT64_C(1000000)
#define BLOCK       (2 * GP_MIB) /* a free of so much is worth a fence */
#define BOUND       "GPUPOOL_MAX_DEFERRED=8MiB"

static uint64_t began_ns;

static void begin_with(const char *bound, uint64_t capacity)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", bound, NULL}, capacity, true);
  began_ns = driver.now_ns;
}

static uint64_t passed_ns(void)
{
  return driver.now_ns - began_ns;
}

static uint64_t deferred(void)
{
  return stats().deferred_bytes.current;
}

static void free_busy(uint64_t block)
{
  driver.submitted[0]++;
  ck_assert_int_eq(free_code(block), 0);
}

/* Frees blocks, each with work on it; the last free is the first beyond a bound of 8 MiB. */
static void free_beyond(void)
{
  uint64_t blocks[5];

  for (int i = 0; i < 5; i++)
    blocks[i] = allocate(BLOCK);
  for (int i = 0; i < 5; i++)
    free_busy(blocks[i]);
}

static void complete_one(void)
{
  ck_assert_int_eq(atomic_load(&engine->own_calls), 0); /* a thread that sleeps holds nothing, and ... */
  ck_assert(!gp_holds_engine_lock());
  if (driver.completed[0] < driver.submitted[0])
    driver.completed[0]++;
}

/* ... it waits for the oldest work, and leaves the device the rest. */
START_TEST(test_it_waits_until_half_of_the_bound_is_complete)
{
  begin_with(BOUND, GP_GIB);
  driver.on_pause = complete_one;
  free_beyond();
  ck_assert_uint_eq(deferred(), 2 * BLOCK);
  ck_assert_uint_eq(driver.submitted[0] - driver.completed[0], 2);
  ck_assert_uint_lt(passed_ns(), MILLISECOND);
  ck_assert_uint_eq(stats().host_waits, 1);
  ck_assert_int_eq(driver.count[FAKE_WAIT_AS_FREE], 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_below_the_bound_nothing_waits)
{
  begin_with(_i ? "GPUPOOL_MAX_DEFERRED=none" : "GPUPOOL_MAX_DEFERRED=10MiB", GP_GIB);
  free_beyond();
  ck_assert_uint_eq(deferred(), 5 * BLOCK);
  ck_assert_uint_eq(passed_ns(), 0);
  ck_assert_uint_eq(stats().host_waits, 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_a_single_block_beyond_the_bound_is_waited_for)
{
  begin_with(BOUND, GP_GIB);
  uint64_t block = allocate(5 * BLOCK);
  driver.on_pause = complete_one;
  free_busy(block);
  ck_assert_uint_eq(deferred(), 0);
  ck_assert_uint_eq(allocate(5 * BLOCK), block);
  stop();
}
END_TEST

/* A share of what is live, 32 MiB at least. */
START_TEST(test_the_default)
{
  const uint64_t least = 32 * GP_MIB, live = _i ? GP_GIB : 0, bound = _i ? 110 * GP_MIB : least;
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, 4 * GP_GIB, true);
  if (live > 0)
    (void)allocate(live);
  uint64_t within = allocate(bound), beyond = allocate(8 * BLOCK);
  began_ns = driver.now_ns;
  driver.on_pause = complete_one;
  free_busy(within);
  ck_assert_uint_eq(passed_ns(), 0);
  free_busy(beyond);
  ck_assert_uint_gt(passed_ns(), 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* Half of what a limit leaves bounds it, too; and what the device has left. */
START_TEST(test_what_is_left_bounds_it)
{
  begin_with("GPUPOOL_MAX_DEFERRED=1GiB", _i ? GP_GIB : 12 * BLOCK);
  uint64_t free_bytes = 0, total_bytes = 0;
  if (_i)
    ck_assert_uint_eq(gp_engine_set_limit(engine, 0, &(gp_amount_t){.number = 12 * BLOCK}), 0);
  (void)allocate(6 * BLOCK);
  ck_assert(gp_limit_ask(engine, context, &free_bytes, &total_bytes));
  driver.on_pause = complete_one;
  free_beyond();
  ck_assert_uint_gt(passed_ns(), 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* After a tenth of a second it waits in the driver, as the program's own free would. */
START_TEST(test_at_last_the_driver_waits)
{
  begin_with(BOUND, GP_GIB);
  free_beyond();
  ck_assert_int_eq(driver.count[FAKE_WAIT_AS_FREE], 1);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  ck_assert_uint_ge(passed_ns(), 100 * MILLISECOND);
  ck_assert_uint_le(passed_ns(), 101 * MILLISECOND);
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

/* Where the driver's free does not wait for the device, one free polls, and no other one waits. */
START_TEST(test_where_the_drivers_free_returns_one_free_waits)
{
  begin_with(BOUND, GP_GIB);
  driver.free_returns = true;
  for (int i = 0; i < 4; i++)
    free_beyond();
  ck_assert_int_eq(driver.count[FAKE_WAIT_AS_FREE], 1);
  ck_assert_uint_le(passed_ns(), 101 * MILLISECOND);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

static int out_of_memory(void *self, const gp_driver_context_t *key)
{
  (void)self;
  (void)key;
  return FAKE_OUT_OF_MEMORY;
}

static int (*real_free)(void *self, const gp_driver_context_t *key, uint64_t address);

static int wait_and_free(void *self, const gp_driver_context_t *key, uint64_t address)
{
  fake_complete(&driver, 0);
  return real_free(self, key, address);
}

/* The driver has no memory for that: the block itself goes back, with whatever the driver's free waits for.
 */
START_TEST(test_the_block_itself_goes_back)
{
  begin_with(BOUND, GP_GIB);
  real_free = driver.ops.free;
  driver.ops.free = _i ? real_free : wait_and_free;
  driver.ops.wait_as_free = out_of_memory;
  free_beyond();
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  ck_assert_int_eq(atomic_load(&engine->free_returns), _i);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* Nor can a part of a segment go back: then frees take a hundredth of the time at most. */
START_TEST(test_a_wait_that_cannot_be_made_is_not_tried_again_soon)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_TYPE=segment", BOUND, NULL}, GP_GIB, true);
  began_ns = driver.now_ns;
  driver.ops.wait_as_free = out_of_memory;
  for (int i = 0; i < 3; i++)
    free_beyond();
  ck_assert(!atomic_load(&engine->free_returns));
  ck_assert_uint_le(passed_ns(), 101 * MILLISECOND);
  driver.now_ns += UINT64_C(10000000000);
  began_ns = driver.now_ns;
  free_beyond();
  ck_assert_uint_ge(passed_ns(), 100 * MILLISECOND);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

static int lose_fence(void *self, const gp_driver_context_t *key)
{
  (void)self;
  (void)key;
  driver.fail_code = FAKE_INVALID_VALUE; /* the next question of a fence */
  driver.fail_at = driver.calls + 1;
  return 0;
}

/* A fence that is lost has not passed, but proves nothing. */
START_TEST(test_a_lost_fence_proves_nothing)
{
  begin_with(BOUND, GP_GIB);
  driver.ops.wait_as_free = lose_fence;
  uint64_t block = allocate(5 * BLOCK);
  free_busy(block);
  ck_assert(!atomic_load(&engine->free_returns));
  driver.fail_at = 0;
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* Memory is complete when every context is done, but cudaFree natively waits for its own. */
START_TEST(test_work_of_another_context_is_not_waited_for)
{
  gp_driver_context_t other = fake_context(1, _i);

  begin_with(BOUND, GP_GIB);
  ck_assert_ptr_nonnull(gp_engine_context(engine, &other));
  driver.submitted[1]++;
  for (int i = 0; i < 15; i++)
    ck_assert_int_eq(free_code(allocate(BLOCK)), 0);
  ck_assert_uint_eq(passed_ns(), 0);
  ck_assert_uint_eq(stats().host_waits, 0);
  uint64_t little = allocate(GP_KIB);
  long calls = driver.calls;
  ck_assert_int_eq(free_code(little), 0);
  ck_assert_int_eq(driver.calls, calls); /* it looks again when there is much more */
  driver.on_pause = complete_one;
  free_beyond();
  ck_assert_uint_lt(passed_ns(), MILLISECOND); /* as long as its own work takes */
  ck_assert_uint_gt(deferred(), 8 * BLOCK);
  fake_complete(&driver, 0);
  fake_complete(&driver, 1);
  stop();
}
END_TEST

static void complete_both(void)
{
  complete_one();
  if (driver.completed[1] < driver.submitted[1])
    driver.completed[1]++;
}

/* Contexts that lag alike: each waits for its own work. */
START_TEST(test_two_contexts_that_lag)
{
  gp_driver_context_t other = fake_context(1, _i);

  begin_with(BOUND, GP_GIB);
  gp_context_t *first = context, *second = gp_engine_context(engine, &other);
  ck_assert_ptr_nonnull(second);
  driver.on_pause = complete_both;
  for (int i = 0; i < 40; i++) {
    context = i % 2 ? second : first;
    uint64_t block = allocate(BLOCK);
    driver.submitted[i % 2]++;
    ck_assert_int_eq(free_code(block), 0);
  }
  context = first;
  ck_assert_uint_le(stats().deferred_bytes.peak, 12 * BLOCK);
  fake_complete(&driver, 0);
  fake_complete(&driver, 1);
  stop();
}
END_TEST

static void put_back_more(void)
{
  complete_one();
  uint64_t block = allocate(8 * BLOCK);
  driver.submitted[0]++;
  ck_assert(gp_engine_put_back(engine, block));
}

/* Other threads go on freeing in ways that do not wait: it waits for no work that came after it. */
START_TEST(test_later_work_is_not_waited_for)
{
  begin_with(BOUND, GP_GIB);
  driver.on_pause = put_back_more;
  free_beyond();
  ck_assert_uint_lt(passed_ns(), MILLISECOND);
  ck_assert_int_eq(driver.count[FAKE_WAIT_AS_FREE], 0);
  driver.on_pause = NULL;
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* A context without work holds nothing back. */
START_TEST(test_idle_contexts_do_not_count)
{
  gp_driver_context_t other = fake_context(1, _i);

  begin_with(BOUND, GP_GIB);
  ck_assert_ptr_nonnull(gp_engine_context(engine, &other));
  driver.on_pause = complete_one;
  free_beyond();
  ck_assert_uint_eq(deferred(), 2 * BLOCK);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

static void begin_capture(void)
{
  (void)gp_engine_suspend_in(engine, context, GP_REACH_THREADS);
  driver.on_pause = NULL;
}

static void fail_from_now_on(void)
{
  driver.fail_code = FAKE_INVALID_VALUE;
  driver.fail_at = driver.calls + 1;
  driver.fail_stays = true;
}

/* So does an error, such as that of a call that CUDA prohibits in this thread. */
START_TEST(test_a_capture_that_begins_ends_the_wait)
{
  begin_with(BOUND, GP_GIB);
  driver.on_pause = _i ? fail_from_now_on : begin_capture;
  free_beyond();
  ck_assert_uint_lt(passed_ns(), MILLISECOND);
  ck_assert_int_eq(driver.count[FAKE_WAIT_AS_FREE], 0);
  driver.fail_at = 0;
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_during_a_capture_nothing_waits)
{
  begin_with(BOUND, GP_GIB);
  uint64_t blocks[5];
  for (int i = 0; i < 5; i++)
    blocks[i] = allocate(BLOCK);
  begin_capture();
  for (int i = 0; i < 5; i++)
    free_busy(blocks[i]);
  ck_assert_uint_eq(passed_ns(), 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_the_devices_error_is_that_of_the_free)
{
  begin_with(BOUND, GP_GIB);
  uint64_t block = allocate(5 * BLOCK);
  fake_submit(&driver, 0, block);
  driver.fail_code = FAKE_STICKY;
  driver.fail_at = driver.calls + 2; /* the record and the first question are the library's own */
  driver.fail_stays = true;
  int code = free_code(block);
  ck_assert(code == 0 || code == FAKE_STICKY);
  ck_assert_uint_lt(passed_ns(), MILLISECOND);
  driver.fail_at = 0;
  stop();
}
END_TEST

/* Natively these do not wait. */
static void free_in_stream(uint64_t block)
{
  free_in(order(FIRST), block);
}

static void free_memory_of_streams(uint64_t block)
{
  ck_assert_int_eq(free_code(block), 0);
}

static void release_last(uint64_t block)
{
  ck_assert(gp_engine_retain(engine, block));
  ck_assert_int_eq(free_code(block), 0);
  ck_assert(gp_engine_release(engine, block));
}

static void put_back(uint64_t block)
{
  ck_assert(gp_engine_put_back(engine, block));
}

static const struct {
  void (*free)(uint64_t block);
  bool is_of_streams;
} others[] = {
    {free_in_stream, true}, {free_memory_of_streams, true}, {release_last, false}, {put_back, false}};

START_TEST(test_other_frees_do_not_wait)
{
  uint64_t blocks[5];

  start_streams((const char *const[]){"GPUPOOL_RESERVE=0", BOUND, NULL}, GP_GIB);
  for (int i = 0; i < 5; i++)
    blocks[i] = others[_i].is_of_streams ? allocate_in(order(FIRST), BLOCK) : allocate(BLOCK);
  began_ns = driver.now_ns;
  for (int i = 0; i < 5; i++) {
    driver.submitted[0]++;
    others[_i].free(blocks[i]);
  }
  ck_assert_uint_eq(passed_ns(), 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* What waits for a stream of its own does not count. */
START_TEST(test_only_what_cudaFree_freed_counts)
{
  uint64_t blocks[5];

  start_streams((const char *const[]){"GPUPOOL_RESERVE=0", BOUND, NULL}, GP_GIB);
  for (int i = 0; i < 5; i++)
    blocks[i] = allocate_in(order(FIRST), BLOCK);
  uint64_t own = allocate(BLOCK);
  began_ns = driver.now_ns;
  for (int i = 0; i < 5; i++) {
    driver.submitted[0]++;
    free_in(order(FIRST), blocks[i]);
  }
  free_busy(own);
  ck_assert_uint_eq(passed_ns(), 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* Memory that should go back does so while the device is behind, too: where the driver's free waits. */
START_TEST(test_surplus_goes_back)
{
  static const char *const bounds[] = {"GPUPOOL_MAX_DEFERRED=64MiB", "GPUPOOL_MAX_DEFERRED=none"};
  gp_driver_context_t other = fake_context(1, 0);

  start((const char *const[]){"GPUPOOL_RESERVE=0", bounds[_i == 1], NULL}, GP_GIB, true);
  gp_context_t *second = gp_engine_context(engine, &other);
  ck_assert_ptr_nonnull(second);
  uint64_t idle = allocate(BLOCK), last = allocate(GP_KIB), held = allocate(GP_KIB);
  ck_assert_int_eq(free_code(idle), 0);
  gp_engine_sync_end(engine, second, gp_engine_sync_begin(engine));
  synchronize();
  gp_lock_take(&context->device->lock);
  gp_surplus_want(context->device, BLOCK, GP_TRIM_RESERVE);
  gp_lock_release(&context->device->lock);
  fake_submit(&driver, 0, held);
  driver.submitted[1] += _i == 2; /* the driver does not wait for that context */
  ck_assert_int_eq(free_code(last), 0);
  ck_assert_int_eq(driver.count[FAKE_WAIT_AS_FREE], _i == 0);
  ck_assert_int_eq(driver.busy_frees, 0);
  ck_assert_uint_eq(stats().reserved_bytes.current >= BLOCK, _i != 0);
  fake_complete(&driver, 0);
  fake_complete(&driver, 1);
  stop();
}
END_TEST

/* A caller that would rather pass a free on does so where it is to wait. */
START_TEST(test_a_free_that_is_to_wait_is_not_kept)
{
  uint64_t blocks[5];

  begin_with(BOUND, GP_GIB);
  for (int i = 0; i < 5; i++)
    blocks[i] = allocate(BLOCK);
  for (int i = 0; i < 5; i++) {
    fake_submit(&driver, 0, blocks[i]);
    ck_assert(gp_engine_free_kept(engine, blocks[i]) == (i < 4));
  }
  ck_assert_uint_eq(passed_ns(), 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* The free lowers what is live, and the bound with it: where that decides, the free does not wait. */
START_TEST(test_a_free_that_is_kept_does_not_wait)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, 4 * GP_GIB, true);
  (void)allocate(900 * GP_MIB);
  uint64_t much = allocate(88 * GP_MIB), block = allocate(20 * GP_MIB);
  began_ns = driver.now_ns;
  free_busy(much);
  fake_submit(&driver, 0, block);
  (void)gp_engine_free_kept(engine, block);
  ck_assert_uint_eq(passed_ns(), 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("wait in free");
  TCase *tests = tcase_create("wait in free");
  tcase_add_test(tests, test_it_waits_until_half_of_the_bound_is_complete);
  tcase_add_loop_test(tests, test_below_the_bound_nothing_waits, 0, 2);
  tcase_add_test(tests, test_a_single_block_beyond_the_bound_is_waited_for);
  tcase_add_loop_test(tests, test_the_default, 0, 2);
  tcase_add_loop_test(tests, test_what_is_left_bounds_it, 0, 2);
  tcase_add_test(tests, test_at_last_the_driver_waits);
  tcase_add_test(tests, test_where_the_drivers_free_returns_one_free_waits);
  tcase_add_loop_test(tests, test_the_block_itself_goes_back, 0, 2);
  tcase_add_test(tests, test_a_wait_that_cannot_be_made_is_not_tried_again_soon);
  tcase_add_test(tests, test_a_lost_fence_proves_nothing);
  tcase_add_loop_test(tests, test_work_of_another_context_is_not_waited_for, 0, 2);
  tcase_add_loop_test(tests, test_two_contexts_that_lag, 0, 2);
  tcase_add_test(tests, test_later_work_is_not_waited_for);
  tcase_add_loop_test(tests, test_idle_contexts_do_not_count, 0, 2);
  tcase_add_loop_test(tests, test_a_capture_that_begins_ends_the_wait, 0, 2);
  tcase_add_test(tests, test_during_a_capture_nothing_waits);
  tcase_add_test(tests, test_the_devices_error_is_that_of_the_free);
  tcase_add_loop_test(tests, test_other_frees_do_not_wait, 0, sizeof(others) / sizeof(others[0]));
  tcase_add_test(tests, test_only_what_cudaFree_freed_counts);
  tcase_add_loop_test(tests, test_surplus_goes_back, 0, 3);
  tcase_add_test(tests, test_a_free_that_is_to_wait_is_not_kept);
  tcase_add_test(tests, test_a_free_that_is_kept_does_not_wait);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
