/*
 * Requests that a caller would rather pass on than have served by anything but memory that the pool keeps
 * (gp_engine_alloc_kept, gp_engine_free_kept): what is left to it leaves no trace.
 */
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define BLOCK (GP_MIB / 2)

/* Nothing is served, no driver is called, nothing is counted. */
static void expect_no_alloc(uint64_t bytes)
{
  gp_stats_t before = stats();
  long calls = driver.calls;
  uint64_t address = 7;

  ck_assert(!gp_engine_alloc_kept(engine, context, bytes, &address));
  ck_assert_uint_eq(address, 7);
  gp_stats_t after = stats();
  ck_assert_mem_eq(&before, &after, sizeof(before));
  ck_assert_int_eq(driver.calls, calls);
}

static void expect_no_free(uint64_t address)
{
  gp_stats_t before = stats();
  long calls = driver.calls;

  ck_assert(!gp_engine_free_kept(engine, address));
  gp_stats_t after = stats();
  ck_assert_mem_eq(&before, &after, sizeof(before));
  ck_assert_int_eq(driver.calls, calls);
}

static const char *const types[][2] = {{NULL}, {"GPUPOOL_TYPE=segment", NULL}, {"GPUPOOL_TYPE=vmm", NULL}};

START_TEST(test_hits_and_frees_are_those_of_the_other_way)
{
  uint64_t address = 0;

  start(types[_i], GP_GIB, true);
  uint64_t block = allocate(BLOCK);
  ck_assert(gp_engine_free_kept(engine, block));
  expect_no_free(block); /* a second time */
  synchronize();
  uint64_t hits = stats().cache_hits;
  ck_assert(gp_engine_alloc_kept(engine, context, BLOCK, &address));
  ck_assert_uint_eq(address, block);
  ck_assert_uint_eq(stats().cache_hits, hits + 1);
  ck_assert_uint_eq(stats().requested_bytes.current, BLOCK);
  ck_assert_int_eq(free_code(address), 0);
  stop();
}
END_TEST

START_TEST(test_what_is_not_there_is_left)
{
  start(NULL, GP_GIB, true);
  expect_no_alloc(BLOCK);
  expect_no_alloc(0);
  expect_no_alloc(UINT64_MAX);
  expect_no_free(4096);
  uint64_t block = allocate(BLOCK);
  fake_submit(&driver, 0, block);
  ck_assert(gp_engine_free_kept(engine, block));
  expect_no_alloc(BLOCK); /* the device may use it still */
  synchronize();
  expect_no_free(block);
  expect_no_free(block + 512);
  stop();
}
END_TEST

START_TEST(test_what_goes_to_the_driver_is_left)
{
  start(NULL, GP_GIB, true);
  uint64_t block = allocate(BLOCK);
  gp_engine_taint(engine, block);
  expect_no_free(block);
  ck_assert_int_eq(free_code(block), 0);
  stop();

  static const char *const unpooled[] = {"GPUPOOL_TYPE=unpooled", NULL};
  start(unpooled, GP_GIB, true);
  expect_no_alloc(BLOCK);
  block = allocate(BLOCK);
  expect_no_free(block);
  ck_assert_int_eq(free_code(block), 0);
  stop();

  static const char *const strict[] = {"GPUPOOL_REUSE=strict", NULL};
  start(strict, GP_GIB, true);
  block = allocate(BLOCK);
  expect_no_free(block);
  ck_assert_int_eq(free_code(block), 0);
  uint64_t address;
  ck_assert(gp_engine_alloc_kept(engine, context, BLOCK, &address));
  ck_assert_int_eq(free_code(address), 0);
  stop();
}
END_TEST

/* Beside captures, while suspended, after a sticky error, over a limit that was lowered. */
START_TEST(test_nothing_is_served_where_not_everything_is)
{
  start(NULL, GP_GIB, true);
  uint64_t block = allocate(BLOCK), held = allocate(BLOCK);
  ck_assert_int_eq(free_code(block), 0);
  synchronize();
  gp_suspension_t capture = gp_engine_suspend_in(engine, context, GP_REACH_NONE);
  expect_no_alloc(BLOCK);
  expect_no_free(held);
  gp_engine_resume_in(engine, &capture);
  gp_engine_suspend(engine);
  expect_no_alloc(BLOCK);
  expect_no_free(held);
  gp_engine_resume(engine);
  ck_assert(gp_engine_alloc_kept(engine, context, BLOCK, &block));
  ck_assert(gp_engine_free_kept(engine, held));
  synchronize();
  gp_engine_note_result(engine, FAKE_STICKY);
  expect_no_alloc(BLOCK);
  expect_no_free(block);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("kept");
  TCase *tests = tcase_create("kept");
  tcase_add_loop_test(
      tests, test_hits_and_frees_are_those_of_the_other_way, 0, (int)(sizeof(types) / sizeof(*types)));
  tcase_add_test(tests, test_what_is_not_there_is_left);
  tcase_add_test(tests, test_what_goes_to_the_driver_is_left);
  tcase_add_test(tests, test_nothing_is_served_where_not_everything_is);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
