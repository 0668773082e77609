/*
 * What goes on while the engine waits for the device by polling: it holds nothing, and captures, the ends of
 * contexts and errors come through. Over the fake driver.
 */
#include "pool/reuse/wait.h"

#include "pool/reuse/mode.h"
#include "pool/reuse/fences.h"
#include "test/pool/check_main.h"
#include "test/pool/wait_fixture.h"

static int pauses;
static bool was_clear;

/* Nothing of the engine's is held that another thread could wait for. */
static void look_at_what_is_held(void)
{
  pauses++;
  was_clear = was_clear && gp_locks_held() == 0 && atomic_load(&engine->own_calls) == 0 &&
              atomic_load(&engine->own_waits) == 0 && !atomic_flag_test_and_set(&context->fences.busy);
  atomic_flag_clear(&context->fences.busy);
}

static void wait_for_quiet(void)
{
  gp_oom_attempts_t attempts = {.next_step = 0};
  (void)gp_wait_until_quiet(engine, context->device, &attempts);
}

START_TEST(test_nothing_is_held_in_a_pause)
{
  (void)fill_with_small(NULL);
  pauses = 0;
  was_clear = true;
  driver.on_pause = look_at_what_is_held;
  (_i ? wait_for_quiet : miss)();
  ck_assert_int_gt(pauses, 1000);
  ck_assert(was_clear);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

static long calls_at_capture;
static gp_suspension_t capture;

/* A capture of another thread: begins in the 5th pause, ends in the 100th. */
static void capture_meanwhile(void)
{
  pauses++;
  if (pauses == 5) {
    uint64_t before_ns = driver.now_ns;
    capture = gp_engine_suspend_in(engine, context, GP_REACH_THREADS);
    ck_assert_uint_eq(driver.now_ns, before_ns); /* it begins at once */
    calls_at_capture = driver.calls;
  } else if (pauses == 100) {
    ck_assert_int_eq(driver.calls, calls_at_capture); /* and is not disturbed */
    gp_engine_resume_in(engine, &capture);
  }
}

START_TEST(test_captures_begin_meanwhile)
{
  uint64_t block = fill_with_small(NULL);
  pauses = 0;
  driver.on_pause = capture_meanwhile;
  driver.complete_at_ns[0] = driver.now_ns + SECOND;
  if (_i) {
    wait_for_quiet();
    ck_assert(gp_fences_are_quiet(engine, NULL));
  } else {
    ck_assert_uint_eq(allocate(SMALL), block); /* the wait goes on after the capture */
  }
  ck_assert_int_gt(pauses, 100);
  ck_assert_uint_ge(passed_ns(), SECOND);
  stop();
}
END_TEST

static gp_context_t *second;

static void lose_second(void)
{
  if (pauses++ == 5)
    gp_engine_context_lost(engine, second);
}

START_TEST(test_a_context_that_ends_meanwhile_holds_nothing_back)
{
  gp_driver_context_t other = fake_context(1, 0);
  begin(NULL, SMALL, true);
  second = gp_engine_context(engine, &other);
  uint64_t block = allocate(SMALL);
  fake_submit(&driver, 1, block);
  ck_assert_int_eq(free_code(block), 0);
  pauses = 0;
  driver.on_pause = lose_second;
  if (_i)
    wait_for_quiet();
  ck_assert_uint_eq(allocate(SMALL), block);
  ck_assert_int_eq(pauses, 6);
  fake_complete(&driver, 1);
  stop();
}
END_TEST

static void end_waits(void)
{
  if (pauses++ != 5)
    return;
  if (driver.fail_code == FAKE_STICKY)
    gp_engine_note_result(engine, FAKE_STICKY);
  else
    gp_engine_stop_pooling(engine);
}

/* 0: pooling stops, so that the memory will not be handed out; 1: the device has failed. */
START_TEST(test_a_wait_for_the_pool_ends_with_pooling)
{
  gp_oom_attempts_t attempts = {.next_step = 0};

  (void)fill_with_small(NULL);
  pauses = 0;
  driver.fail_code = _i ? FAKE_STICKY : 0;
  driver.on_pause = end_waits;
  ck_assert(!gp_wait_for_deferred(engine, context->device, &attempts));
  ck_assert_int_eq(pauses, 6);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_a_wait_for_quiet_outlives_pooling_but_not_the_device)
{
  gp_oom_attempts_t attempts = {.next_step = 0};

  (void)fill_with_small(NULL);
  pauses = 0;
  driver.fail_code = _i ? FAKE_STICKY : 0;
  driver.on_pause = end_waits;
  driver.complete_at_ns[0] = driver.now_ns + SECOND;
  ck_assert_int_eq(gp_wait_until_quiet(engine, context->device, &attempts), !_i);
  ck_assert_int_eq(pauses > 6, !_i);
  stop();
}
END_TEST

START_TEST(test_nothing_is_waited_for_where_it_is_of_no_use)
{
  gp_oom_attempts_t attempts = {.next_step = 0};

  begin(NULL, GP_GIB, true);
  ck_assert(!gp_wait_for_deferred(engine, context->device, &attempts)); /* nothing is deferred */
  free_busy(allocate(GP_MIB));
  gp_engine_suspend(engine); /* perhaps by this thread */
  ck_assert(!gp_wait_for_deferred(engine, context->device, &attempts));
  ck_assert(!gp_wait_until_quiet(engine, context->device, &attempts));
  gp_engine_resume(engine);
  ck_assert_uint_eq(passed_ns(), 0);
  fake_complete(&driver, 0);
  ck_assert(gp_wait_until_quiet(engine, context->device, &attempts));
  ck_assert_uint_eq(passed_ns(), 0);
  ck_assert(!attempts.has_timed_out);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("wait meanwhile");
  TCase *others = tcase_create("meanwhile");
  tcase_add_loop_test(others, test_nothing_is_held_in_a_pause, 0, 2);
  tcase_add_loop_test(others, test_captures_begin_meanwhile, 0, 2);
  tcase_add_loop_test(others, test_a_context_that_ends_meanwhile_holds_nothing_back, 0, 2);
  tcase_add_loop_test(others, test_a_wait_for_the_pool_ends_with_pooling, 0, 2);
  tcase_add_loop_test(others, test_a_wait_for_quiet_outlives_pooling_but_not_the_device, 0, 2);
  tcase_add_test(others, test_nothing_is_waited_for_where_it_is_of_no_use);
  suite_add_tcase(suite, others);
  return gp_check_main(suite);
}
