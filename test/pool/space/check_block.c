/*
 * Frees, references, contexts and the services that do not pool, over the fake driver.
 */
#include <pthread.h>
#include <sched.h>

#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

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
  ck_assert(gp_engine_forwarded_reserve(engine, context, 4096, GP_FORWARDED_PITCH));
  gp_forwarded_t memory = {.address = 0x2000, .size = 4096, .kind = GP_FORWARDED_PITCH};
  gp_engine_forwarded_commit(engine, context, &memory, 1);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(stats().passthrough_bytes.current, 0);
  ck_assert(!gp_engine_forwarded_take(engine, GP_SPACE_POINTER, 0x2000, &memory));
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
  gp_forwarded_t memory;
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, captured, &memory));
  gp_engine_forwarded_freed(engine, &memory, 0, 0);
  ck_assert_uint_eq(stats().passthrough_bytes.current, 0);
  stop();
}
END_TEST

START_TEST(test_no_driver_call_of_ours_while_suspended)
{
  start((const char *const[]){"GPUPOOL_IDLE_RELEASE=1", "GPUPOOL_MAX_CACHED=5000", "GPUPOOL_MAX_DEFERRED=0",
            NULL},
      GP_GIB, true);
  uint64_t idle = allocate(1000);
  uint64_t deferred = allocate(9000);
  free_code(idle);
  synchronize();
  free_code(deferred);
  gp_engine_suspend(engine);
  driver.now_ns += UINT64_C(5000000000);
  long before = driver.calls;
  synchronize(); /* tells nothing; and what is idle is so for too long */
  ck_assert_uint_eq(gp_engine_trim(engine, context, UINT64_MAX, GP_TRIM_REQUESTED), 0);
  ck_assert_int_eq(driver.calls, before);
  allocate(1000);
  ck_assert_int_eq(driver.calls, before + 1); /* the program's own */
  gp_engine_resume(engine);
  synchronize(); /* too much is idle now */
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

static int (*real_record)(void *self, const gp_driver_context_t *key, void **fence);

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

/* The driver's free may wait for the device, so it has to be where the program has just waited: pooling
 * stops in look-ups, too, and beside a kernel that needs this thread to go on. */
START_TEST(test_stopping_gives_the_cache_back)
{
  start(NULL, GP_GIB, true);
  uint64_t idle = allocate(1000);
  uint64_t held = allocate(2000);
  free_code(idle);
  synchronize();
  gp_engine_stop_pooling(engine);
  allocate(1000);
  ck_assert_uint_eq(stats().passthrough_bytes.current, 1000);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  ck_assert_int_eq(free_code(held), 0); /* the program's own */
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  ck_assert_uint_eq(stats().cached_bytes.current, 1024);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  ck_assert_uint_eq(driver.used, 1000);
  stop();
}
END_TEST

START_TEST(test_stopping_gives_deferred_memory_back_after_a_synchronization)
{
  int code;
  start(NULL, GP_GIB, false);
  uint64_t deferred = allocate(3000);
  uint64_t held = allocate(2000);
  fake_submit(&driver, 0, deferred);
  free_code(deferred);
  gp_engine_stop_pooling(engine);
  ck_assert_uint_gt(stats().deferred_bytes.current, 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);

  gp_engine_suspend(engine);
  synchronize();
  ck_assert_int_eq(free_code(held), 0);
  ck_assert_uint_gt(stats().deferred_bytes.current, 0); /* not during a capture */
  gp_engine_resume(engine);
  ck_assert_int_eq(gp_engine_free(engine, 1 << 30, &code), GP_FREE_UNKNOWN);
  ck_assert_uint_gt(stats().deferred_bytes.current, 0); /* nor in a free */

  driver.fail_at = driver.calls + 3; /* the free, after two questions whether streams have work */
  driver.fail_code = FAKE_INVALID_VALUE;
  synchronize();
  ck_assert_uint_gt(stats().reserved_bytes.current, 0); /* the driver refused: nothing is lost */
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  ck_assert_uint_eq(stats().active_bytes.current, 0);
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

START_TEST(test_after_an_error_that_stays_nothing_goes_back)
{
  int code;
  start(NULL, GP_GIB, false);
  free_code(allocate(3000));
  gp_engine_stop_pooling(engine);
  gp_engine_note_result(engine, FAKE_STICKY);
  long before = driver.calls;
  ck_assert_int_eq(gp_engine_free(engine, 1 << 30, &code), GP_FREE_UNKNOWN);
  ck_assert_int_eq(driver.calls, before);
  stop();
}
END_TEST

/* With fences: not beside work of another context, or work that another thread has just submitted. */
START_TEST(test_stopping_asks_its_fences)
{
  gp_driver_context_t other = fake_context(1, 0);
  start((const char *const[]){"GPUPOOL_MAX_DEFERRED=4MiB", "GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  (void)gp_engine_context(engine, &other);
  uint64_t block = allocate(3 * GP_MIB);
  uint64_t held = allocate(2 * GP_MIB);
  fake_submit(&driver, 0, block);
  free_code(block);
  fake_submit(&driver, _i, held);
  gp_engine_stop_pooling(engine);
  uint64_t token = gp_engine_sync_begin(engine);
  if (_i == 1)
    fake_complete(&driver, 0);
  gp_engine_sync_end(engine, context, token);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  fake_complete(&driver, _i);
  synchronize();
  ck_assert_uint_eq(stats().deferred_bytes.current + stats().cached_bytes.current, 0);
  ck_assert_uint_eq(driver.used, 2 * GP_MIB);
  ck_assert_int_eq(driver.busy_frees, 0);
  stop();
}
END_TEST

/* 1: memory that is not pooled, at the limit; 2, 3: cudaMalloc, when the device is full and at the limit. */
START_TEST(test_deferred_memory_makes_room_after_stopping)
{
  const char *const limit[] = {"GPUPOOL_LIMIT=8MiB", NULL};
  uint64_t address;
  start(_i & 1 ? limit : NULL, _i & 1 ? GP_GIB : 8 * GP_MIB, false);
  free_code(allocate(6 * GP_MIB));
  fake_complete(&driver, 0);
  gp_engine_stop_pooling(engine);
  if (_i & 2)
    ck_assert_int_eq(gp_engine_alloc(engine, context, 4 * GP_MIB, &address), 0);
  else
    ck_assert(gp_engine_forwarded_reserve(engine, context, 4 * GP_MIB, GP_FORWARDED_MANAGED));
  ck_assert_uint_eq(stats().num_ooms, 0);
  ck_assert_uint_eq(stats().deferred_bytes.current, 0);
  gp_engine_context_lost(engine, context); /* what is reserved or forwarded is no matter here */
  ck_assert_uint_eq(stats().deferred_bytes.current, 0);
  gp_engine_destroy(engine);
  fake_driver_fini(&driver);
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
  ck_assert_uint_eq(gp_engine_trim(engine, context, UINT64_MAX, GP_TRIM_REQUESTED), 0);
  ck_assert_uint_eq(allocate(1000), block);
  stop();
}
END_TEST

static bool free_inside;

static uint64_t ask_inside(void *self, const gp_event_t *event)
{
  (void)self;
  if (event->action == GP_ACTION_ALLOC)
    free_inside = gp_engine_locks_available(engine);
  return event->time_ns;
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
  ck_assert(gp_engine_locks_available(engine));
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("block");
  TCase *blocks = tcase_create("blocks");
  tcase_add_test(blocks, test_double_free_and_foreign_pointers);
  tcase_add_test(blocks, test_size_zero_and_overflow_are_the_drivers);
  tcase_add_test(blocks, test_retained_block_returns_with_the_last_holder);
  tcase_add_test(blocks, test_tainted_block_goes_to_the_driver);
  tcase_add_test(blocks, test_tainted_block_goes_to_the_driver_with_its_last_holder);
  tcase_add_test(blocks, test_share_of_a_device_that_could_not_be_asked);
  tcase_add_test(blocks, test_lost_context_takes_unpooled_memory_along);
  tcase_add_test(blocks, test_nothing_is_pooled_during_a_capture);
  tcase_add_test(blocks, test_no_driver_call_of_ours_while_suspended);
  tcase_add_test(blocks, test_suspending_waits_for_a_driver_call_of_ours);
  tcase_add_test(blocks, test_sticky_error_ends_pooling);
  tcase_add_test(blocks, test_stopping_gives_the_cache_back);
  tcase_add_test(blocks, test_stopping_gives_deferred_memory_back_after_a_synchronization);
  tcase_add_test(blocks, test_after_an_error_that_stays_nothing_goes_back);
  tcase_add_loop_test(blocks, test_stopping_asks_its_fences, 0, 2);
  tcase_add_loop_test(blocks, test_deferred_memory_makes_room_after_stopping, 1, 4);
  tcase_add_test(blocks, test_lost_context_takes_its_blocks_along);
  tcase_add_test(blocks, test_handle_with_another_id_is_another_context);
  tcase_add_test(blocks, test_contexts_of_one_device_do_not_share_blocks);
  tcase_add_test(blocks, test_failed_driver_free_loses_nothing);
  tcase_add_test(blocks, test_failed_trim_keeps_the_block);
  tcase_add_test(blocks, test_a_thread_inside_the_engine_is_noticed_at_exit);
  suite_add_tcase(suite, blocks);
  return gp_check_main(suite);
}
