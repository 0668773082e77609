/*
 * When surplus goes back to the driver: in which calls of the program, and only beside a device without work.
 * Over the fake driver, which counts frees beside work.
 */
#include "pool/limits/give_back.h"

#include "pool/space/surplus.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define BLOCK GP_MIB
#define SMALL 4096

static gp_context_t *second;            /* of the same device */
static uint64_t in_first[2], in_second; /* what the program holds of each */

static uint64_t allocate_in(gp_context_t *which, uint64_t bytes)
{
  uint64_t address = 0;
  ck_assert_int_eq(gp_engine_alloc(engine, which, bytes, &address), 0);
  return address;
}

static void synchronize_in(gp_context_t *which)
{
  uint64_t token = gp_engine_sync_begin(engine);
  fake_complete(&driver, which == second);
  gp_engine_sync_end(engine, which, token);
}

/* The first context has idle memory, and no context has work. */
static void begin(bool with_fence)
{
  gp_driver_context_t other = fake_context(1, 0);
  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_MAX_DEFERRED=none", NULL}, GP_GIB, with_fence);
  second = gp_engine_context(engine, &other);
  in_first[0] = allocate_in(context, SMALL);
  in_first[1] = allocate_in(context, SMALL);
  in_second = allocate_in(second, SMALL);
  ck_assert_int_eq(free_code(allocate_in(context, BLOCK)), 0);
  synchronize_in(second);
  synchronize_in(context);
  ck_assert_uint_eq(stats().cached_bytes.current, BLOCK);
}

static void want_back(void)
{
  gp_lock_take(&context->device->lock);
  gp_surplus_want(context->device, BLOCK, GP_TRIM_RESERVE);
  gp_lock_release(&context->device->lock);
}

static void submit(int which)
{
  fake_submit(&driver, which, which == 0 ? in_first[1] : in_second);
}

static bool has_gone(void)
{
  return driver.count[FAKE_FREE] > 0 && gp_engine_largest_idle(engine, 0) < BLOCK;
}

static void end(void)
{
  ck_assert_int_eq(driver.count[FAKE_WAIT] + driver.count[FAKE_WAIT_AS_FREE], 0);
  stop();
}

START_TEST(test_in_a_free_of_the_same_context)
{
  begin(true);
  want_back();
  long records = driver.count[FAKE_RECORD];
  ck_assert_int_eq(free_code(in_second), 0); /* the driver's own free of this would wait for the second */
  ck_assert(!has_gone());
  ck_assert_int_eq(driver.count[FAKE_RECORD], records); /* nothing could go: the device is not asked */
  ck_assert_int_eq(free_code(in_first[0]), 0);
  ck_assert(has_gone());
  ck_assert_uint_eq(stats().surplus_bytes.current, 0);
  end();
}
END_TEST

/* _i: the context that has work. */
START_TEST(test_not_in_a_free_beside_work)
{
  begin(true);
  want_back();
  submit(_i);
  ck_assert_int_eq(free_code(in_first[0]), 0);
  ck_assert(!has_gone());
  ck_assert_uint_eq(stats().surplus_bytes.current, BLOCK);
  fake_complete(&driver, _i);
  synchronize_in(context);
  ck_assert(has_gone());
  ck_assert_uint_eq(stats().surplus_bytes.current, 0);
  ck_assert_uint_eq(stats().surplus_bytes.peak, BLOCK);
  ck_assert_int_eq(driver.busy_frees, 0);
  end();
}
END_TEST

/* A look costs each context two calls. */
START_TEST(test_a_busy_device_is_looked_at_in_every_17th_free)
{
  uint64_t small[16];

  begin(true);
  for (int i = 0; i < 16; i++)
    small[i] = allocate_in(context, SMALL);
  want_back();
  submit(0);
  ck_assert_int_eq(free_code(in_first[0]), 0);
  fake_complete(&driver, 0);
  long records = driver.count[FAKE_RECORD], queries = driver.count[FAKE_QUERY];
  for (int i = 0; i < 16; i++)
    ck_assert_int_eq(free_code(small[i]), 0);
  ck_assert_int_eq(driver.count[FAKE_RECORD], records);
  ck_assert_int_eq(driver.count[FAKE_QUERY], queries);
  ck_assert(!has_gone());
  ck_assert_int_eq(free_code(in_first[1]), 0);
  ck_assert(has_gone());
  ck_assert_uint_eq(stats().surplus_bytes.current, 0);
  end();
}
END_TEST

START_TEST(test_after_a_synchronization_of_the_same_context)
{
  begin(true);
  want_back();
  long records = driver.count[FAKE_RECORD];
  synchronize_in(second);
  ck_assert(!has_gone());
  ck_assert_int_eq(driver.count[FAKE_RECORD], records);
  synchronize_in(context);
  ck_assert(has_gone());
  end();
}
END_TEST

/* 0: by another thread, after the synchronization; 1: in the other context. */
START_TEST(test_not_after_a_synchronization_beside_work)
{
  begin(true);
  want_back();
  submit(_i);
  gp_engine_sync_end(engine, context, gp_engine_sync_begin(engine));
  ck_assert(!has_gone());
  ck_assert_uint_eq(stats().surplus_bytes.current, BLOCK);
  fake_complete(&driver, _i);
  synchronize_in(context);
  ck_assert(has_gone());
  ck_assert_uint_eq(stats().surplus_bytes.current, 0);
  ck_assert_int_eq(driver.busy_frees, 0);
  end();
}
END_TEST

START_TEST(test_without_fences_after_a_synchronization_only)
{
  begin(false);
  want_back();
  ck_assert_int_eq(free_code(in_first[0]), 0);
  ck_assert(!has_gone());
  synchronize_in(second);
  ck_assert(!has_gone());
  synchronize_in(context);
  ck_assert(has_gone());
  ck_assert_int_eq(driver.busy_frees, 0);
  end();
}
END_TEST

/* The driver's free may wait for the second context, for which the synchronization did not. */
START_TEST(test_without_fences_not_beside_work_of_another_context)
{
  begin(false);
  want_back();
  submit(1);
  synchronize_in(context);
  ck_assert(!has_gone());
  ck_assert_uint_eq(stats().surplus_bytes.current, BLOCK);
  fake_complete(&driver, 1);
  synchronize_in(context);
  ck_assert(has_gone());
  ck_assert_uint_eq(stats().surplus_bytes.current, 0);
  ck_assert_int_eq(driver.busy_frees, 0);
  end();
}
END_TEST

/* Natively none of these waits for the device. */
START_TEST(test_in_no_other_call)
{
  gp_driver_context_t third = fake_context(2, 0);
  begin(true);
  want_back();
  (void)allocate_in(context, 2 * BLOCK);
  (void)allocate_in(context, SMALL);
  ck_assert_ptr_nonnull(gp_engine_context(engine, &third));
  ck_assert(!gp_engine_retain(engine, 1 << 30));
  gp_suspension_t capture = gp_engine_suspend_in(engine, context, GP_REACH_THREADS);
  ck_assert_int_eq(free_code(in_first[1]), 0); /* the driver's call, of the program's own block */
  driver.count[FAKE_FREE] = 0;
  synchronize_in(context); /* beside a capture */
  gp_engine_resume_in(engine, &capture);
  gp_engine_context_lost(engine, second);
  gp_engine_stop_pooling(engine);
  ck_assert(!has_gone());
  ck_assert_uint_eq(stats().cached_bytes.current, BLOCK);
  end();
}
END_TEST

static uint64_t empty(void)
{
  return gp_engine_empty_cache(engine);
}

/* What the program holds stays, and no more. */
static uint64_t limit(void)
{
  gp_options_t options;
  fake_options(&options, (const char *const[]){"GPUPOOL_LIMIT=1MiB", NULL});
  return gp_engine_set_limits(engine, options.limits);
}

static uint64_t (*const requests[])(void) = {empty, limit};

START_TEST(test_a_request_beside_a_quiet_device_is_served_at_once)
{
  begin(true);
  ck_assert_uint_eq(requests[_i](), BLOCK);
  ck_assert(has_gone());
  ck_assert_uint_eq(stats().surplus_bytes.current, 0);
  end();
}
END_TEST

/* _i / 2: the context that has work. */
START_TEST(test_a_request_beside_work_is_served_later)
{
  begin(true);
  submit(_i / 2);
  ck_assert_uint_eq(requests[_i % 2](), 0);
  ck_assert(!has_gone());
  ck_assert_uint_gt(stats().surplus_bytes.current, 0);
  ck_assert_uint_le(stats().surplus_bytes.current, BLOCK);
  fake_complete(&driver, _i / 2);
  synchronize_in(context);
  ck_assert(has_gone());
  ck_assert_uint_eq(stats().surplus_bytes.current, 0);
  ck_assert_int_eq(driver.busy_frees, 0);
  end();
}
END_TEST

/* The streams that are known tell whether it has work. */
START_TEST(test_a_request_without_fences_asks_the_streams)
{
  begin(false);
  submit(0);
  ck_assert_uint_eq(requests[_i](), 0);
  ck_assert(!has_gone());
  fake_complete(&driver, 0);
  ck_assert_uint_eq(requests[_i](), BLOCK);
  ck_assert(has_gone());
  ck_assert_int_eq(driver.busy_frees, 0);
  end();
}
END_TEST

/* Surplus that the program takes again is no surplus any more. */
/* 1: the program does not synchronize, and only frees. */
START_TEST(test_what_is_taken_again_does_not_go_back)
{
  begin(true);
  submit(0);
  ck_assert_uint_eq(empty(), 0);
  ck_assert_uint_eq(stats().surplus_bytes.current, BLOCK);
  (void)allocate_in(context, BLOCK);
  ck_assert_uint_eq(stats().cache_hits, 1);
  if (_i)
    ck_assert_int_eq(free_code(allocate_in(context, BLOCK / 2)), 0);
  else
    synchronize_in(context);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  ck_assert_uint_eq(stats().surplus_bytes.current, 0);
  end();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("give_back");
  TCase *calls = tcase_create("calls");
  tcase_add_test(calls, test_in_a_free_of_the_same_context);
  tcase_add_loop_test(calls, test_not_in_a_free_beside_work, 0, 2);
  tcase_add_test(calls, test_a_busy_device_is_looked_at_in_every_17th_free);
  tcase_add_test(calls, test_after_a_synchronization_of_the_same_context);
  tcase_add_loop_test(calls, test_not_after_a_synchronization_beside_work, 0, 2);
  tcase_add_test(calls, test_without_fences_after_a_synchronization_only);
  tcase_add_test(calls, test_without_fences_not_beside_work_of_another_context);
  tcase_add_test(calls, test_in_no_other_call);
  tcase_add_loop_test(calls, test_a_request_beside_a_quiet_device_is_served_at_once, 0, 2);
  tcase_add_loop_test(calls, test_a_request_beside_work_is_served_later, 0, 4);
  tcase_add_loop_test(calls, test_a_request_without_fences_asks_the_streams, 0, 2);
  tcase_add_loop_test(calls, test_what_is_taken_again_does_not_go_back, 0, 2);
  suite_add_tcase(suite, calls);
  return gp_check_main(suite);
}
