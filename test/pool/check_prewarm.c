/*
 * GPUPOOL_PREWARM in the engine: what is obtained with the first request, what is left out, and that the
 * program's own requests come first.
 */
#include <string.h>

#include "pool/engine_record.h"
#include "pool/limits/limit.h"
#include "pool/space/segment.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define SETTINGS(...) ((const char *const[]){"GPUPOOL_RESERVE=0", __VA_ARGS__, NULL})

static void begin(const char *const *settings, uint64_t capacity)
{
  start(settings, capacity, true);
}

static gp_prewarm_state_t state(void)
{
  return atomic_load(&engine->devices[0].prewarm.state);
}

/* Blocks of the classes that such requests would get: each of them is a hit. */
START_TEST(test_whole_blocks)
{
  begin(SETTINGS("GPUPOOL_PREWARM=3MiB*2,70MiB,1000"), GP_GIB);
  ck_assert_uint_eq(stats().driver_allocs, 0);
  uint64_t a = allocate(3 * GP_MIB);
  ck_assert_uint_eq(stats().driver_allocs, 4);
  ck_assert_uint_eq(stats().cache_hits, 1);
  ck_assert_uint_eq(stats().cache_misses, 0);
  ck_assert_uint_eq(stats().reserved_bytes.current, 2 * 4 * GP_MIB + 70 * GP_MIB + 1024);
  uint64_t b = allocate(4 * GP_MIB), c = allocate(70 * GP_MIB), d = allocate(999);
  ck_assert_uint_eq(stats().cache_hits, 4);
  ck_assert_uint_eq(stats().driver_allocs, 4);
  (void)allocate(3 * GP_MIB);
  ck_assert_uint_eq(stats().cache_misses, 1);
  ck_assert(a != b && c != d);
  ck_assert_int_eq(free_code(a), 0);
  ck_assert_int_eq(state(), GP_PREWARM_DONE);
  stop();
}
END_TEST

static int looks;

static void look(void *self)
{
  (void)self;
  looks++;
  ck_assert_int_eq(atomic_load(&engine->own_calls), 0);
}

/* The look may wait for the device, and so for a capture, which waits for announced calls. */
START_TEST(test_libraries_are_looked_for_outside_of_announced_calls)
{
  begin(SETTINGS("GPUPOOL_PREWARM=3MiB*2"), GP_GIB);
  driver.ops.look_for_escapes = look;
  looks = 0;
  (void)allocate(3 * GP_MIB);
  (void)allocate(3 * GP_MIB);
  ck_assert_int_eq(looks, 0); /* the program got none of the driver's yet */
  (void)allocate(9 * GP_MIB);
  ck_assert_int_eq(looks, 1);
  stop();
}
END_TEST

START_TEST(test_naive_blocks)
{
  begin(SETTINGS("GPUPOOL_TYPE=naive", "GPUPOOL_PREWARM=5000*3"), GP_GIB);
  (void)allocate(8000);
  ck_assert_uint_eq(stats().driver_allocs, 3);
  ck_assert_uint_eq(stats().reserved_bytes.current, 3 * 8192);
  ck_assert_uint_eq(stats().cache_hits, 1);
  stop();
}
END_TEST

START_TEST(test_segments_are_cut)
{
  begin(SETTINGS("GPUPOOL_TYPE=segment", "GPUPOOL_PREWARM=99MiB*2"), GP_GIB);
  (void)allocate(60 * GP_MIB);
  (void)allocate(90 * GP_MIB);
  (void)allocate(40 * GP_MIB);
  ck_assert_uint_eq(driver.count[FAKE_ALLOC], 2);
  ck_assert_uint_eq(stats().reserved_bytes.current, 200 * GP_MIB);
  ck_assert_uint_eq(stats().cache_misses, 0);
  stop();
}
END_TEST

START_TEST(test_mapped_memory)
{
  begin(SETTINGS("GPUPOOL_TYPE=vmm", "GPUPOOL_PREWARM=64MiB*2,1"), GP_GIB);
  uint64_t a = allocate(120 * GP_MIB);
  ck_assert(fake_may_use(&driver, a, 120 * GP_MIB, 0));
  ck_assert_uint_eq(stats().reserved_bytes.current, 130 * GP_MIB);
  ck_assert_uint_eq(stats().cache_hits, 1);
  long created = driver.count[FAKE_CREATE];
  (void)allocate(10 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_CREATE], created);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 0);
  stop();
}
END_TEST

/* Where no memory can be mapped, segments are made instead. */
START_TEST(test_mapped_memory_refused)
{
  begin(SETTINGS("GPUPOOL_TYPE=vmm", "GPUPOOL_PREWARM=64MiB"), GP_GIB);
  driver.ops.reserve = NULL;
  (void)allocate(60 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  ck_assert_uint_eq(stats().cache_hits, 1);
  stop();
}
END_TEST

START_TEST(test_unpooled_has_none)
{
  begin(SETTINGS("GPUPOOL_TYPE=unpooled", "GPUPOOL_PREWARM=2MiB*4"), GP_GIB);
  (void)allocate(2 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  stop();
}
END_TEST

/* The memory is complete from the start: the first request gets it although the device is at work. */
START_TEST(test_memory_is_complete)
{
  begin(SETTINGS("GPUPOOL_PREWARM=2MiB*2"), GP_GIB);
  fake_submit_on(&driver, 0, 0x5000, 512);
  (void)allocate(2 * GP_MIB);
  (void)allocate(2 * GP_MIB);
  ck_assert_uint_eq(stats().cache_hits, 2);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  stop();
}
END_TEST

/* It is no surplus: it counts as if it had been in use. */
START_TEST(test_segments_stay)
{
  begin(SETTINGS("GPUPOOL_TYPE=segment", "GPUPOOL_PREWARM=100MiB*4"), GP_GIB);
  for (int i = 0; i < 50; i++) {
    uint64_t a = allocate(GP_MIB);
    ck_assert_int_eq(free_code(a), 0);
    synchronize();
  }
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  ck_assert_uint_eq(stats().reserved_bytes.current, 400 * GP_MIB);
  gp_lock_take(&engine->devices[0].lock);
  ck_assert_uint_eq(gp_segment_spare_bytes(&engine->devices[0]), 0);
  gp_lock_release(&engine->devices[0].lock);
  stop();
}
END_TEST

/* Mapped memory need not move while the program has not used what was obtained for it. */
START_TEST(test_mapped_memory_stays)
{
  begin(SETTINGS("GPUPOOL_TYPE=vmm", "GPUPOOL_PREWARM=100MiB*2"), GP_GIB);
  (void)allocate(50 * GP_MIB);
  ck_assert_uint_eq(engine->devices[0].highest_parts, 200 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_idle_memory_goes_back)
{
  begin(SETTINGS("GPUPOOL_PREWARM=2MiB*4", "GPUPOOL_IDLE_RELEASE=5"), GP_GIB);
  uint64_t a = allocate(512);
  driver.now_ns += UINT64_C(6000000000);
  ck_assert_int_eq(free_code(a), 0);
  synchronize();
  ck_assert_int_eq(driver.count[FAKE_FREE], 4);
  stop();
}
END_TEST

START_TEST(test_limit_is_kept)
{
  begin(SETTINGS("GPUPOOL_LIMIT=100MiB", "GPUPOOL_PREWARM=32MiB*10,4MiB"), GP_GIB);
  (void)allocate(4 * GP_MIB);
  ck_assert_uint_eq(stats().reserved_bytes.current, 100 * GP_MIB); /* the smaller one fits still */
  ck_assert_uint_eq(stats().driver_allocs, 4);
  ck_assert_ptr_nonnull(strstr(engine->devices[0].prewarm.why, "GPUPOOL_LIMIT"));
  /* The program's own requests are served from all of it. */
  (void)allocate(90 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_max_cached_is_kept)
{
  begin(SETTINGS("GPUPOOL_MAX_CACHED=70MiB", "GPUPOOL_PREWARM=32MiB*10"), GP_GIB);
  (void)allocate(512);
  ck_assert_uint_eq(stats().cached_bytes.current, 64 * GP_MIB);
  ck_assert_ptr_nonnull(strstr(engine->devices[0].prewarm.why, "GPUPOOL_MAX_CACHED"));
  synchronize();
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  stop();
}
END_TEST

START_TEST(test_reserve_is_kept)
{
  const char *const settings[] = {"GPUPOOL_RESERVE=100MiB", "GPUPOOL_PREWARM=32MiB*10", NULL};
  begin(settings, 200 * GP_MIB);
  (void)allocate(512);
  ck_assert_uint_eq(stats().cached_bytes.current, 96 * GP_MIB);
  ck_assert_ptr_nonnull(strstr(engine->devices[0].prewarm.why, "GPUPOOL_RESERVE"));
  stop();
}
END_TEST

static uint64_t count_free_records(void)
{
  uint64_t count = 0;
  gp_lock_take(&engine->slab_lock);
  for (const gp_block_t *record = engine->free_records; record; count++)
    record = record->in_bin.next ? gp_block_of_entry(record->in_bin.next) : NULL;
  gp_lock_release(&engine->slab_lock);
  return count;
}

/* More than the device has. */
START_TEST(test_driver_refuses)
{
  static const char *const types[] = {
      "GPUPOOL_TYPE=round", "GPUPOOL_TYPE=naive", "GPUPOOL_TYPE=segment", "GPUPOOL_TYPE=vmm"};
  for (size_t i = 0; i < 4; i++) {
    begin(SETTINGS(types[i], "GPUPOOL_PREWARM=64MiB*100"), 200 * GP_MIB);
    gp_lock_take(&engine->devices[0].lock);
    engine->devices[0].told_ns = 0; /* the driver does not tell either what is free */
    gp_lock_release(&engine->devices[0].lock);
    driver.fail_code = FAKE_OUT_OF_MEMORY;
    driver.fail_at = driver.calls + 1; /* the question what is free */
    (void)allocate(64 * GP_MIB);
    ck_assert_uint_eq(stats().reserved_bytes.current, 192 * GP_MIB);
    ck_assert_ptr_nonnull(strstr(engine->devices[0].prewarm.why, "the driver"));
    if (i < 2) /* records are made 256 at a time; that of the refused block is for others */
      ck_assert_uint_eq((count_free_records() + stats().segment.current) % 256, 0);
    (void)allocate(130 * GP_MIB); /* for which idle memory goes back */
    stop();
  }
}
END_TEST

/* A capture is no time for calls of our own; afterwards the list is taken up. */
START_TEST(test_not_beside_a_capture)
{
  begin(SETTINGS("GPUPOOL_PREWARM=2MiB*4"), GP_GIB);
  gp_engine_suspend(engine);
  (void)allocate(2 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  ck_assert_int_eq(state(), GP_PREWARM_DUE);
  gp_engine_resume(engine);
  (void)allocate(2 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 5);
  ck_assert_int_eq(state(), GP_PREWARM_DONE);
  stop();
}
END_TEST

START_TEST(test_not_after_a_sticky_error)
{
  uint64_t address;
  begin(SETTINGS("GPUPOOL_PREWARM=2MiB*4,1MiB"), GP_GIB);
  driver.fail_code = FAKE_STICKY;
  driver.fail_at = driver.calls + 3; /* the question, the first block, the second */
  driver.fail_stays = true;
  ck_assert_int_eq(gp_engine_alloc(engine, context, 4 * GP_MIB, &address), FAKE_STICKY);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 3); /* the last is the program's */
  driver.fail_at = 0;
  (void)allocate(GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 4);
  stop();
}
END_TEST

/* Where memory is shown to others, large requests need blocks of their own: segments would be of no use. */
START_TEST(test_not_where_memory_is_exported)
{
  begin(SETTINGS("GPUPOOL_TYPE=segment", "GPUPOOL_PREWARM=64MiB"), GP_GIB);
  gp_engine_expect_exports(engine);
  (void)allocate(4 * GP_MIB);
  ck_assert_uint_eq(stats().reserved_bytes.current, 4 * GP_MIB);
  stop();
}
END_TEST

/* The first context of each device that asks gets it. */
START_TEST(test_once_a_device)
{
  begin(SETTINGS("GPUPOOL_PREWARM=2MiB*4"), GP_GIB);
  gp_driver_context_t keys[] = {fake_context(1, 0), fake_context(2, 1)};
  gp_context_t *second = gp_engine_context(engine, &keys[0]);
  gp_context_t *other = gp_engine_context(engine, &keys[1]);
  uint64_t address;
  (void)allocate(512);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 5);
  ck_assert_int_eq(gp_engine_alloc(engine, second, 512, &address), 0);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 6);
  ck_assert_int_eq(gp_engine_alloc(engine, other, 512, &address), 0);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 11);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("prewarm");
  TCase *tests = tcase_create("prewarm");
  tcase_add_test(tests, test_whole_blocks);
  tcase_add_test(tests, test_libraries_are_looked_for_outside_of_announced_calls);
  tcase_add_test(tests, test_naive_blocks);
  tcase_add_test(tests, test_segments_are_cut);
  tcase_add_test(tests, test_mapped_memory);
  tcase_add_test(tests, test_mapped_memory_refused);
  tcase_add_test(tests, test_unpooled_has_none);
  tcase_add_test(tests, test_memory_is_complete);
  tcase_add_test(tests, test_segments_stay);
  tcase_add_test(tests, test_mapped_memory_stays);
  tcase_add_test(tests, test_idle_memory_goes_back);
  tcase_add_test(tests, test_limit_is_kept);
  tcase_add_test(tests, test_max_cached_is_kept);
  tcase_add_test(tests, test_reserve_is_kept);
  tcase_add_test(tests, test_driver_refuses);
  tcase_add_test(tests, test_not_beside_a_capture);
  tcase_add_test(tests, test_not_after_a_sticky_error);
  tcase_add_test(tests, test_not_where_memory_is_exported);
  tcase_add_test(tests, test_once_a_device);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
