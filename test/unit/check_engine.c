/*
 * The engine's behaviours, one by one, over the fake driver.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "test/unit/check_main.h"
#include "test/unit/fake_driver.h"

static fake_driver_t driver;
static gp_engine_t *engine;
static gp_context_t *context;

static void start(const char *const *settings, uint64_t capacity, bool with_fence)
{
  gp_driver_context_t first = fake_context(0, 0);
  fake_driver_init(&driver, capacity, with_fence);
  engine = fake_engine(&driver, NULL, settings);
  context = gp_engine_context(engine, &first);
  ck_assert_ptr_nonnull(context);
}

static void stop(void)
{
  ck_assert(gp_engine_check(engine));
  ck_assert_int_eq(driver.errors, 0);
  gp_engine_destroy(engine);
  fake_driver_fini(&driver);
}

static uint64_t allocate(uint64_t bytes)
{
  uint64_t address = 0;
  ck_assert_int_eq(gp_engine_alloc(engine, context, bytes, &address), 0);
  return address;
}

static int free_code(uint64_t address)
{
  int code = -1;
  ck_assert_int_eq(gp_engine_free(engine, address, &code), GP_FREE_DONE);
  return code;
}

static void synchronize(void)
{
  uint64_t token = gp_engine_sync_begin(engine);
  fake_complete(&driver, 0);
  gp_engine_sync_end(engine, context, token);
}

static gp_stats_t stats(void)
{
  gp_stats_t result;
  gp_engine_stats(engine, 0, &result);
  return result;
}

START_TEST(test_freed_block_is_reused_after_synchronization)
{
  start(NULL, GP_GIB, true);
  uint64_t first = allocate(1000);
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
  ck_assert_int_eq(driver.count[FAKE_WAIT], 1);
  ck_assert_uint_eq(allocate(1000), block);
  stop();
}
END_TEST

START_TEST(test_strict_free_gives_the_error_of_the_wait)
{
  const char *const settings[] = {"GPUPOOL_REUSE=strict", NULL};
  start(settings, GP_GIB, true);
  uint64_t block = allocate(1000);
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_STICKY;
  ck_assert_int_eq(free_code(block), FAKE_STICKY);
  stop();
}
END_TEST

START_TEST(test_miss_polls_and_reuses_what_the_fence_covers)
{
  const char *const settings[] = {"GPUPOOL_MAX_DEFERRED=4MiB", NULL};
  start(settings, GP_GIB, true);
  uint64_t block = allocate(3 * GP_MIB);
  fake_submit(&driver, 0, block);
  ck_assert_int_eq(free_code(block), 0);
  uint64_t second = allocate(3 * GP_MIB); /* over half the allowance: records a fence, grows */
  ck_assert_uint_ne(second, block);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  fake_complete(&driver, 0);
  ck_assert_uint_eq(allocate(3 * GP_MIB), block); /* the fence has passed */
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1); /* everything freed is covered: no second one */
  stop();
}
END_TEST

START_TEST(test_free_after_the_record_is_not_covered_by_the_fence)
{
  const char *const settings[] = {"GPUPOOL_MAX_DEFERRED=4MiB", NULL};
  start(settings, GP_GIB, true);
  uint64_t early = allocate(3 * GP_MIB);
  uint64_t late = allocate(3 * GP_MIB);
  fake_submit(&driver, 0, early);
  ck_assert_int_eq(free_code(early), 0);
  uint64_t third = allocate(3 * GP_MIB); /* records */
  ck_assert_uint_ne(third, early);
  fake_complete(&driver, 0);
  fake_submit(&driver, 0, late);
  ck_assert_int_eq(free_code(late), 0);
  ck_assert_uint_eq(allocate(3 * GP_MIB), early); /* its work precedes the record; that on `late` does not */
  ck_assert(fake_is_in_use(&driver, late));
  ck_assert_uint_eq(stats().deferred_bytes.current, 3 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_beyond_max_deferred_the_miss_waits)
{
  const char *const settings[] = {"GPUPOOL_MAX_DEFERRED=2MiB", NULL};
  start(settings, GP_GIB, false);
  uint64_t block = allocate(3 * GP_MIB);
  fake_submit(&driver, 0, block);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_uint_eq(allocate(3 * GP_MIB), block);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 1);
  ck_assert_uint_eq(stats().host_waits, 1);
  stop();
}
END_TEST

START_TEST(test_double_free_and_foreign_pointers)
{
  int code = -1;
  start(NULL, GP_GIB, true);
  uint64_t block = allocate(4 * GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_int_eq(free_code(block), FAKE_INVALID_VALUE);
  synchronize();
  ck_assert_int_eq(free_code(block), FAKE_INVALID_VALUE);
  ck_assert_int_eq(gp_engine_free(engine, block + 512, &code), GP_FREE_UNKNOWN);
  ck_assert_int_eq(gp_engine_free(engine, 0, &code), GP_FREE_UNKNOWN);
  ck_assert_int_eq(gp_engine_free(engine, 1, &code), GP_FREE_UNKNOWN);
  ck_assert_int_eq(code, -1);
  stop();
}
END_TEST

START_TEST(test_size_zero_and_overflow_are_the_drivers)
{
  uint64_t address = 7;
  start(NULL, GP_GIB, true);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 0, &address), FAKE_INVALID_VALUE);
  ck_assert_int_eq(gp_engine_alloc(engine, context, UINT64_MAX, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_int_eq(gp_engine_alloc(engine, context, UINT64_MAX - 511, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(address, 7); /* untouched */
  ck_assert_uint_eq(stats().num_ooms, 2);
  stop();
}
END_TEST

START_TEST(test_retained_block_returns_with_the_last_holder)
{
  start(NULL, GP_GIB, true);
  uint64_t block = allocate(1000);
  ck_assert(gp_engine_retain(engine, block));
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_int_eq(free_code(block), FAKE_INVALID_VALUE);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  ck_assert(gp_engine_retain(engine, block));
  ck_assert(gp_engine_release(engine, block));
  ck_assert(gp_engine_release(engine, block));
  ck_assert(!gp_engine_release(engine, block));
  ck_assert(!gp_engine_retain(engine, block));
  synchronize();
  ck_assert_uint_eq(allocate(1000), block);
  ck_assert(!gp_engine_release(engine, block)); /* the program's own reference is not ours to drop */
  stop();
}
END_TEST

START_TEST(test_tainted_block_goes_to_the_driver)
{
  start(NULL, GP_GIB, true);
  uint64_t block = allocate(1000);
  gp_engine_taint(engine, block);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

START_TEST(test_tainted_block_goes_to_the_driver_with_its_last_holder)
{
  start(NULL, GP_GIB, true);
  uint64_t block = allocate(1000);
  gp_engine_taint(engine, block);
  ck_assert(gp_engine_retain(engine, block));
  ck_assert_int_eq(free_code(block), 0);
  ck_assert(gp_engine_release(engine, block));
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

/* Another thread frees, with work just submitted, in the middle of a driver call of ours. */
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
  start((const char *const[]){"GPUPOOL_MAX_DEFERRED=0", NULL}, GP_GIB, false);
  real_wait = driver.ops.wait;
  driver.ops.wait = wait_then_free;
  uint64_t block = allocate(1000);
  freed_meanwhile = allocate(2000);
  uint64_t other = freed_meanwhile;
  fake_submit(&driver, 0, block);
  free_code(block);
  ck_assert_uint_eq(allocate(1000), block);
  ck_assert(fake_is_in_use(&driver, other));
  ck_assert_uint_eq(stats().deferred_bytes.current, 2048);
  stop();
}
END_TEST

START_TEST(test_free_during_a_record_is_not_covered)
{
  start((const char *const[]){"GPUPOOL_MAX_DEFERRED=4MiB", NULL}, GP_GIB, true);
  real_record = driver.ops.fence_record;
  driver.ops.fence_record = record_then_free;
  uint64_t block = allocate(3 * GP_MIB);
  uint64_t other = allocate(2000);
  fake_submit(&driver, 0, block);
  free_code(block);
  freed_meanwhile = other;
  allocate(3 * GP_MIB);                              /* records; the other is freed behind the record */
  driver.completed[0] = driver.submitted[0] - 1;     /* all but the work on the other */
  ck_assert_uint_eq(allocate(3 * GP_MIB), block);
  ck_assert(fake_is_in_use(&driver, other));
  ck_assert_uint_ne(allocate(2000), other);
  stop();
}
END_TEST

START_TEST(test_context_that_ended_unseen_holds_nothing_back)
{
  start((const char *const[]){"GPUPOOL_MAX_DEFERRED=0", NULL}, GP_GIB, false);
  gp_driver_context_t other = fake_context(1, 0);
  gp_context_t *second = gp_engine_context(engine, &other);
  uint64_t block = allocate(1000);
  free_code(block);
  driver.fail_at = driver.calls + 2; /* the wait for the second context */
  driver.fail_code = FAKE_GONE;
  ck_assert_uint_eq(allocate(1000), block);
  ck_assert(gp_context_is_lost(second));
  stop();
}
END_TEST

START_TEST(test_share_of_a_device_that_could_not_be_asked)
{
  uint64_t address;
  gp_driver_context_t first = fake_context(0, 0);
  fake_driver_init(&driver, 64 * GP_MIB, true);
  engine = fake_engine(&driver, NULL, (const char *const[]){"GPUPOOL_LIMIT=50%", NULL});
  driver.fail_at = 1;
  driver.fail_code = FAKE_INVALID_VALUE;
  context = gp_engine_context(engine, &first);
  allocate(16 * GP_MIB); /* asked again, and known now */
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 32 * GP_MIB);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 17 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  stop();
}
END_TEST

START_TEST(test_lost_context_takes_unpooled_memory_along)
{
  start(NULL, GP_GIB, true);
  ck_assert(gp_engine_passthrough_reserve(engine, context, 4096, GP_DETAIL_PASS_PITCH));
  gp_passthrough_t memory = {.address = 0x2000, .size = 4096, .kind = GP_DETAIL_PASS_PITCH};
  gp_engine_passthrough_commit(engine, context, &memory, 1);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(stats().passthrough_bytes.current, 0);
  ck_assert(!gp_engine_passthrough_take(engine, 0x2000, &memory));
  stop();
}
END_TEST

START_TEST(test_limit_is_never_exceeded_and_idle_memory_makes_room)
{
  const char *const settings[] = {"GPUPOOL_LIMIT=8MiB", NULL};
  uint64_t address = 0;
  start(settings, GP_GIB, true);
  uint64_t block = allocate(6 * GP_MIB);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 4 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_int_eq(free_code(block), 0);
  fake_submit(&driver, 0, block);
  allocate(4 * GP_MIB); /* waits for the freed block and gives it back */
  ck_assert_uint_le(driver.peak, 8 * GP_MIB);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 9 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  stop();
}
END_TEST

START_TEST(test_limit_as_share_and_per_device)
{
  const char *const settings[] = {"GPUPOOL_LIMIT=0=25%,1=1MiB", NULL};
  uint64_t address = 0;
  start(settings, 16 * GP_MIB, true);
  gp_driver_context_t other = fake_context(1, 1);
  gp_context_t *second = gp_engine_context(engine, &other);
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 4 * GP_MIB);
  ck_assert_uint_eq(gp_engine_limit(engine, 1), GP_MIB);
  ck_assert_uint_eq(gp_engine_limit(engine, 2), 0);
  allocate(4 * GP_MIB);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 1, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_int_eq(gp_engine_alloc(engine, second, GP_MIB, &address), 0);
  stop();
}
END_TEST

START_TEST(test_rounding_does_not_cause_out_of_memory)
{
  const uint64_t odd = 9 * GP_MIB + 4096; /* a class of type round is 10 MiB */
  start(NULL, 9 * GP_MIB + 4096, true);
  uint64_t block = allocate(odd);
  ck_assert_uint_eq(driver.used, odd);
  ck_assert_int_eq(free_code(block), 0); /* not of a class: back to the driver */
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

START_TEST(test_out_of_memory_gives_back_the_largest_first)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, 16 * GP_MIB, true);
  uint64_t small = allocate(2 * GP_MIB);
  uint64_t large = allocate(8 * GP_MIB);
  ck_assert_int_eq(free_code(small), 0);
  ck_assert_int_eq(free_code(large), 0);
  synchronize();
  allocate(12 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  ck_assert_uint_eq(stats().cached_bytes.current, 2 * GP_MIB);
  ck_assert_uint_eq(stats().num_alloc_retries, 1);
  stop();
}
END_TEST

START_TEST(test_hopeless_request_leaves_the_cache_alone)
{
  uint64_t address;
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, 16 * GP_MIB, true);
  uint64_t block = allocate(8 * GP_MIB);
  allocate(4 * GP_MIB);
  free_code(block);
  synchronize();
  ck_assert_int_eq(gp_engine_alloc(engine, context, 13 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(stats().cached_bytes.current, 8 * GP_MIB);
  ck_assert_uint_eq(stats().num_ooms, 1);
  allocate(12 * GP_MIB); /* this one fits if everything goes back */
  stop();
}
END_TEST

START_TEST(test_reserve_gives_idle_memory_back)
{
  start((const char *const[]){"GPUPOOL_RESERVE=4MiB", NULL}, 16 * GP_MIB, true);
  uint64_t block = allocate(8 * GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  synchronize();
  allocate(6 * GP_MIB); /* 2 MiB would be left free */
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  allocate(8 * GP_MIB); /* but it is never a reason to refuse */
  stop();
}
END_TEST

START_TEST(test_max_cached_gives_the_oldest_back)
{
  start((const char *const[]){"GPUPOOL_MAX_CACHED=5MiB", NULL}, GP_GIB, true);
  uint64_t a = allocate(2 * GP_MIB);
  uint64_t b = allocate(3 * GP_MIB);
  uint64_t c = allocate(2 * GP_MIB);
  free_code(a);
  free_code(b);
  free_code(c);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 5 * GP_MIB);
  ck_assert_uint_eq(allocate(2 * GP_MIB), c); /* a, the oldest, went back */
  stop();
}
END_TEST

START_TEST(test_idle_memory_goes_back_after_a_while)
{
  start((const char *const[]){"GPUPOOL_IDLE_RELEASE=10", NULL}, GP_GIB, true);
  uint64_t block = allocate(2 * GP_MIB);
  free_code(block);
  synchronize();
  driver.now_ns += UINT64_C(9999999999);
  allocate(4096);
  ck_assert_uint_eq(stats().cached_bytes.current, 2 * GP_MIB);
  driver.now_ns += 1;
  free_code(allocate(4096));
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 4096);
  stop();
}
END_TEST

START_TEST(test_nothing_is_pooled_during_a_capture)
{
  start(NULL, GP_GIB, true);
  uint64_t idle = allocate(1000);
  uint64_t held = allocate(2000);
  free_code(idle);
  synchronize();
  long before = driver.calls;
  gp_engine_suspend(engine);
  uint64_t captured = allocate(1000);
  ck_assert_uint_ne(captured, idle);
  ck_assert_int_eq(free_code(held), 0); /* the driver's free */
  ck_assert_int_eq(driver.calls - before, 2);
  ck_assert_uint_eq(stats().passthrough_bytes.current, 1000);
  gp_engine_resume(engine);
  ck_assert_uint_eq(allocate(1000), idle);
  gp_passthrough_t memory;
  ck_assert(gp_engine_passthrough_take(engine, captured, &memory));
  gp_engine_passthrough_freed(engine, &memory, 0, 0);
  ck_assert_uint_eq(stats().passthrough_bytes.current, 0);
  stop();
}
END_TEST

START_TEST(test_no_driver_call_of_ours_while_suspended)
{
  start((const char *const[]){"GPUPOOL_IDLE_RELEASE=1", "GPUPOOL_MAX_CACHED=5000", "GPUPOOL_MAX_DEFERRED=0", NULL},
      GP_GIB, true);
  uint64_t idle = allocate(1000);
  uint64_t deferred = allocate(9000);
  free_code(idle);
  synchronize();
  free_code(deferred);
  gp_engine_suspend(engine);
  driver.now_ns += UINT64_C(5000000000);
  long before = driver.calls;
  synchronize(); /* too much is idle now, and for too long */
  ck_assert_uint_eq(gp_engine_trim(engine, context, UINT64_MAX, GP_DETAIL_TRIM_REQUESTED), 0);
  ck_assert_int_eq(driver.calls, before);
  allocate(1000);
  ck_assert_int_eq(driver.calls, before + 1); /* the program's own */
  gp_engine_resume(engine);
  free_code(allocate(700));
  ck_assert_int_gt(driver.count[FAKE_FREE], 0);
  stop();
}
END_TEST

static pthread_t suspender;
static int suspending; /* 0: not begun, 1: called, 2: returned */
static int seen_during_the_call;

static void *suspend_engine(void *arg)
{
  __atomic_store_n(&suspending, 1, __ATOMIC_SEQ_CST);
  gp_engine_suspend(engine);
  __atomic_store_n(&suspending, 2, __ATOMIC_SEQ_CST);
  return arg;
}

static int record_while_another_suspends(void *self, const gp_driver_context_t *key, void **fence)
{
  pthread_create(&suspender, NULL, suspend_engine, NULL);
  while (__atomic_load_n(&suspending, __ATOMIC_SEQ_CST) == 0)
    sched_yield();
  for (int i = 0; i < 2000; i++)
    sched_yield(); /* room for it to return, if it does not wait for this call */
  seen_during_the_call = __atomic_load_n(&suspending, __ATOMIC_SEQ_CST);
  return real_record(self, key, fence);
}

START_TEST(test_suspending_waits_for_a_driver_call_of_ours)
{
  start((const char *const[]){"GPUPOOL_MAX_DEFERRED=4MiB", NULL}, GP_GIB, true);
  real_record = driver.ops.fence_record;
  driver.ops.fence_record = record_while_another_suspends;
  suspending = seen_during_the_call = 0;
  free_code(allocate(3 * GP_MIB));
  uint64_t address; /* records, and is then forwarded or not: the suspension may have begun */
  ck_assert_int_eq(gp_engine_alloc(engine, context, 3 * GP_MIB, &address), 0);
  pthread_join(suspender, NULL);
  ck_assert_int_eq(seen_during_the_call, 1);
  ck_assert_int_eq(suspending, 2);
  gp_engine_resume(engine);
  stop();
}
END_TEST

START_TEST(test_sticky_error_ends_pooling)
{
  uint64_t address = 0;
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  uint64_t idle = allocate(1000);
  uint64_t held = allocate(2000);
  free_code(idle);
  synchronize();
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_STICKY;
  ck_assert_int_eq(gp_engine_alloc(engine, context, 5000, &address), FAKE_STICKY);
  ck_assert_uint_ne(allocate(1000), idle);
  long before = driver.count[FAKE_FREE];
  ck_assert_int_eq(free_code(held), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], before + 1);
  stop();
}
END_TEST

START_TEST(test_standing_aside_gives_the_cache_back)
{
  start(NULL, GP_GIB, true);
  uint64_t idle = allocate(1000);
  uint64_t held = allocate(2000);
  free_code(idle);
  synchronize();
  gp_engine_stand_aside(engine);
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  allocate(1000);
  ck_assert_uint_eq(stats().passthrough_bytes.current, 1000);
  ck_assert_int_eq(free_code(held), 0);
  ck_assert_uint_eq(driver.used, 1000);
  stop();
}
END_TEST

START_TEST(test_lost_context_takes_its_blocks_along)
{
  int code;
  start(NULL, GP_GIB, true);
  uint64_t live = allocate(1000);
  uint64_t idle = allocate(2000);
  uint64_t deferred = allocate(3000);
  free_code(idle);
  synchronize();
  free_code(deferred);
  long before = driver.calls;
  gp_engine_context_lost(engine, context);
  ck_assert_int_eq(driver.calls, before);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  ck_assert_uint_eq(stats().allocated_bytes.current, 0);
  ck_assert_int_eq(gp_engine_free(engine, live, &code), GP_FREE_UNKNOWN);
  ck_assert_ptr_null(gp_engine_find_context(engine, (void *)1));
  gp_driver_context_t again = fake_context(0, 0);
  again.id = 999; /* the handle value is used again */
  gp_context_t *next = gp_engine_context(engine, &again);
  ck_assert_ptr_ne(next, context);
  context = next;
  ck_assert_uint_ne(allocate(2000), idle);
  stop();
}
END_TEST

START_TEST(test_handle_with_another_id_is_another_context)
{
  start(NULL, GP_GIB, true);
  uint64_t idle = allocate(2000);
  free_code(idle);
  synchronize();
  gp_driver_context_t again = fake_context(0, 0);
  again.id = 999; /* a reset that no hook saw */
  gp_context_t *next = gp_engine_context(engine, &again);
  ck_assert(gp_context_is_lost(context));
  context = next;
  ck_assert_uint_ne(allocate(2000), idle);
  stop();
}
END_TEST

START_TEST(test_contexts_of_one_device_do_not_share_blocks)
{
  uint64_t address = 0;
  start(NULL, GP_GIB, true);
  gp_driver_context_t other = fake_context(1, 0);
  gp_context_t *second = gp_engine_context(engine, &other);
  uint64_t block = allocate(1000);
  free_code(block);
  synchronize();
  gp_engine_sync_end(engine, second, gp_engine_sync_begin(engine));
  ck_assert_int_eq(gp_engine_alloc(engine, second, 1000, &address), 0);
  ck_assert_uint_ne(address, block);
  ck_assert_uint_eq(allocate(1000), block);
  stop();
}
END_TEST

START_TEST(test_memory_info_counts_cached_as_free_and_knows_the_limit)
{
  uint64_t free_bytes = 90 * GP_MIB;
  uint64_t total = 100 * GP_MIB;
  start((const char *const[]){"GPUPOOL_LIMIT=20MiB", NULL}, GP_GIB, true);
  uint64_t block = allocate(8 * GP_MIB);
  allocate(4 * GP_MIB);
  gp_engine_translate_info(engine, context, &free_bytes, &total);
  ck_assert_uint_eq(total, 20 * GP_MIB);
  ck_assert_uint_eq(free_bytes, 8 * GP_MIB);
  free_code(block);
  free_bytes = 2 * GP_MIB; /* others hold the rest */
  total = 100 * GP_MIB;
  gp_engine_translate_info(engine, context, &free_bytes, &total);
  ck_assert_uint_eq(free_bytes, 10 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_malformed_limit_refuses_everything)
{
  gp_options_t options;
  gp_driver_t table;
  uint64_t address = 0;
  fake_driver_init(&driver, GP_GIB, true);
  table = fake_driver_table(&driver);
  fake_options(&options, NULL);
  options.limit_malformed = true;
  engine = gp_engine_create(&table, NULL, &options);
  gp_driver_context_t first = fake_context(0, 0);
  context = gp_engine_context(engine, &first);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 1, &address), FAKE_OUT_OF_MEMORY);
  ck_assert(!gp_engine_passthrough_reserve(engine, context, 1, GP_DETAIL_PASS_MANAGED));
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 0);
  stop();
}
END_TEST

START_TEST(test_passthrough_counts_against_the_limit)
{
  start((const char *const[]){"GPUPOOL_LIMIT=8MiB", NULL}, GP_GIB, true);
  uint64_t block = allocate(4 * GP_MIB);
  free_code(block);
  ck_assert(gp_engine_passthrough_reserve(engine, context, 6 * GP_MIB, GP_DETAIL_PASS_MANAGED)); /* the idle block makes room */
  gp_passthrough_t memory = {.address = 0x1000, .size = 6 * GP_MIB, .kind = GP_DETAIL_PASS_MANAGED};
  gp_engine_passthrough_commit(engine, context, &memory, 5);
  ck_assert(!gp_engine_passthrough_reserve(engine, context, 4 * GP_MIB, GP_DETAIL_PASS_MANAGED));
  ck_assert_uint_eq(stats().num_ooms, 1);
  ck_assert_uint_eq(stats().passthrough_bytes.current, 6 * GP_MIB);
  ck_assert_uint_eq(gp_engine_passthroughs(engine, 0, NULL, 0), 1);
  gp_passthrough_t taken;
  ck_assert(gp_engine_passthrough_take(engine, 0x1000, &taken));
  gp_engine_passthrough_restore(engine, &taken); /* the driver refused */
  ck_assert(gp_engine_passthrough_take(engine, 0x1000, &taken));
  gp_engine_passthrough_freed(engine, &taken, 0, 0);
  ck_assert(!gp_engine_passthrough_take(engine, 0x1000, &taken));
  stop();
}
END_TEST

START_TEST(test_failed_driver_free_loses_nothing)
{
  start((const char *const[]){"GPUPOOL_TYPE=unpooled", NULL}, GP_GIB, true);
  uint64_t block = allocate(1000);
  driver.fail_at = driver.calls + 1;
  driver.fail_code = 17;
  ck_assert_int_eq(free_code(block), 17);
  ck_assert_uint_eq(stats().allocation.current, 1);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

START_TEST(test_failed_trim_keeps_the_block)
{
  start(NULL, GP_GIB, true);
  uint64_t block = allocate(1000);
  free_code(block);
  synchronize();
  driver.fail_at = driver.calls + 1;
  driver.fail_code = 17;
  ck_assert_uint_eq(gp_engine_trim(engine, context, UINT64_MAX, GP_DETAIL_TRIM_REQUESTED), 0);
  ck_assert_uint_eq(allocate(1000), block);
  stop();
}
END_TEST

static bool free_inside;

static void ask_inside(void *self, const gp_event_t *event)
{
  (void)self;
  if (event->action == GP_ACTION_ALLOC)
    free_inside = gp_engine_is_free(engine);
}

/* As in an exit handler that a signal handler reached while the thread was in the middle of an allocation. */
START_TEST(test_a_thread_inside_the_engine_is_noticed_at_exit)
{
  const gp_observer_t observer = {.event = ask_inside};
  gp_driver_context_t first = fake_context(0, 0);
  free_inside = true;
  fake_driver_init(&driver, GP_GIB, true);
  engine = fake_engine(&driver, &observer, NULL);
  context = gp_engine_context(engine, &first);
  allocate(1000);
  ck_assert(!free_inside);
  ck_assert(gp_engine_is_free(engine));
  stop();
}
END_TEST

static gp_oom_t last_oom;
static int oom_count;

static void note_oom(void *self, const gp_oom_t *oom)
{
  (void)self;
  last_oom = *oom;
  oom_count++;
}

START_TEST(test_out_of_memory_report_names_the_owners)
{
  const gp_observer_t observer = {.out_of_memory = note_oom};
  uint64_t address;
  gp_driver_context_t first = fake_context(0, 0);
  oom_count = 0;
  fake_driver_init(&driver, 64 * GP_MIB, true);
  engine = fake_engine(&driver, &observer, (const char *const[]){"GPUPOOL_RESERVE=0", NULL});
  context = gp_engine_context(engine, &first);
  for (int i = 0; i < 4; i++)
    allocate(10 * GP_MIB);
  allocate(15 * GP_MIB);
  for (int i = 0; i < 3; i++)
    allocate(GP_MIB);
  uint64_t idle = allocate(4 * GP_MIB);
  free_code(idle);
  synchronize();
  ck_assert_int_eq(gp_engine_alloc(engine, context, 20 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_int_eq(oom_count, 1);
  ck_assert_uint_eq(last_oom.requested, 20 * GP_MIB);
  ck_assert_uint_eq(last_oom.live, 58 * GP_MIB);
  ck_assert_uint_eq(last_oom.cached, 4 * GP_MIB); /* giving it back would not have helped */
  ck_assert_uint_eq(last_oom.largest_free, 4 * GP_MIB);
  ck_assert_uint_eq(last_oom.device_total, 64 * GP_MIB);
  ck_assert(!last_oom.by_limit);
  ck_assert_uint_eq(last_oom.owners[0].size, 10 * GP_MIB);
  ck_assert_uint_eq(last_oom.owners[0].count, 4);
  ck_assert_uint_eq(last_oom.owners[1].size, 15 * GP_MIB);
  ck_assert_uint_eq(last_oom.owners[2].count, 3);
  stop();
}
END_TEST

static Suite *engine_suite(void)
{
  Suite *suite = suite_create("engine");
  TCase *reuse = tcase_create("reuse");
  tcase_add_test(reuse, test_freed_block_is_reused_after_synchronization);
  tcase_add_test(reuse, test_free_after_sync_began_is_not_covered);
  tcase_add_test(reuse, test_every_context_must_have_completed);
  tcase_add_test(reuse, test_strict_free_waits);
  tcase_add_test(reuse, test_strict_free_gives_the_error_of_the_wait);
  tcase_add_test(reuse, test_miss_polls_and_reuses_what_the_fence_covers);
  tcase_add_test(reuse, test_free_after_the_record_is_not_covered_by_the_fence);
  tcase_add_test(reuse, test_beyond_max_deferred_the_miss_waits);
  suite_add_tcase(suite, reuse);

  TCase *blocks = tcase_create("blocks");
  tcase_add_test(blocks, test_double_free_and_foreign_pointers);
  tcase_add_test(blocks, test_size_zero_and_overflow_are_the_drivers);
  tcase_add_test(blocks, test_retained_block_returns_with_the_last_holder);
  tcase_add_test(blocks, test_tainted_block_goes_to_the_driver);
  tcase_add_test(blocks, test_tainted_block_goes_to_the_driver_with_its_last_holder);
  tcase_add_test(reuse, test_free_during_a_wait_is_not_covered);
  tcase_add_test(reuse, test_free_during_a_record_is_not_covered);
  tcase_add_test(reuse, test_context_that_ended_unseen_holds_nothing_back);
  tcase_add_test(blocks, test_lost_context_takes_unpooled_memory_along);
  tcase_add_test(blocks, test_share_of_a_device_that_could_not_be_asked);
  tcase_add_test(blocks, test_failed_driver_free_loses_nothing);
  tcase_add_test(blocks, test_failed_trim_keeps_the_block);
  suite_add_tcase(suite, blocks);

  TCase *limits = tcase_create("limits");
  tcase_add_test(limits, test_limit_is_never_exceeded_and_idle_memory_makes_room);
  tcase_add_test(limits, test_limit_as_share_and_per_device);
  tcase_add_test(limits, test_rounding_does_not_cause_out_of_memory);
  tcase_add_test(limits, test_out_of_memory_gives_back_the_largest_first);
  tcase_add_test(limits, test_hopeless_request_leaves_the_cache_alone);
  tcase_add_test(limits, test_reserve_gives_idle_memory_back);
  tcase_add_test(limits, test_max_cached_gives_the_oldest_back);
  tcase_add_test(limits, test_idle_memory_goes_back_after_a_while);
  tcase_add_test(limits, test_memory_info_counts_cached_as_free_and_knows_the_limit);
  tcase_add_test(limits, test_malformed_limit_refuses_everything);
  tcase_add_test(limits, test_passthrough_counts_against_the_limit);
  tcase_add_test(limits, test_out_of_memory_report_names_the_owners);
  suite_add_tcase(suite, limits);

  TCase *contexts = tcase_create("contexts");
  tcase_add_test(contexts, test_nothing_is_pooled_during_a_capture);
  tcase_add_test(contexts, test_no_driver_call_of_ours_while_suspended);
  tcase_add_test(contexts, test_suspending_waits_for_a_driver_call_of_ours);
  tcase_add_test(contexts, test_sticky_error_ends_pooling);
  tcase_add_test(contexts, test_a_thread_inside_the_engine_is_noticed_at_exit);
  tcase_add_test(contexts, test_standing_aside_gives_the_cache_back);
  tcase_add_test(contexts, test_lost_context_takes_its_blocks_along);
  tcase_add_test(contexts, test_handle_with_another_id_is_another_context);
  tcase_add_test(contexts, test_contexts_of_one_device_do_not_share_blocks);
  suite_add_tcase(suite, contexts);
  return suite;
}

int main(void)
{
  return gp_check_main(engine_suite());
}
