/*
 * Heaps of threads: what a thread frees and allocates again without the device's lock, and that nothing else
 * sees a difference.
 */
#include "pool/serve/heaps.h"

#include <stdatomic.h>

#include "base/lock.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"
#include "test/pool/run_together.h"

#define BYTES 4096

static gp_device_t *device_of_test(void)
{
  return context->device;
}

/* Blocks that the calling thread's heap keeps. */
static unsigned kept(void)
{
  gp_heap_t *heap = gp_heap_own(engine, device_of_test());
  return heap ? atomic_load(&heap->kept) : 0;
}

static bool is_open(void)
{
  return device_of_test()->open_heaps > 0;
}

/* A block whose home is the calling thread's heap. */
static uint64_t allocate_at_home(uint64_t bytes)
{
  (void)free_code(allocate(bytes)); /* a miss, and a free of the device */
  synchronize();
  uint64_t address = allocate(bytes);
  ck_assert_ptr_nonnull(gp_heap_own(engine, device_of_test()));
  ck_assert(is_open());
  return address;
}

static void start_with(const char *setting)
{
  const char *const settings[] = {setting, NULL};
  start(setting ? settings : NULL, GP_GIB, true);
}

static const char *const types[] = {NULL, "GPUPOOL_TYPE=naive", "GPUPOOL_TYPE=segment", "GPUPOOL_TYPE=vmm"};

START_TEST(test_a_freed_block_comes_back_once_it_is_covered)
{
  start_with(types[_i]);
  uint64_t block = allocate_at_home(BYTES);
  fake_submit_on(&driver, 0, block, BYTES);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_uint_eq(kept(), 1);
  uint64_t other = allocate(BYTES); /* the device may use the first one still */
  ck_assert_uint_ne(other, block);
  ck_assert_int_eq(free_code(other), 0);
  synchronize();
  block = allocate(BYTES);
  ck_assert_int_eq(free_code(block), 0);
  long calls = driver.calls;
  for (int i = 0; i < 100; i++) {
    synchronize();
    ck_assert_int_eq(free_code(allocate(BYTES)), 0);
  }
  ck_assert_int_eq(driver.calls, calls);
  ck_assert_uint_ge(stats().cache_hits, 100);
  stop();
}
END_TEST

START_TEST(test_sums_are_exact_when_asked)
{
  start_with(types[_i]);
  uint64_t blocks[8];
  for (int i = 0; i < 8; i++)
    blocks[i] = allocate(BYTES);
  for (int i = 0; i < 8; i++)
    (void)free_code(blocks[i]);
  synchronize();
  for (int i = 0; i < 8; i++)
    blocks[i] = allocate(BYTES);
  const uint64_t each = stats().allocated_bytes.current / 8;
  ck_assert_uint_eq(stats().allocation.current, 8);
  blocks[0] = allocate(BYTES); /* opens the heap, which a question closes */
  for (int i = 0; i < 4; i++)
    (void)free_code(blocks[1 + i]);
  gp_stats_t now = stats();
  ck_assert_uint_eq(now.allocation.current, 5);
  ck_assert_uint_eq(now.allocated_bytes.current, 5 * each);
  ck_assert_uint_eq(now.requested_bytes.current, 5 * BYTES);
  ck_assert_uint_eq(now.deferred_bytes.current, 4 * each);
  ck_assert_uint_eq(now.active_bytes.current, 9 * each);
  ck_assert_uint_eq(now.allocation.peak, 9);
  ck_assert_uint_eq(now.allocated_bytes.peak, 9 * each);
  ck_assert(!is_open());
  synchronize();
  ck_assert_uint_eq(stats().deferred_bytes.current, 0);
  stop();
}
END_TEST

/* With one thread, as if the device had counted each call. */
START_TEST(test_peaks_of_one_thread_are_exact)
{
  start_with(NULL);
  uint64_t a = allocate_at_home(BYTES);
  uint64_t size = stats().allocated_bytes.current;
  (void)free_code(a);
  gp_engine_reset_peaks(engine, 1);
  synchronize();
  for (int i = 0; i < 10; i++) {
    a = allocate(BYTES - 10 * (uint64_t)i);
    (void)free_code(a);
    synchronize();
  }
  gp_stats_t now = stats();
  ck_assert_uint_eq(now.allocation.peak, 1);
  ck_assert_uint_eq(now.allocated_bytes.peak, size);
  ck_assert_uint_eq(now.requested_bytes.peak, BYTES);
  stop();
}
END_TEST

START_TEST(test_a_second_free_is_refused)
{
  start_with(types[_i]);
  uint64_t block = allocate_at_home(BYTES);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_uint_eq(kept(), 1);
  ck_assert_int_eq(free_code(block), driver.ops.code_invalid_value);
  ck_assert_int_eq(gp_engine_owner(engine, block), GP_OWNER_POOL);
  ck_assert_uint_eq(stats().allocation.current, 0);
  stop();
}
END_TEST

START_TEST(test_the_owner_is_asked_about_kept_blocks)
{
  start_with(types[_i]);
  uint64_t block = allocate_at_home(BYTES);
  ck_assert_int_eq(gp_engine_owner(engine, block), GP_OWNER_PROGRAM);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_int_eq(gp_engine_owner(engine, block), GP_OWNER_POOL);
  ck_assert(!gp_engine_retain(engine, block)); /* it is not in use */
  stop();
}
END_TEST

START_TEST(test_retained_and_tainted_blocks_have_no_home)
{
  start_with(types[_i]);
  uint64_t block = allocate_at_home(BYTES);
  ck_assert(gp_engine_retain(engine, block));
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_uint_eq(kept(), 0);
  ck_assert_uint_eq(stats().deferred_bytes.current, stats().active_bytes.current);
  ck_assert(gp_engine_release(engine, block));
  synchronize();
  block = allocate(BYTES);
  gp_engine_taint(engine, block);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_uint_eq(kept(), 0);
  synchronize();
  ck_assert_uint_ne(allocate(BYTES), block);
  stop();
}
END_TEST

/* A part of the segment is live in the heap's sense when another part is exported: it does not come back. */
START_TEST(test_no_heap_hands_out_parts_of_a_closed_segment)
{
  start_with("GPUPOOL_TYPE=segment");
  uint64_t live = allocate(BYTES), block = allocate_at_home(BYTES);
  gp_engine_taint(engine, live);
  ck_assert_int_eq(free_code(block), 0);
  synchronize();
  ck_assert_uint_eq(kept(), 0);
  ck_assert_uint_ne(allocate(BYTES), block);
  stop();
}
END_TEST

/* What opens no heap: the free is the device's. */
static void expect_no_heap(void)
{
  (void)free_code(allocate(BYTES));
  synchronize();
  for (int i = 0; i < 4; i++) {
    (void)free_code(allocate(BYTES));
    ck_assert_uint_eq(kept(), 0);
    synchronize();
  }
}

static const char *const without[] = {"GPUPOOL_REUSE=strict", "GPUPOOL_FILL=zero", "GPUPOOL_MAX_CACHED=1MiB"};

START_TEST(test_settings_without_heaps)
{
  start_with(without[_i]);
  expect_no_heap();
  stop();
}
END_TEST

START_TEST(test_while_a_use_is_watched_heaps_stay_closed)
{
  start_with(NULL);
  (void)free_code(allocate_at_home(BYTES));
  ck_assert_uint_eq(kept(), 1);
  gp_engine_watch_use(engine, 0, GP_GIB);
  ck_assert_uint_eq(kept(), 0);
  synchronize();
  expect_no_heap();
  stop();
}
END_TEST

static void (*meanwhile)(void); /* once, in the driver's next answer about memory */
static int (*answer)(void *self, const gp_driver_context_t *of, uint64_t *ret_free, uint64_t *ret_total);

static int answer_late(void *self, const gp_driver_context_t *of, uint64_t *ret_free, uint64_t *ret_total)
{
  void (*first)(void) = meanwhile;
  meanwhile = NULL;
  if (first)
    first();
  return answer(self, of, ret_free, ret_total);
}

static uint64_t held;

static void open_heap(void)
{
  held = allocate(BYTES);
  ck_assert(is_open());
}

START_TEST(test_while_the_reserve_is_short_heaps_stay_closed)
{
  const char *const settings[] = {"GPUPOOL_RESERVE=512MiB", NULL};
  start(settings, GP_GIB, true);
  answer = driver.ops.memory_info;
  driver.ops.memory_info = answer_late;
  (void)free_code(allocate(BYTES));
  (void)free_code(allocate(64 * GP_MIB));
  synchronize();
  meanwhile = open_heap;
  (void)allocate(600 * GP_MIB);
  ck_assert_ptr_null(meanwhile);
  ck_assert_uint_gt(device_of_test()->wanted_back, 0);
  ck_assert(!is_open());
  ck_assert_int_eq(free_code(held), 0);
  ck_assert_uint_eq(kept(), 0);
  stop();
}
END_TEST

/* What a heap keeps under work is memory that the pool keeps: the driver might wait for the device, and is
 * not asked. */
START_TEST(test_room_in_the_drivers_pools_is_made_of_what_heaps_keep)
{
  const char *const settings[] = {"GPUPOOL_RESERVE=0", "GPUPOOL_PATIENCE=0", NULL};
  start(settings, 10 * GP_MIB, true);
  uint64_t block = allocate_at_home(GP_MIB);
  uint64_t busy = allocate(8 * GP_MIB);
  ck_assert_int_eq(free_code(block), 0); /* the miss has closed the heap */
  synchronize();
  block = allocate(GP_MIB);
  ck_assert(is_open());
  fake_submit(&driver, 0, busy);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_uint_eq(kept(), 1);
  ck_assert(!gp_engine_forwarded_reserve(engine, context, 3 * GP_MIB / 2, GP_FORWARDED_MEMPOOL));
  fake_complete(&driver, 0);
  stop();
}
END_TEST

static _Atomic int interest;
static int told;

static uint64_t hear(void *self, const gp_event_t *event)
{
  (void)self;
  told += event->action == GP_ACTION_ALLOC || event->action == GP_ACTION_FREE_REQUESTED;
  return event->time_ns;
}

START_TEST(test_an_observer_gets_every_event_that_it_wants)
{
  const gp_observer_t observer = {.interest = &interest, .event = hear};
  gp_driver_context_t first = fake_context(0, 0);

  fake_driver_init(&driver, GP_GIB, true);
  engine = fake_engine(&driver, &observer, NULL);
  context = gp_engine_context(engine, &first);
  (void)free_code(allocate_at_home(BYTES));
  ck_assert_uint_eq(kept(), 1);
  synchronize();
  atomic_store(&interest, 1);
  told = 0;
  uint64_t block = allocate(BYTES);
  ck_assert_int_eq(told, 1);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_int_eq(told, 2);
  synchronize();
  block = allocate(BYTES);
  atomic_store(&interest, 0);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_uint_le(kept(), 1); /* that of before */
  stop();
}
END_TEST

START_TEST(test_a_full_heap_gives_its_oldest_half)
{
  enum { COUNT = GP_HEAP_BLOCKS + 40 };
  uint64_t blocks[COUNT];

  start_with(NULL);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < COUNT; i++)
      blocks[i] = allocate(BYTES);
    for (int i = 0; i < COUNT; i++)
      ck_assert_int_eq(free_code(blocks[i]), 0);
    if (round == 0)
      synchronize();
  }
  ck_assert_uint_gt(kept(), 0);
  ck_assert_uint_lt(kept(), GP_HEAP_BLOCKS);
  ck_assert(!gp_list_is_empty(&context->deferred));
  ck_assert_uint_eq(gp_list_entry(context->deferred.next, gp_block_t, order)->address, blocks[0]);
  ck_assert_uint_eq(stats().allocation.current, 0);
  stop();
}
END_TEST

START_TEST(test_what_a_heap_gives_is_queued_by_its_stamp)
{
  start_with(NULL);
  uint64_t large = allocate(4 * GP_MIB);
  uint64_t small = allocate_at_home(BYTES);
  ck_assert_int_eq(free_code(small), 0); /* first, and kept */
  ck_assert_uint_eq(kept(), 1);
  (void)gp_engine_sync_begin(engine); /* the next free has a later stamp */
  ck_assert_int_eq(free_code(large), 0);
  gp_lock_take(&context->device->lock);
  gp_heaps_collect(engine, context->device);
  const gp_block_t *first = gp_list_entry(context->deferred.next, gp_block_t, order);
  ck_assert_uint_eq(first->address, small);
  ck_assert_uint_lt(first->free_epoch, gp_list_entry(context->deferred.prev, gp_block_t, order)->free_epoch);
  gp_lock_release(&context->device->lock);
  stop();
}
END_TEST

START_TEST(test_a_suspended_engine_leaves_heaps_alone)
{
  start_with(NULL);
  uint64_t live = allocate(BYTES);
  uint64_t block = allocate_at_home(BYTES);
  ck_assert_int_eq(free_code(block), 0);
  synchronize();
  gp_engine_suspend(engine);
  long calls = driver.count[FAKE_ALLOC];
  uint64_t forwarded = allocate(BYTES);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], calls + 1);
  ck_assert_int_eq(free_code(live), 0);
  ck_assert_uint_eq(kept(), 1);
  gp_engine_resume(engine);
  ck_assert_uint_eq(allocate(BYTES), block);
  gp_forwarded_t memory;
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, forwarded, &memory));
  const gp_driver_context_t key = fake_context(0, 0);
  gp_engine_forwarded_freed(engine, &memory, driver.ops.free(&driver, &key, forwarded), 1);
  stop();
}
END_TEST

START_TEST(test_a_lost_context_takes_its_heap_along)
{
  start_with(NULL);
  uint64_t live = allocate_at_home(BYTES);
  ck_assert_int_eq(free_code(allocate(BYTES)), 0);
  gp_engine_context_lost(engine, context);
  ck_assert(!is_open());
  int code;
  ck_assert_int_eq(gp_engine_free(engine, live, &code), GP_FREE_UNKNOWN);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  ck_assert(gp_engine_check(engine));
  gp_engine_destroy(engine);
  fake_driver_fini(&driver);
}
END_TEST

/* A program that never asks for the same size again gets nothing from its heap. */
START_TEST(test_a_heap_that_serves_nothing_rests)
{
  start_with(NULL);
  (void)free_code(allocate_at_home(BYTES));
  const gp_heap_t *heap = gp_heap_own(engine, context->device);
  for (int i = 0; i < 3000 && heap->rest == 0; i++) {
    uint64_t a = allocate(512 * (1 + (uint64_t)i % 200));
    synchronize();
    (void)free_code(a);
  }
  ck_assert_uint_gt(heap->rest, 0);
  ck_assert(!is_open());
  stop();
}
END_TEST

/*
 * Several threads
 */

static _Atomic uint64_t passed;
static _Atomic int done, refused;

static void free_of_another(uintptr_t number)
{
  if (number == 0)
    atomic_store(&passed, allocate_at_home(BYTES));
  gp_meet();
  if (number == 1)
    ck_assert_int_eq(free_code(atomic_load(&passed)), 0);
  gp_meet();
  if (number == 0) {
    ck_assert_uint_eq(kept(), 1); /* it came home */
    synchronize();
    ck_assert_uint_eq(allocate(BYTES), atomic_load(&passed));
  }
}

START_TEST(test_a_block_that_another_thread_frees_comes_home)
{
  start_with(types[_i]);
  gp_run_together(2, free_of_another);
  ck_assert_uint_eq(stats().allocation.current, 1);
  stop();
}
END_TEST

#define ROUNDS 2000

static void free_twice(uintptr_t number)
{
  for (int i = 0; i < ROUNDS; i++) {
    int code = -1;
    if (number == 0)
      atomic_store(&passed, allocate(BYTES));
    gp_meet();
    ck_assert_int_eq(gp_engine_free(engine, atomic_load(&passed), &code), GP_FREE_DONE);
    atomic_fetch_add(code == 0 ? &done : &refused, 1);
    gp_meet();
    if (number == 0)
      synchronize();
  }
}

START_TEST(test_of_two_frees_of_a_block_one_is_refused)
{
  start_with(types[_i]);
  done = refused = 0;
  gp_lock_leave_gaps(4);
  gp_run_together(2, free_twice);
  gp_lock_leave_gaps(0);
  ck_assert_int_eq(done, ROUNDS);
  ck_assert_int_eq(refused, ROUNDS);
  ck_assert_uint_eq(stats().allocation.current, 0);
  ck_assert_uint_eq(stats().allocation.allocated, ROUNDS);
  stop();
}
END_TEST

enum { FILLING = GP_HEAP_BYTES / GP_MIB };

/* Of two frees one may find the heap full, and the other room in it. */
static void free_twice_beside_full(uintptr_t number)
{
  uint64_t filling[FILLING];

  for (int i = 0; i < ROUNDS; i++) {
    int code = 0;
    if (number == 0) {
      for (int j = 0; j < FILLING; j++)
        filling[j] = allocate(GP_MIB);
      atomic_store(&passed, allocate(GP_MIB));
      for (int j = 0; j < FILLING; j++)
        (void)free_code(filling[j]);
    }
    gp_meet();
    (void)gp_engine_free(engine, atomic_load(&passed), &code);
    atomic_fetch_add(code == 0 ? &done : &refused, 1);
    gp_meet();
    if (number == 0)
      synchronize();
  }
}

START_TEST(test_of_two_frees_beside_a_full_heap_one_is_refused)
{
  start_with("GPUPOOL_TYPE=naive");
  done = refused = 0;
  gp_lock_leave_gaps(2);
  gp_run_together(2, free_twice_beside_full);
  gp_lock_leave_gaps(0);
  ck_assert_int_eq(done, ROUNDS);
  ck_assert_int_eq(refused, ROUNDS);
  stop();
}
END_TEST

/* It does without, and does not look each time. */
START_TEST(test_a_thread_that_gets_no_heap)
{
  start_with(NULL);
  atomic_store(&engine->heap_count, GP_HEAPS_MAX);
  for (int i = 0; i < 10; i++) {
    ck_assert_int_eq(free_code(allocate(BYTES)), 0);
    synchronize();
  }
  ck_assert_ptr_null(gp_heap_own(engine, device_of_test()));
  ck_assert_uint_gt(gp_own_heaps.pause, 0);
  ck_assert_uint_eq(atomic_load(&engine->heap_count), GP_HEAPS_MAX);
  ck_assert_uint_eq(stats().cache_hits, 9);
  stop();
}
END_TEST

/* A thread frees, and is then out of the engine, as one that is stopped is. Another one needs its memory. */
enum { KEPT = 6 };

static void take_from_another(uintptr_t number)
{
  uint64_t blocks[KEPT];

  for (int round = 0; number == 0 && round < 2; round++) {
    for (int i = 0; i < KEPT; i++)
      blocks[i] = allocate(GP_MIB / 2);
    for (int i = 0; i < KEPT; i++)
      ck_assert_int_eq(free_code(blocks[i]), 0);
    synchronize();
  }
  ck_assert(number != 0 || kept() == KEPT);
  gp_meet();
  if (number == 1) {
    uint64_t address = 0;
    ck_assert_int_eq(gp_engine_alloc(engine, context, 7 * GP_MIB, &address), 0);
    ck_assert_int_eq(free_code(address), 0);
  }
  gp_meet();
}

static const char *const limits[] = {"GPUPOOL_LIMIT=8MiB", NULL};

START_TEST(test_a_limit_takes_what_another_thread_keeps)
{
  const char *const settings[] = {limits[_i], NULL};
  start(settings, 8 * GP_MIB, true);
  gp_run_together(2, take_from_another);
  stop();
}
END_TEST

static void miss_beside_another(uintptr_t number)
{
  if (number == 0)
    ck_assert_int_eq(free_code(allocate_at_home(BYTES)), 0);
  if (number == 0)
    synchronize();
  gp_meet();
  if (number == 1) {
    long calls = driver.count[FAKE_ALLOC];
    (void)allocate(BYTES);
    ck_assert_int_eq(driver.count[FAKE_ALLOC], calls);
  }
  gp_meet();
}

START_TEST(test_a_miss_takes_what_another_thread_keeps)
{
  const char *const settings[] = {NULL};
  start(settings, GP_GIB, true);
  gp_run_together(2, miss_beside_another);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  stop();
}
END_TEST

static void look_at_another(uintptr_t number)
{
  for (int i = 0; i < ROUNDS; i++) {
    if (number == 0) {
      ck_assert_int_eq(free_code(allocate(BYTES)), 0);
      if (i % 16 == 0)
        gp_engine_sync_end(engine, context, gp_engine_sync_begin(engine));
    } else {
      gp_block_view_t views[64];
      gp_stats_t now;
      size_t count = gp_engine_blocks(engine, 0, views, 64, &now, NULL);
      uint64_t live = 0;
      for (size_t j = 0; j < count && j < 64; j++)
        live += views[j].state == GP_BLOCK_ALLOCATED;
      ck_assert_uint_eq(live, now.allocation.current); /* of one moment */
      ck_assert_uint_le(live, 1);
    }
  }
}

START_TEST(test_a_view_is_of_one_moment)
{
  start_with(types[_i]);
  driver.locked = true;
  gp_lock_leave_gaps(4);
  gp_run_together(2, look_at_another);
  gp_lock_leave_gaps(0);
  ck_assert_uint_eq(stats().allocation.allocated, ROUNDS);
  stop();
}
END_TEST

static void end_with_a_heap(uintptr_t number)
{
  (void)number;
  ck_assert_int_eq(free_code(allocate_at_home(BYTES)), 0);
  ck_assert_uint_eq(kept(), 1);
}

START_TEST(test_a_thread_gives_all_back_at_its_end)
{
  start_with(NULL);
  for (int i = 0; i < 3; i++) {
    gp_run_together(1, end_with_a_heap);
    ck_assert(!is_open());
    ck_assert(!gp_list_is_empty(&context->deferred));
    synchronize();
  }
  ck_assert_ptr_nonnull(device_of_test()->heaps);
  ck_assert_ptr_null(device_of_test()->heaps->next); /* the next thread gets the same one */
  stop();
}
END_TEST

START_TEST(test_threads_of_engines_that_are_gone)
{
  for (int i = 0; i < 3; i++) {
    start_with(NULL);
    (void)free_code(allocate_at_home(BYTES));
    stop();
  }
}
END_TEST

int main(void)
{
  const int count = sizeof(types) / sizeof(types[0]);
  Suite *suite = suite_create("heaps");
  TCase *one = tcase_create("one thread");
  tcase_add_loop_test(one, test_a_freed_block_comes_back_once_it_is_covered, 0, count);
  tcase_add_loop_test(one, test_sums_are_exact_when_asked, 0, count);
  tcase_add_test(one, test_peaks_of_one_thread_are_exact);
  tcase_add_loop_test(one, test_a_second_free_is_refused, 0, count);
  tcase_add_loop_test(one, test_the_owner_is_asked_about_kept_blocks, 0, count);
  tcase_add_loop_test(one, test_retained_and_tainted_blocks_have_no_home, 0, count);
  tcase_add_test(one, test_no_heap_hands_out_parts_of_a_closed_segment);
  tcase_add_loop_test(one, test_settings_without_heaps, 0, sizeof(without) / sizeof(without[0]));
  tcase_add_test(one, test_while_a_use_is_watched_heaps_stay_closed);
  tcase_add_test(one, test_while_the_reserve_is_short_heaps_stay_closed);
  tcase_add_test(one, test_room_in_the_drivers_pools_is_made_of_what_heaps_keep);
  tcase_add_test(one, test_an_observer_gets_every_event_that_it_wants);
  tcase_add_test(one, test_a_full_heap_gives_its_oldest_half);
  tcase_add_test(one, test_what_a_heap_gives_is_queued_by_its_stamp);
  tcase_add_test(one, test_a_suspended_engine_leaves_heaps_alone);
  tcase_add_test(one, test_a_lost_context_takes_its_heap_along);
  tcase_add_test(one, test_a_heap_that_serves_nothing_rests);
  tcase_add_test(one, test_a_thread_that_gets_no_heap);
  TCase *several = tcase_create("several threads");
  tcase_add_loop_test(several, test_a_block_that_another_thread_frees_comes_home, 0, count);
  tcase_add_loop_test(several, test_of_two_frees_of_a_block_one_is_refused, 0, count);
  tcase_add_test(several, test_of_two_frees_beside_a_full_heap_one_is_refused);
  tcase_add_loop_test(several, test_a_limit_takes_what_another_thread_keeps, 0, 2);
  tcase_add_test(several, test_a_miss_takes_what_another_thread_keeps);
  tcase_add_loop_test(several, test_a_view_is_of_one_moment, 0, count);
  tcase_add_test(several, test_a_thread_gives_all_back_at_its_end);
  tcase_add_test(several, test_threads_of_engines_that_are_gone);
  suite_add_tcase(suite, one);
  suite_add_tcase(suite, several);
  return gp_check_main(suite);
}
