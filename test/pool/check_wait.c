/*
 * Waiting for the device by polling: how long, for what, and what the library says of it. Over the fake
 * driver.
 */
#include "pool/engine_record.h"
#include "pool/reuse/wait.h"

#include <stdio.h>

#include "base/log.h"
#include "test/pool/check_main.h"
#include "test/pool/wait_fixture.h"

START_TEST(test_later_work_has_the_patience)
{
  (void)fill_with_small("GPUPOOL_PATIENCE=3");
  refuse(SMALL);
  ck_assert_uint_eq(passed_ns(), 3 * SECOND);
  ck_assert_uint_eq(oom.waited_ns, 3 * SECOND);
  ck_assert_uint_eq(oom.busy_context, 100);
  ck_assert_uint_eq(oom.busy_ns, 3 * SECOND);
  ck_assert_uint_eq(stats().host_waits, 1);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_the_default_patience)
{
  (void)fill_with_small(NULL);
  refuse(SMALL);
  ck_assert_uint_eq(passed_ns(), 2 * SECOND);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_later_work_that_ends_in_time)
{
  uint64_t block = fill_with_small("GPUPOOL_PATIENCE=3");
  driver.complete_at_ns[0] = driver.now_ns + 2900 * MILLISECOND;
  ck_assert_uint_eq(allocate(SMALL), block);
  ck_assert_uint_ge(passed_ns(), 2900 * MILLISECOND);
  ck_assert_uint_le(passed_ns(), 2901 * MILLISECOND); /* it polls once a millisecond */
  ck_assert_uint_eq(oom.requested, 0);
  stop();
}
END_TEST

START_TEST(test_work_before_the_free_has_a_minute)
{
  (void)fill_with_large(NULL);
  refuse(LARGE);
  ck_assert_uint_eq(passed_ns(), 60 * SECOND);
  ck_assert_uint_eq(oom.waited_ns, 60 * SECOND);
  ck_assert_uint_eq(oom.busy_context, 100);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  ck_assert_int_eq(driver.busy_frees, 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_work_before_the_free_that_ends_in_time)
{
  uint64_t block = fill_with_large("GPUPOOL_PATIENCE=0");
  driver.complete_at_ns[0] = driver.now_ns + 59 * SECOND;
  ck_assert_uint_eq(allocate(LARGE), block);
  ck_assert_uint_le(passed_ns(), 59 * SECOND + MILLISECOND);
  stop();
}
END_TEST

/* What was submitted after the free is not waited for: the fence at the free has passed. */
START_TEST(test_later_work_does_not_hold_what_was_freed_before)
{
  begin("GPUPOOL_PATIENCE=0", LARGE, true);
  uint64_t block = allocate(LARGE);
  ck_assert_int_eq(free_code(block), 0);
  fake_submit(&driver, 0, block);
  ck_assert_uint_eq(allocate(LARGE), block);
  ck_assert_uint_eq(passed_ns(), 0);
  stop();
}
END_TEST

/* In mode strict the free has waited as the driver's does. That one may return beside the work. Here each
 * free records a fence. */
START_TEST(test_in_strict_work_before_the_free_has_a_minute_where_the_free_returns)
{
  const uint64_t bytes = _i ? LARGE : SMALL;
  begin("GPUPOOL_REUSE=strict", bytes, true);
  driver.free_returns = true;
  uint64_t block = allocate(bytes);
  free_busy(block);
  ck_assert_int_eq(driver.count[FAKE_WAIT_AS_FREE], 1);
  ck_assert_uint_eq(passed_ns(), 0);
  driver.complete_at_ns[0] = driver.now_ns + 59 * SECOND;
  ck_assert_uint_eq(allocate(bytes), block);
  ck_assert_uint_ge(passed_ns(), 59 * SECOND);
  driver.complete_at_ns[0] = 0;
  free_busy(block);
  refuse(bytes);
  ck_assert_uint_le(passed_ns(), 119 * SECOND + MILLISECOND);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* Another thread frees a block with work again and again. */
static uint64_t small[2];

static void free_another(void)
{
  uint64_t now = 0;

  fake_complete(&driver, 0);
  if (gp_engine_alloc(engine, context, SMALL, &now) == 0) {
    fake_submit(&driver, 0, now);
    (void)free_code(now);
  }
}

/* The time for what it frees is not taken from the wait for a quiet device, which is seen to get on. */
START_TEST(test_what_others_free_meanwhile_is_not_waited_for)
{
  begin(NULL, LARGE + 2 * SMALL, true);
  uint64_t idle[2] = {allocate(LARGE / 2), allocate(LARGE / 2)};
  for (int i = 0; i < 2; i++)
    small[i] = allocate(SMALL);
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(free_code(idle[i]), 0);
  synchronize();
  for (int i = 0; i < 2; i++)
    free_busy(small[i]);
  driver.on_pause = free_another;
  (void)allocate(LARGE);
  ck_assert_uint_le(passed_ns(), 100 * MILLISECOND);
  driver.on_pause = NULL;
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* Lines that the engine wrote while body ran. */
static int lines_of(void (*body)(void))
{
  FILE *file = tmpfile();
  char line[GP_LOG_LINE_BYTES];
  int count = 0;

  ck_assert_ptr_nonnull(file);
  gp_log_init(0, fileno(file));
  body();
  gp_log_init(0, -1);
  rewind(file);
  while (fgets(line, sizeof(line), file))
    count += strstr(line, "an allocation is waiting") && strstr(line, "context 100");
  (void)fclose(file);
  return count;
}

static void wait_shortly(void)
{
  driver.complete_at_ns[0] = driver.now_ns + 1900 * MILLISECOND;
  (void)allocate(LARGE);
}

static void wait_for_long(void)
{
  driver.complete_at_ns[0] = driver.now_ns + 9 * SECOND;
  (void)allocate(LARGE);
}

START_TEST(test_a_long_wait_is_told_once)
{
  (void)fill_with_large(NULL);
  ck_assert_int_eq(lines_of(_i ? wait_for_long : wait_shortly), _i);
  stop();
}
END_TEST

START_TEST(test_misses_do_not_wait)
{
  begin("GPUPOOL_MAX_DEFERRED=none", GP_GIB, true);
  uint64_t block = allocate(GP_MIB);
  free_busy(block);
  for (int i = 0; i < 6; i++)
    ck_assert_uint_ne(allocate(GP_MIB), block); /* the pool grows */
  fake_complete(&driver, 0);
  ck_assert_uint_eq(allocate(GP_MIB), block);
  ck_assert_uint_eq(passed_ns(), 0);
  ck_assert_uint_eq(stats().host_waits, 0);
  stop();
}
END_TEST

START_TEST(test_patience_is_spent_once)
{
  uint64_t block = fill_with_small(NULL);
  for (int i = 0; i < 6; i++) {
    refuse(SMALL);
    ck_assert_uint_eq(oom.busy_context, 100); /* though it did not wait */
    ck_assert_uint_eq(oom.waited_ns, i == 0 ? 2 * SECOND : 0);
  }
  ck_assert_uint_eq(passed_ns(), 2 * SECOND);

  fake_complete(&driver, 0);
  ck_assert_uint_eq(allocate(SMALL), block);
  free_busy(block);
  refuse(SMALL);
  ck_assert_uint_eq(passed_ns(), 4 * SECOND);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* The driver's free of idle memory may wait for work: a moment without any is waited for, by polling. */
START_TEST(test_idle_memory_goes_back_when_the_device_is_quiet)
{
  begin(NULL, 10 * GP_MIB, _i < 2);
  uint64_t block = allocate(6 * GP_MIB);
  uint64_t busy = allocate(GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  synchronize();
  fake_submit(&driver, 0, busy);
  if (_i % 2) {
    driver.complete_at_ns[0] = driver.now_ns + SECOND;
    (void)allocate(8 * GP_MIB);
    ck_assert_int_eq(driver.count[FAKE_FREE], 1);
    ck_assert_uint_le(passed_ns(), SECOND + MILLISECOND);
  } else {
    refuse(8 * GP_MIB);
    ck_assert_int_eq(driver.count[FAKE_FREE], 0);
    ck_assert_uint_eq(passed_ns(), 2 * SECOND);
    ck_assert_uint_eq(oom.waited_ns, 2 * SECOND);
    ck_assert_uint_eq(oom.busy_context, 100);
  }
  ck_assert_int_eq(driver.busy_frees, 0);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* A driver without fences over contexts. _i: the work of a known stream ends in time. */
START_TEST(test_the_synchronous_call_comes_when_known_streams_are_idle)
{
  begin(NULL, GP_MIB, false);
  uint64_t block = allocate(GP_MIB);
  free_busy(block);
  if (_i) {
    driver.complete_at_ns[0] = driver.now_ns + SECOND;
    ck_assert_uint_eq(allocate(GP_MIB), block);
    ck_assert_int_eq(driver.count[FAKE_WAIT], 1);
    ck_assert_uint_ge(passed_ns(), SECOND);
  } else {
    refuse(GP_MIB);
    ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
    ck_assert_uint_eq(passed_ns(), 2 * SECOND);
    ck_assert_uint_eq(oom.busy_context, 100);
    fake_complete(&driver, 0);
  }
  stop();
}
END_TEST

/* Without fences nothing bounds what is deferred, so a free beyond the bound goes to the driver. */
START_TEST(test_a_free_beyond_the_bound_goes_to_the_driver)
{
  begin("GPUPOOL_MAX_DEFERRED=64MiB", GP_GIB, false);
  uint64_t first = allocate(LARGE), second = allocate(GP_MIB);
  ck_assert_int_eq(free_code(first), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  ck_assert_int_eq(free_code(second), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  ck_assert_uint_eq(stats().deferred_bytes.current, LARGE);
  synchronize(); /* proves that the deferred memory is complete */
  ck_assert_int_eq(free_code(allocate(GP_MIB)), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  stop();
}
END_TEST

/* On a device that is nearly full the next allocation may need the memory, and waits for no work before it.
 */
START_TEST(test_a_free_on_a_full_device_goes_to_the_driver)
{
  begin("GPUPOOL_LIMIT=66MiB", GP_GIB, false);
  uint64_t block = allocate(2 * GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  block = allocate(LARGE);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  stop();
}
END_TEST

/* Without fences streams show whether the device gets on. */
START_TEST(test_a_stream_that_got_through_gives_new_patience)
{
  gp_driver_context_t other = fake_context(1, 0);
  begin(NULL, SMALL, false);
  (void)gp_engine_context(engine, &other);
  uint64_t block = allocate(SMALL);
  free_busy(block);
  refuse(SMALL);
  refuse(SMALL);
  ck_assert_uint_eq(passed_ns(), 2 * SECOND);
  fake_complete(&driver, 0);
  fake_submit(&driver, 1, block); /* other work has come */
  driver.complete_at_ns[1] = driver.now_ns + SECOND;
  ck_assert_uint_eq(allocate(SMALL), block);
  ck_assert_uint_ge(passed_ns(), 3 * SECOND);
  ck_assert_int_eq(driver.busy_frees, 0);
  stop();
}
END_TEST

static int pauses;
static uint64_t last_ns, shortest_ns, longest_ns, first_ns;

static void measure_pause(void)
{
  uint64_t pause_ns = driver.now_ns - last_ns;
  last_ns = driver.now_ns;
  if (pauses++ == 0)
    first_ns = shortest_ns = longest_ns = pause_ns;
  shortest_ns = pause_ns < shortest_ns ? pause_ns : shortest_ns;
  longest_ns = pause_ns > longest_ns ? pause_ns : longest_ns;
}

START_TEST(test_pauses_grow_from_20_microseconds_to_a_millisecond)
{
  (void)fill_with_small(NULL);
  pauses = 0;
  last_ns = driver.now_ns;
  driver.on_pause = measure_pause;
  driver.complete_at_ns[0] = driver.now_ns + SECOND;
  miss();
  ck_assert_uint_eq(first_ns, 20000);
  ck_assert_uint_eq(shortest_ns, 20000);
  ck_assert_uint_eq(longest_ns, MILLISECOND);
  ck_assert_int_lt(pauses, 1010);
  stop();
}
END_TEST

/* The device gets on, and the next work is always there. */
static void replace_work(void)
{
  if (pauses++ < 50)
    return;
  driver.completed[0] = driver.submitted[0]++;
}

START_TEST(test_a_device_that_is_always_busy_and_gets_on_will_do)
{
  gp_oom_attempts_t attempts = {.next_step = 0};

  (void)fill_with_small(NULL);
  pauses = 0;
  driver.on_pause = replace_work;
  uint64_t before_ns = driver.now_ns;
  ck_assert(gp_wait_until_quiet(engine, context->device, &attempts));
  ck_assert_int_ge(pauses, 60);
  ck_assert_int_le(pauses, 64); /* ten milliseconds more */
  ck_assert_uint_lt(driver.now_ns - before_ns, 65 * MILLISECOND);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* The driver's own free would not have waited for another device: its work has the patience, not a minute. */
START_TEST(test_work_of_another_device_is_later_work)
{
  gp_driver_context_t other = fake_context(1, 1);
  gp_oom_attempts_t attempts = {.next_step = 0};

  begin(NULL, LARGE, true);
  ck_assert_ptr_nonnull(gp_engine_context(engine, &other));
  uint64_t block = allocate(LARGE);
  driver.submitted[1]++;
  ck_assert_int_eq(free_code(block), 0);
  ck_assert(!gp_wait_for_deferred(engine, context->device, &attempts));
  ck_assert_uint_eq(passed_ns(), 2 * SECOND);
  fake_complete(&driver, 1);
  stop();
}
END_TEST

static void complete_in_turn(void)
{
  if (passed_ns() >= 3 * SECOND)
    fake_complete(&driver, 0);
  else if (passed_ns() >= 3 * SECOND / 2)
    driver.completed[0] = driver.submitted[0] - 1;
}

/* Two kernels of a second and a half, and a fence between them: longer than the patience, together. */
START_TEST(test_patience_begins_anew_when_the_work_gets_on)
{
  gp_oom_attempts_t attempts = {.next_step = 0};

  (void)fill_with_large(NULL);
  driver.submitted[0]++;
  driver.on_pause = complete_in_turn;
  ck_assert(gp_wait_until_quiet(engine, context->device, &attempts));
  ck_assert_uint_ge(passed_ns(), 3 * SECOND);
  stop();
}
END_TEST

/* Another thread submits a kernel that does not end, when the first work is nearly complete. */
static void come_to_stay(void)
{
  if (pauses++ == 50)
    driver.completed[0] = driver.submitted[0]++;
}

START_TEST(test_a_kernel_that_comes_meanwhile_and_stays_is_waited_for_no_longer_than_the_patience)
{
  gp_oom_attempts_t attempts = {.next_step = 0};

  (void)fill_with_small(NULL);
  pauses = 0;
  driver.on_pause = come_to_stay;
  uint64_t before_ns = driver.now_ns;
  ck_assert(!gp_wait_until_quiet(engine, context->device, &attempts));
  ck_assert_uint_ge(driver.now_ns - before_ns, 2 * SECOND);
  ck_assert_uint_lt(driver.now_ns - before_ns, 3 * SECOND);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("wait");
  TCase *time = tcase_create("time");
  tcase_add_test(time, test_later_work_has_the_patience);
  tcase_add_test(time, test_the_default_patience);
  tcase_add_test(time, test_later_work_that_ends_in_time);
  tcase_add_test(time, test_work_before_the_free_has_a_minute);
  tcase_add_test(time, test_work_before_the_free_that_ends_in_time);
  tcase_add_test(time, test_what_others_free_meanwhile_is_not_waited_for);
  tcase_add_test(time, test_later_work_does_not_hold_what_was_freed_before);
  tcase_add_loop_test(time, test_in_strict_work_before_the_free_has_a_minute_where_the_free_returns, 0, 2);
  tcase_add_loop_test(time, test_a_long_wait_is_told_once, 0, 2);
  tcase_add_test(time, test_misses_do_not_wait);
  tcase_add_test(time, test_patience_is_spent_once);
  tcase_add_loop_test(time, test_idle_memory_goes_back_when_the_device_is_quiet, 0, 4);
  tcase_add_loop_test(time, test_the_synchronous_call_comes_when_known_streams_are_idle, 0, 2);
  tcase_add_test(time, test_a_free_beyond_the_bound_goes_to_the_driver);
  tcase_add_test(time, test_a_free_on_a_full_device_goes_to_the_driver);
  tcase_add_test(time, test_a_stream_that_got_through_gives_new_patience);
  tcase_add_test(time, test_pauses_grow_from_20_microseconds_to_a_millisecond);
  tcase_add_test(time, test_a_device_that_is_always_busy_and_gets_on_will_do);
  tcase_add_test(time, test_work_of_another_device_is_later_work);
  tcase_add_test(time, test_patience_begins_anew_when_the_work_gets_on);
  tcase_add_test(
      time, test_a_kernel_that_comes_meanwhile_and_stays_is_waited_for_no_longer_than_the_patience);
  suite_add_tcase(suite, time);
  return gp_check_main(suite);
}
