/*
 * What a user may change while the program runs, over the fake driver.
 */
#include <stdio.h>

#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

/* The limit of every device, as a user writes it. */
static uint64_t limit_to(const char *text)
{
  char setting[64];
  gp_options_t options;
  snprintf(setting, sizeof(setting), "GPUPOOL_LIMIT=%s", text);
  fake_options(&options, (const char *const[]){setting, NULL});
  return gp_engine_set_limits(engine, options.limits);
}

START_TEST(test_a_new_limit_refuses_and_gives_idle_memory_back)
{
  uint64_t address;
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  uint64_t kept = allocate(4 * GP_MIB);
  uint64_t cached = allocate(2 * GP_MIB);
  uint64_t also_cached = allocate(8 * GP_MIB);
  free_code(cached);
  free_code(also_cached);
  synchronize();
  ck_assert_uint_eq(limit_to("7MiB"), 8 * GP_MIB); /* the largest is enough */
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 7 * GP_MIB);
  ck_assert_uint_eq(driver.used, 6 * GP_MIB);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 8 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(limit_to("none"), 0);
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 0);
  allocate(8 * GP_MIB);
  ck_assert_int_eq(free_code(kept), 0);
  stop();
}
END_TEST

START_TEST(test_a_share_is_of_the_device)
{
  start(NULL, 16 * GP_MIB, true);
  limit_to("25%");
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 4 * GP_MIB);
  gp_driver_context_t other = fake_context(1, 1); /* first seen afterwards */
  ck_assert_ptr_nonnull(gp_engine_context(engine, &other));
  ck_assert_uint_eq(gp_engine_limit(engine, 1), 4 * GP_MIB);
  stop();
}
END_TEST

/* Blocks that the program holds cannot be taken away; but what it frees is not handed out again, it goes
 * back. */
START_TEST(test_a_limit_below_what_is_held_is_kept_as_soon_as_it_can_be)
{
  uint64_t address;
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  uint64_t blocks[4];
  for (int i = 0; i < 4; i++)
    blocks[i] = allocate(4 * GP_MIB);
  ck_assert_uint_eq(limit_to("8MiB"), 0);
  ck_assert(gp_engine_check(engine));
  free_code(blocks[0]);
  synchronize();
  ck_assert_uint_eq(driver.used, 12 * GP_MIB); /* idle memory has gone */
  free_code(blocks[1]);
  synchronize();
  ck_assert_int_eq(gp_engine_alloc(engine, context, 4 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(driver.used, 8 * GP_MIB);
  free_code(blocks[2]);
  synchronize();
  allocate(4 * GP_MIB); /* the limit is kept: pooled as ever */
  ck_assert_uint_eq(stats().cache_hits, 1);
  stop();
}
END_TEST

START_TEST(test_a_valid_limit_mends_a_malformed_one)
{
  gp_options_t options;
  uint64_t address;
  fake_driver_init(&driver, GP_GIB, true);
  gp_driver_t table = fake_driver_table(&driver);
  fake_options(&options, NULL);
  options.limit_malformed = true;
  engine = gp_engine_create(&table, NULL, &options);
  gp_driver_context_t first = fake_context(0, 0);
  context = gp_engine_context(engine, &first);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 1, &address), FAKE_OUT_OF_MEMORY);
  limit_to("2MiB");
  allocate(1);
  stop();
}
END_TEST

START_TEST(test_the_cache_is_emptied_and_no_more)
{
  start(NULL, GP_GIB, true);
  uint64_t live = allocate(2 * GP_MIB);
  uint64_t idle = allocate(4 * GP_MIB);
  free_code(idle);
  synchronize();
  uint64_t pending = allocate(8 * GP_MIB);
  ck_assert_uint_eq(gp_engine_largest_idle(engine, 0), 4 * GP_MIB);
  ck_assert_uint_eq(gp_engine_empty_cache(engine), 4 * GP_MIB);
  ck_assert_uint_eq(driver.used, 10 * GP_MIB);
  fake_submit(&driver, 0, pending);
  free_code(pending);
  ck_assert_uint_eq(gp_engine_empty_cache(engine), 0);
  ck_assert_uint_eq(driver.used, 10 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_WAIT] + driver.count[FAKE_WAIT_AS_FREE], 0); /* for nothing is waited */
  fake_complete(&driver, 0);
  ck_assert_uint_eq(gp_engine_empty_cache(engine), 8 * GP_MIB); /* a fence has told */
  ck_assert_int_eq(driver.busy_frees, 0);
  ck_assert_uint_eq(gp_engine_empty_cache(engine), 0);
  ck_assert_uint_eq(gp_engine_largest_idle(engine, 0), 0);
  ck_assert_int_eq(free_code(live), 0);
  stop();
}
END_TEST

START_TEST(test_what_stayed_idle_does_not_pass_a_lowered_limit)
{
  uint64_t address;
  start(NULL, GP_GIB, true);
  free_code(allocate(4 * GP_MIB));
  synchronize();
  gp_engine_suspend(engine);
  ck_assert_uint_eq(gp_engine_empty_cache(engine), 0);
  ck_assert_uint_eq(limit_to("2MiB"), 0); /* no call of our own now */
  gp_engine_resume(engine);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 4 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  allocate(4096); /* over the limit: what is idle goes back, and there is room */
  ck_assert_uint_eq(driver.used, 4096);
  stop();
}
END_TEST

START_TEST(test_peaks_begin_anew)
{
  start(NULL, GP_GIB, true);
  uint64_t kept = allocate(2 * GP_MIB);
  free_code(allocate(8 * GP_MIB));
  ck_assert_uint_eq(stats().requested_bytes.peak, 10 * GP_MIB);
  gp_engine_reset_peaks(engine, gp_engine_devices(engine));
  ck_assert_uint_eq(stats().requested_bytes.peak, 2 * GP_MIB);
  ck_assert_uint_eq(stats().requested_bytes.allocated, 10 * GP_MIB);
  ck_assert_uint_eq(stats().reserved_bytes.peak, 10 * GP_MIB);
  ck_assert_int_eq(free_code(kept), 0);
  stop();
}
END_TEST

START_TEST(test_windows_of_peaks)
{
  gp_stats_t window;
  start(NULL, GP_GIB, true);
  uint64_t kept = allocate(2 * GP_MIB);
  free_code(allocate(8 * GP_MIB));
  gp_engine_turn_peaks(engine, 0, false, &window);
  ck_assert_uint_eq(window.requested_bytes.peak, 10 * GP_MIB);
  free_code(allocate(4 * GP_MIB));
  gp_engine_turn_peaks(engine, 0, false, &window);
  ck_assert_uint_eq(window.requested_bytes.peak, 6 * GP_MIB);
  ck_assert_uint_eq(window.requested_bytes.allocated, 14 * GP_MIB);
  ck_assert_uint_eq(stats().requested_bytes.peak, 10 * GP_MIB); /* others see all windows */
  free_code(allocate(16 * GP_MIB));
  ck_assert_uint_eq(stats().requested_bytes.peak, 18 * GP_MIB);
  gp_engine_turn_peaks(engine, 0, true, &window); /* and the peaks are reset, too */
  ck_assert_uint_eq(window.requested_bytes.peak, 18 * GP_MIB);
  ck_assert_uint_eq(stats().requested_bytes.peak, 2 * GP_MIB);
  free_code(allocate(4 * GP_MIB));
  gp_engine_reset_peaks(engine, gp_engine_devices(engine));
  ck_assert_uint_eq(stats().requested_bytes.peak, 2 * GP_MIB);
  ck_assert_int_eq(free_code(kept), 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("release");
  TCase *adjust = tcase_create("adjust");
  tcase_add_test(adjust, test_a_new_limit_refuses_and_gives_idle_memory_back);
  tcase_add_test(adjust, test_a_share_is_of_the_device);
  tcase_add_test(adjust, test_a_limit_below_what_is_held_is_kept_as_soon_as_it_can_be);
  tcase_add_test(adjust, test_a_valid_limit_mends_a_malformed_one);
  tcase_add_test(adjust, test_the_cache_is_emptied_and_no_more);
  tcase_add_test(adjust, test_what_stayed_idle_does_not_pass_a_lowered_limit);
  tcase_add_test(adjust, test_peaks_begin_anew);
  tcase_add_test(adjust, test_windows_of_peaks);
  suite_add_tcase(suite, adjust);
  return gp_check_main(suite);
}
