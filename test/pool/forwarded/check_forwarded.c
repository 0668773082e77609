/*
 * Room for stream-ordered memory: it is made before the driver is asked, for the driver itself may wait for
 * the device before it says that it has none. Over the fake driver.
 */
#include "pool/forwarded/forwarded.h"

#include "test/pool/check_main.h"
#include "test/pool/wait_fixture.h"

static const gp_forwarded_kind_t pooled_kinds[] = {
    GP_FORWARDED_ASYNC, GP_FORWARDED_MEMPOOL, GP_FORWARDED_GRAPH};

static uint64_t busy; /* the program holds it */

/* Of 8 MiB 1 is live and 6 are idle. */
static void begin_full(void)
{
  begin(NULL, 8 * GP_MIB, true);
  uint64_t idle = allocate(6 * GP_MIB);
  busy = allocate(GP_MIB);
  ck_assert_int_eq(free_code(idle), 0);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 6 * GP_MIB);
}

static bool reserve(uint64_t bytes, gp_forwarded_kind_t kind)
{
  bool granted = gp_engine_forwarded_reserve(engine, context, bytes, kind);
  if (granted)
    gp_engine_forwarded_cancel(engine, context, bytes, kind);
  return granted;
}

START_TEST(test_idle_memory_makes_room_before_the_driver_is_asked)
{
  begin_full();
  ck_assert(reserve(4 * GP_MIB, pooled_kinds[_i]));
  ck_assert_uint_eq(driver.used, GP_MIB);
  ck_assert_int_eq(driver.busy_frees, 0);
  ck_assert_uint_eq(passed_ns(), 0);
  stop();
}
END_TEST

START_TEST(test_beside_work_it_has_the_patience)
{
  begin_full();
  fake_submit(&driver, 0, busy);
  ck_assert(!reserve(4 * GP_MIB, pooled_kinds[_i]));
  ck_assert_uint_eq(passed_ns(), 2 * SECOND);
  ck_assert_uint_eq(oom.waited_ns, 2 * SECOND);
  ck_assert_uint_eq(oom.busy_context, 100);
  ck_assert_uint_eq(oom.by_limit, 0);
  ck_assert_int_eq(driver.count[FAKE_FREE] + driver.count[FAKE_WAIT], 0);
  fake_complete(&driver, 0);
  ck_assert(reserve(4 * GP_MIB, pooled_kinds[_i]));
  ck_assert_uint_eq(driver.used, GP_MIB);
  stop();
}
END_TEST

/* The driver's own allocation does not wait; it is tried first. */
START_TEST(test_other_memory_is_asked_for_first)
{
  begin_full();
  fake_submit(&driver, 0, busy);
  ck_assert(reserve(4 * GP_MIB, GP_FORWARDED_MANAGED));
  ck_assert_uint_eq(stats().cached_bytes.current, 6 * GP_MIB);
  ck_assert_uint_eq(passed_ns(), 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_what_fits_takes_nothing_back)
{
  begin_full();
  fake_submit(&driver, 0, busy);
  ck_assert(reserve(GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert_uint_eq(stats().cached_bytes.current, 6 * GP_MIB);
  ck_assert_uint_eq(passed_ns(), 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* The driver says so by itself. */
START_TEST(test_what_cannot_fit_takes_nothing_back)
{
  begin_full();
  ck_assert(reserve(9 * GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert_uint_eq(stats().cached_bytes.current, 6 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_where_there_is_ample_memory_the_driver_is_not_asked)
{
  begin(NULL, GP_GIB, true);
  ck_assert_int_eq(free_code(allocate(GP_MIB)), 0);
  synchronize();
  long before = driver.count[FAKE_INFO];
  ck_assert(reserve(GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert_int_eq(driver.count[FAKE_INFO], before);
  driver.now_ns += SECOND; /* its last word is old */
  ck_assert(reserve(GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert_int_eq(driver.count[FAKE_INFO], before + 1);
  stop();
}
END_TEST

START_TEST(test_where_the_pool_has_nothing_the_driver_is_not_asked)
{
  begin(NULL, 8 * GP_MIB, true);
  (void)allocate(6 * GP_MIB);
  long before = driver.count[FAKE_INFO];
  ck_assert(reserve(4 * GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert_int_eq(driver.count[FAKE_INFO], before);
  stop();
}
END_TEST

/* No call may be made. */
START_TEST(test_not_beside_a_capture)
{
  begin_full();
  gp_engine_suspend(engine);
  long before = driver.calls;
  ck_assert(reserve(4 * GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert_int_eq(driver.calls, before);
  gp_engine_resume(engine);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("forwarded");
  TCase *tests = tcase_create("room");
  tcase_add_loop_test(tests, test_idle_memory_makes_room_before_the_driver_is_asked, 0, 3);
  tcase_add_loop_test(tests, test_beside_work_it_has_the_patience, 0, 3);
  tcase_add_test(tests, test_other_memory_is_asked_for_first);
  tcase_add_test(tests, test_what_fits_takes_nothing_back);
  tcase_add_test(tests, test_what_cannot_fit_takes_nothing_back);
  tcase_add_test(tests, test_where_there_is_ample_memory_the_driver_is_not_asked);
  tcase_add_test(tests, test_where_the_pool_has_nothing_the_driver_is_not_asked);
  tcase_add_test(tests, test_not_beside_a_capture);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
