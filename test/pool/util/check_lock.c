/*
 * What a debug build asserts about locks: their order, and that none is held across a call of the driver. The
 * fake driver requires the latter of every call that any test of the engine makes.
 */
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "pool/driver_calls.h"
#include "test/pool/engine_fixture.h"

static void begin(void)
{
  start(NULL, GP_GIB, true);
  gp_lock_take(&engine->devices[0].lock);
}

START_TEST(test_wait_with_a_lock)
{
  begin();
  (void)gp_driver_wait(engine, &context->driver);
}
END_TEST

START_TEST(test_alloc_with_a_lock)
{
  uint64_t address;
  begin();
  (void)gp_driver_alloc(engine, &context->driver, 512, &address);
}
END_TEST

START_TEST(test_free_with_a_lock)
{
  begin();
  (void)gp_driver_free(engine, &context->driver, 512);
}
END_TEST

START_TEST(test_info_with_a_lock)
{
  uint64_t bytes;
  begin();
  (void)gp_driver_memory_info(engine, &context->driver, &bytes, &bytes);
}
END_TEST

START_TEST(test_fence_with_a_lock)
{
  void *fence = NULL;
  begin();
  (void)gp_driver_fence_record(engine, &context->driver, &fence);
}
END_TEST

START_TEST(test_query_with_a_lock)
{
  begin();
  (void)gp_driver_fence_query(engine, &context->driver, NULL);
}
END_TEST

START_TEST(test_order_with_a_lock)
{
  begin();
  (void)gp_driver_order(engine, &context->driver, 0);
}
END_TEST

START_TEST(test_locks_in_the_wrong_order)
{
  begin();
  gp_lock_take(&engine->contexts_lock);
}
END_TEST

START_TEST(test_locks_in_the_right_order)
{
  start(NULL, GP_GIB, true);
  gp_lock_take(&engine->contexts_lock);
  gp_lock_take(&engine->devices[0].lock);
  gp_lock_release(&engine->devices[0].lock);
  gp_lock_release(&engine->contexts_lock);
  ck_assert_uint_eq(gp_locks_held(), 0);
  ck_assert_int_eq(gp_driver_wait(engine, &context->driver), 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("lock");
  TCase *locks = tcase_create("locks");
  if (GP_DEBUG_LEVEL >= 1) {
    tcase_add_test_raise_signal(locks, test_wait_with_a_lock, SIGABRT);
    tcase_add_test_raise_signal(locks, test_alloc_with_a_lock, SIGABRT);
    tcase_add_test_raise_signal(locks, test_free_with_a_lock, SIGABRT);
    tcase_add_test_raise_signal(locks, test_info_with_a_lock, SIGABRT);
    tcase_add_test_raise_signal(locks, test_fence_with_a_lock, SIGABRT);
    tcase_add_test_raise_signal(locks, test_query_with_a_lock, SIGABRT);
    tcase_add_test_raise_signal(locks, test_order_with_a_lock, SIGABRT);
    tcase_add_test_raise_signal(locks, test_locks_in_the_wrong_order, SIGABRT);
  }
  tcase_add_test(locks, test_locks_in_the_right_order);
  suite_add_tcase(suite, locks);
  SRunner *runner = srunner_create(suite); /* with a fork for each: asserts end the process */
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
