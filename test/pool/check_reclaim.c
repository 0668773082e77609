/*
 * When freed memory may be used again, over the fake driver.
 */
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

START_TEST(test_freed_block_is_reused_after_synchronization)
{
  start(NULL, GP_GIB, true);
  uint64_t first = allocate(1000);
  fake_submit(&driver, 0, first);
  ck_assert_int_eq(free_code(first), 0);
  uint64_t second = allocate(1000);
  ck_assert_uint_ne(second, first);
  synchronize();
  ck_assert_uint_eq(allocate(1000), first);
  ck_assert_uint_eq(stats().cache_hits, 1);
  ck_assert_uint_eq(stats().cache_misses, 2);
  stop();
}
END_TEST

START_TEST(test_free_after_sync_began_is_not_covered)
{
  start(NULL, GP_GIB, true);
  uint64_t block = allocate(1000);
  uint64_t token = gp_engine_sync_begin(engine);
  ck_assert_int_eq(free_code(block), 0); /* another thread frees while the first one waits */
  gp_engine_sync_end(engine, context, token);
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  synchronize();
  ck_assert_uint_gt(stats().cached_bytes.current, 0);
  stop();
}
END_TEST

START_TEST(test_every_context_must_have_completed)
{
  start(NULL, GP_GIB, false);
  gp_driver_context_t other = fake_context(1, 1);
  gp_context_t *second = gp_engine_context(engine, &other);
  uint64_t block = allocate(1000);
  ck_assert_int_eq(free_code(block), 0);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 0); /* the second may still copy from it */
  gp_engine_sync_end(engine, second, gp_engine_sync_begin(engine));
  ck_assert_uint_gt(stats().cached_bytes.current, 0);
  stop();
}
END_TEST

START_TEST(test_strict_free_waits)
{
  const char *const settings[] = {"GPUPOOL_REUSE=strict", NULL};
  start(settings, GP_GIB, true);
  uint64_t block = allocate(1000);
  fake_submit(&driver, 0, block);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert(!fake_is_in_use(&driver, block));
  ck_assert_int_eq(driver.count[FAKE_WAIT_AS_FREE], 1);
  ck_assert_uint_eq(allocate(1000), block);
  ck_assert_int_eq(free_code(block), 0); /* no work is pending: the driver's free would not wait either */
  ck_assert_int_eq(driver.count[FAKE_WAIT_AS_FREE], 1);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  ck_assert_uint_eq(stats().host_waits, 1);
  stop();
}
END_TEST

static int end_context(void *self, const gp_driver_context_t *which)
{
  gp_engine_context_lost(engine, context);
  return FAKE_OUT_OF_MEMORY;
}

/* Another thread ends the context while the free waits: the block is there no more. */
START_TEST(test_strict_free_beside_the_end_of_its_context)
{
  const char *const settings[] = {"GPUPOOL_REUSE=strict", NULL};
  start(settings, GP_GIB, true);
  uint64_t block = allocate(1000);
  fake_submit(&driver, 0, block);
  driver.ops.wait_as_free = end_context;
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  stop();
}
END_TEST

static int (*alloc_of_driver)(void *, const gp_driver_context_t *, uint64_t, uint64_t *);

static int alloc_in_lost(void *self, const gp_driver_context_t *which, uint64_t bytes, uint64_t *ret_address)
{
  gp_engine_context_lost(engine, context);
  return alloc_of_driver(self, which, bytes, ret_address);
}

/* The pool takes the context for ended while the driver gives memory in it: the memory is the driver's to
 * free. */
START_TEST(test_allocation_in_a_context_that_is_lost)
{
  const char *const settings[] = {"GPUPOOL_TYPE=round", NULL};
  uint64_t address;
  start(settings, GP_GIB, true);
  (void)allocate(1000);
  alloc_of_driver = driver.ops.alloc;
  driver.ops.alloc = alloc_in_lost;
  ck_assert_int_eq(gp_engine_alloc(engine, context, 4 * GP_MIB, &address), 0);
  ck_assert(gp_engine_check(engine));
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  int code;
  ck_assert_int_eq(gp_engine_free(engine, address, &code), GP_FREE_UNKNOWN);
  stop();
}
END_TEST

/* From the record of the fence, its query, or the wait on. */
START_TEST(test_strict_free_gives_the_error_of_the_device)
{
  const char *const settings[] = {"GPUPOOL_REUSE=strict", NULL};
  start(settings, GP_GIB, true);
  uint64_t block = allocate(1000);
  fake_submit(&driver, 0, block);
  driver.fail_at = driver.calls + 1 + _i;
  driver.fail_stays = true;
  driver.fail_code = FAKE_STICKY;
  ck_assert_int_eq(free_code(block), FAKE_STICKY);
  stop();
}
END_TEST

START_TEST(test_miss_polls_and_reuses_what_the_fence_covers)
{
  const char *const settings[] = {"GPUPOOL_MAX_DEFERRED=none", "GPUPOOL_RESERVE=0", NULL};
  start(settings, GP_GIB, true);
  uint64_t block = allocate(4 * GP_MIB);
  fake_submit(&driver, 0, block);
  ck_assert_int_eq(free_code(block), 0);
  uint64_t second = allocate(4 * GP_MIB); /* over half the allowance: records a fence, grows */
  ck_assert_uint_ne(second, block);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  fake_complete(&driver, 0);
  ck_assert_uint_eq(allocate(4 * GP_MIB), block); /* the fence has passed */
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1); /* everything freed is covered: no second one */
  stop();
}
END_TEST

START_TEST(test_free_after_the_record_is_not_covered_by_the_fence)
{
  const char *const settings[] = {"GPUPOOL_MAX_DEFERRED=none", "GPUPOOL_RESERVE=0", NULL};
  start(settings, GP_GIB, true);
  uint64_t early = allocate(4 * GP_MIB);
  uint64_t late = allocate(4 * GP_MIB);
  fake_submit(&driver, 0, early);
  ck_assert_int_eq(free_code(early), 0);
  uint64_t third = allocate(4 * GP_MIB); /* records */
  ck_assert_uint_ne(third, early);
  fake_complete(&driver, 0);
  fake_submit(&driver, 0, late);
  ck_assert_int_eq(free_code(late), 0);
  ck_assert_uint_eq(allocate(4 * GP_MIB), early); /* its work precedes the record; that on `late` does not */
  ck_assert(fake_is_in_use(&driver, late));
  ck_assert_uint_eq(stats().deferred_bytes.current, 4 * GP_MIB);
  stop();
}
END_TEST

/* It cannot poll where a driver has no fence over a context: the pool grows, and no time passes. */
START_TEST(test_beyond_max_deferred_nothing_waits_without_fences)
{
  const char *const settings[] = {"GPUPOOL_MAX_DEFERRED=2MiB", NULL};
  start(settings, GP_GIB, false);
  uint64_t block = allocate(3 * GP_MIB);
  fake_submit(&driver, 0, block);
  ck_assert_int_eq(free_code(block), 0);
  uint64_t before_ns = driver.now_ns;
  ck_assert_uint_ne(allocate(3 * GP_MIB), block);
  ck_assert_uint_eq(driver.now_ns, before_ns);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  ck_assert_uint_eq(stats().host_waits, 0);
  stop();
}
END_TEST

/* Another thread frees, with work just submitted, in the middle of a driver call of the engine's. */
static uint64_t freed_meanwhile;
static int (*real_wait)(void *self, const gp_driver_context_t *key);
static int (*real_record)(void *self, const gp_driver_context_t *key, void **fence);

static void free_meanwhile(void)
{
  uint64_t block = freed_meanwhile;
  freed_meanwhile = 0;
  if (block) {
    fake_submit(&driver, 0, block);
    (void)free_code(block);
  }
}

static int wait_then_free(void *self, const gp_driver_context_t *key)
{
  int code = real_wait(self, key);
  free_meanwhile();
  return code;
}

static int record_then_free(void *self, const gp_driver_context_t *key, void **fence)
{
  int code = real_record(self, key, fence);
  free_meanwhile();
  return code;
}

START_TEST(test_free_during_a_wait_is_not_covered)
{
  start(NULL, 1024 + 2048, false); /* full: the wait is the last step of the ladder */
  real_wait = driver.ops.wait;
  driver.ops.wait = wait_then_free;
  uint64_t block = allocate(1000);
  freed_meanwhile = allocate(2000);
  uint64_t other = freed_meanwhile;
  fake_submit(&driver, 0, block);
  fake_complete(&driver, 0);
  free_code(block);
  ck_assert_uint_eq(allocate(1000), block);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 1);
  ck_assert(fake_is_in_use(&driver, other));
  ck_assert_uint_eq(stats().deferred_bytes.current, 2048);
  stop();
}
END_TEST

START_TEST(test_free_during_a_record_is_not_covered)
{
  start((const char *const[]){"GPUPOOL_MAX_DEFERRED=4MiB", "GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  real_record = driver.ops.fence_record;
  driver.ops.fence_record = record_then_free;
  uint64_t block = allocate(3 * GP_MIB);
  uint64_t other = allocate(2000);
  fake_submit(&driver, 0, block);
  freed_meanwhile = other;
  free_code(block);                              /* records; the other is freed behind the record */
  driver.completed[0] = driver.submitted[0] - 1; /* all but the work on the other */
  ck_assert_uint_eq(allocate(3 * GP_MIB), block);
  ck_assert(fake_is_in_use(&driver, other));
  ck_assert_uint_ne(allocate(2000), other);
  stop();
}
END_TEST

/* 0: a stream is asked about; 1: a fence is recorded. */
START_TEST(test_context_that_ended_unseen_holds_nothing_back)
{
  start(NULL, 1024, _i);
  gp_driver_context_t other = fake_context(1, 0);
  gp_context_t *second = gp_engine_context(engine, &other);
  uint64_t block = allocate(1000);
  free_code(block);
  driver.has_ended[1] = true;
  ck_assert_uint_eq(allocate(1000), block);
  ck_assert(gp_context_is_lost(second));
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("reclaim");
  TCase *reuse = tcase_create("reuse");
  tcase_add_test(reuse, test_freed_block_is_reused_after_synchronization);
  tcase_add_test(reuse, test_free_after_sync_began_is_not_covered);
  tcase_add_test(reuse, test_every_context_must_have_completed);
  tcase_add_test(reuse, test_strict_free_waits);
  tcase_add_test(reuse, test_strict_free_beside_the_end_of_its_context);
  tcase_add_test(reuse, test_allocation_in_a_context_that_is_lost);
  tcase_add_loop_test(reuse, test_strict_free_gives_the_error_of_the_device, 0, 3);
  tcase_add_test(reuse, test_miss_polls_and_reuses_what_the_fence_covers);
  tcase_add_test(reuse, test_free_after_the_record_is_not_covered_by_the_fence);
  tcase_add_test(reuse, test_beyond_max_deferred_nothing_waits_without_fences);
  tcase_add_test(reuse, test_free_during_a_wait_is_not_covered);
  tcase_add_test(reuse, test_free_during_a_record_is_not_covered);
  tcase_add_loop_test(reuse, test_context_that_ended_unseen_holds_nothing_back, 0, 2);
  suite_add_tcase(suite, reuse);
  return gp_check_main(suite);
}
