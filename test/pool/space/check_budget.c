/*
 * GPUPOOL_SLACK: what counts as use, who borrows beyond the budget, and which idle blocks go back for it.
 * Over the fake driver, which counts frees beside work.
 */
#include "pool/engine_record.h"
#include "pool/space/budget.h"

#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define SETTINGS(...)                                                                                        \
  ((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_IDLE_RELEASE=0", __VA_ARGS__, NULL})

#define MANY 8u

static void free_now(uint64_t block)
{
  ck_assert_int_eq(free_code(block), 0);
}

static uint64_t budget(void)
{
  gp_lock_take(&context->device->lock);
  uint64_t bytes = gp_budget_bytes(engine, context->device);
  gp_lock_release(&context->device->lock);
  return bytes;
}

/* Eight idle blocks of which each is as large as `bytes`, while nothing is in use; they are the peak. */
static void leave_idle(uint64_t bytes, uint64_t *ret_blocks)
{
  for (unsigned i = 0; i < MANY; i++)
    ret_blocks[i] = allocate(bytes);
  for (unsigned i = 0; i < MANY; i++)
    free_now(ret_blocks[i]);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, MANY * bytes);
}

START_TEST(test_the_budget_follows_the_highest_use)
{
  start(SETTINGS("GPUPOOL_SLACK=25%"), 64 * GP_GIB, true);
  ck_assert_uint_eq(budget(), 64 * GP_MIB); /* a share is never less */
  uint64_t block = allocate(GP_GIB);
  ck_assert_uint_eq(budget(), GP_GIB + GP_GIB / 4);
  free_now(block);
  ck_assert_uint_eq(budget(), GP_GIB + GP_GIB / 4);
  stop();
  start(SETTINGS("GPUPOOL_SLACK=3MiB"), 64 * GP_GIB, true);
  (void)allocate(GP_GIB);
  ck_assert_uint_eq(budget(), GP_GIB + 3 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_what_the_device_may_still_use_counts_as_use)
{
  start(SETTINGS("GPUPOOL_SLACK=0", "GPUPOOL_MAX_DEFERRED=none"), 64 * GP_GIB, true);
  uint64_t first = allocate(100 * GP_MIB);
  fake_submit(&driver, 0, first);
  free_now(first);
  (void)allocate(200 * GP_MIB);
  ck_assert_uint_eq(budget(), 300 * GP_MIB);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_no_bound)
{
  static const char *const settings[] = {"GPUPOOL_TYPE=unpooled", "GPUPOOL_SLACK=none"};

  for (unsigned i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
    start(SETTINGS(settings[i]), 64 * GP_GIB, true);
    (void)allocate(GP_GIB);
    ck_assert_uint_eq(budget(), UINT64_MAX);
    stop();
  }
}
END_TEST

/* They have a bound of their own, and no say in this one. */
START_TEST(test_parts_do_not_count)
{
  static const char *const types[] = {"GPUPOOL_TYPE=segment", "GPUPOOL_TYPE=vmm"};

  for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    start(SETTINGS(types[i], "GPUPOOL_SLACK=0"), 64 * GP_GIB, true);
    uint64_t part = allocate(GP_GIB);
    ck_assert_uint_eq(budget(), 0);
    free_now(part);
    synchronize();
    gp_engine_taint(engine, allocate(512)); /* from now on large blocks are whole */
    uint64_t whole = allocate(100 * GP_MIB);
    ck_assert_uint_eq(budget(), 100 * GP_MIB);
    free_now(whole);
    ck_assert_uint_eq(budget(), 100 * GP_MIB);
    free_now(allocate(300 * GP_MIB)); /* beyond the budget the other one goes back */
    ck_assert_uint_ge(driver.count[FAKE_FREE], 1);
    ck_assert(gp_engine_check(engine));
    stop();
  }
}
END_TEST

/* Only beyond the budget, and not from one more than twice as large. */
START_TEST(test_a_request_borrows_rather_than_grow_beyond)
{
  start(SETTINGS("GPUPOOL_SLACK=50%"), 64 * GP_GIB, true);
  uint64_t large = allocate(400 * GP_MIB), larger = allocate(600 * GP_MIB);
  free_now(large);
  free_now(larger);
  synchronize();
  uint64_t within = allocate(300 * GP_MIB); /* the budget is 1,500 MiB */
  ck_assert(within != large && within != larger);
  ck_assert_uint_eq(allocate(210 * GP_MIB), large); /* the smallest that fits */
  uint64_t small = allocate(299 * GP_MIB);
  ck_assert(small != larger);
  ck_assert_uint_eq(stats().driver_allocs, 4);
  ck_assert_uint_eq(allocate(300 * GP_MIB), larger);
  ck_assert_uint_eq(stats().cache_hits, 2);
  stop();
}
END_TEST

/* Else each borrowed block would raise the budget. */
START_TEST(test_what_is_borrowed_is_not_use)
{
  start(SETTINGS("GPUPOOL_SLACK=0"), 64 * GP_GIB, true);
  uint64_t large = allocate(400 * GP_MIB);
  free_now(large);
  synchronize();
  ck_assert_uint_eq(allocate(210 * GP_MIB), large);
  uint64_t other = allocate(150 * GP_MIB); /* 360 MiB are needed, and 550 in use */
  ck_assert_uint_eq(budget(), 400 * GP_MIB);
  ck_assert(gp_engine_check(engine));
  free_now(large);
  (void)allocate(500 * GP_MIB); /* the large block is idle, and lends nothing */
  ck_assert_uint_eq(budget(), 650 * GP_MIB);
  ck_assert_uint_ne(other, 0);
  stop();
}
END_TEST

START_TEST(test_nothing_is_borrowed_after_an_export)
{
  start(SETTINGS("GPUPOOL_SLACK=0"), 64 * GP_GIB, true);
  uint64_t large = allocate(400 * GP_MIB);
  free_now(large);
  synchronize();
  gp_engine_expect_exports(engine);
  ck_assert_uint_ne(allocate(210 * GP_MIB), large);
  stop();
}
END_TEST

/* With the class's bytes the new block would serve more sizes. */
START_TEST(test_beyond_the_budget_no_block_gets_its_whole_class)
{
  for (int is_bounded = 0; is_bounded < 2; is_bounded++) {
    start(SETTINGS(is_bounded ? "GPUPOOL_SLACK=0" : "GPUPOOL_SLACK=none"), 64 * GP_GIB, true);
    free_now(allocate(66 * GP_MIB));
    synchronize();
    (void)allocate(68 * GP_MIB);
    ck_assert_uint_eq(stats().reserved_bytes.current, (66 + (is_bounded ? 68 : 72)) * GP_MIB);
    stop();
  }
}
END_TEST

/* The least recently used first, and no more than four in one call. */
START_TEST(test_a_free_gives_a_few_back)
{
  uint64_t blocks[MANY];

  start(SETTINGS("GPUPOOL_SLACK=0"), 64 * GP_GIB, true);
  leave_idle(40 * GP_MIB, blocks);
  uint64_t other = allocate(300 * GP_MIB);       /* no idle block is as large */
  ck_assert_uint_eq(driver.count[FAKE_FREE], 0); /* not in an allocation */
  free_now(other);
  ck_assert_uint_eq(driver.count[FAKE_FREE], 4);
  ck_assert_uint_eq(stats().cached_bytes.current, 4 * 40 * GP_MIB + 300 * GP_MIB);
  synchronize();
  ck_assert_uint_eq(driver.count[FAKE_FREE], 8);
  ck_assert_uint_eq(allocate(300 * GP_MIB), other);
  synchronize();
  ck_assert_uint_eq(driver.count[FAKE_FREE], 8);
  ck_assert_uint_eq(stats().reserved_bytes.current, 300 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_beside_work_nothing_goes_back)
{
  uint64_t blocks[MANY];

  start(SETTINGS("GPUPOOL_SLACK=0", "GPUPOOL_MAX_DEFERRED=none"), 64 * GP_GIB, true);
  leave_idle(40 * GP_MIB, blocks);
  uint64_t busy = allocate(300 * GP_MIB), other = allocate(200 * GP_MIB);
  fake_submit(&driver, 0, busy);
  free_now(other);
  ck_assert_uint_eq(driver.count[FAKE_FREE], 0);
  ck_assert_uint_eq(stats().surplus_bytes.current, 320 * GP_MIB); /* what stayed is known */
  synchronize();
  ck_assert_uint_eq(driver.count[FAKE_FREE], 4);
  stop();
}
END_TEST

/* MAX_CACHED goes before the budget, with as many blocks as it takes. */
START_TEST(test_max_cached_goes_first)
{
  uint64_t blocks[MANY];

  start(SETTINGS("GPUPOOL_SLACK=0"), 64 * GP_GIB, true);
  leave_idle(40 * GP_MIB, blocks);
  uint64_t other = allocate(300 * GP_MIB);
  engine->max_cached = 80 * GP_MIB;
  synchronize();
  ck_assert_uint_eq(driver.count[FAKE_FREE], 8); /* six for that bound, two for the budget */
  free_now(other);
  stop();
}
END_TEST

START_TEST(test_memory_asked_for_ahead_counts_as_used)
{
  start(SETTINGS("GPUPOOL_SLACK=0", "GPUPOOL_PREWARM=64MiB*4"), 64 * GP_GIB, true);
  uint64_t block = allocate(64 * GP_MIB);
  ck_assert_uint_eq(budget(), 256 * GP_MIB);
  free_now(block);
  synchronize();
  ck_assert_uint_eq(driver.count[FAKE_FREE], 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("budget");
  TCase *use = tcase_create("use");
  tcase_add_test(use, test_the_budget_follows_the_highest_use);
  tcase_add_test(use, test_what_the_device_may_still_use_counts_as_use);
  tcase_add_test(use, test_no_bound);
  tcase_add_test(use, test_parts_do_not_count);
  tcase_add_test(use, test_memory_asked_for_ahead_counts_as_used);
  suite_add_tcase(suite, use);
  TCase *borrowing = tcase_create("borrowing");
  tcase_add_test(borrowing, test_a_request_borrows_rather_than_grow_beyond);
  tcase_add_test(borrowing, test_what_is_borrowed_is_not_use);
  tcase_add_test(borrowing, test_nothing_is_borrowed_after_an_export);
  tcase_add_test(borrowing, test_beyond_the_budget_no_block_gets_its_whole_class);
  suite_add_tcase(suite, borrowing);
  TCase *releases = tcase_create("releases");
  tcase_add_test(releases, test_a_free_gives_a_few_back);
  tcase_add_test(releases, test_beside_work_nothing_goes_back);
  tcase_add_test(releases, test_max_cached_goes_first);
  suite_add_tcase(suite, releases);
  return gp_check_main(suite);
}
