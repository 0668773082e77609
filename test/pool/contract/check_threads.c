/*
 * Several threads on one engine: allocations, frees by other threads, synchronizations, trims, captures, and
 * contexts that come and go. Run under TSan it finds races; everywhere it checks that nothing is handed out
 * while work of an earlier owner is pending, and that the sums are right in the end.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pool/engine_record.h"
#include "base/lock.h"
#include "test/pool/check_main.h"
#include "test/pool/fake_driver.h"
#include "test/pool/run_together.h"

#define THREADS 4
#define STEPS   6000
#define SHARED  64
#define BLOCKS  4096 /* of a device, at most */
#define GAPS    8    /* between holds of locks: in the second round */

static fake_driver_t driver;
static gp_engine_t *engine;
static gp_context_t *contexts[2];
static _Atomic uint64_t shared[SHARED]; /* blocks that any thread may free */
static _Atomic uint64_t allocations, frees, refused, early;

static uint32_t next_random(uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void free_block(uint64_t address)
{
  int code = -1;
  if (address == 0)
    return;
  if (gp_engine_free(engine, address, &code) == GP_FREE_UNKNOWN) {
    /* Allocated while another thread had the engine suspended: not pooled, so its free is the driver's. */
    gp_forwarded_t memory;
    const gp_driver_context_t key = fake_context(0, 0);
    if (!gp_engine_forwarded_take(engine, GP_SPACE_POINTER, address, &memory))
      abort();
    code = driver.ops.free(&driver, &key, address);
    gp_engine_forwarded_freed(engine, &memory, 0, 1);
  }
  if (code != 0)
    abort();
  atomic_fetch_add(&frees, 1);
}

static void allocate(uint32_t *state)
{
  uint64_t address;
  int index = (int)(next_random(state) % 2);
  uint64_t bytes = 1 + next_random(state) % (2u << 20);

  if (gp_engine_alloc(engine, contexts[index], bytes, &address) != 0) {
    atomic_fetch_add(&refused, 1);
    return;
  }
  atomic_fetch_add(&allocations, 1);
  if (fake_is_any_in_use(&driver, address, bytes) || fake_is_being_filled(&driver, address))
    atomic_fetch_add(&early, 1);
  fake_submit_on(&driver, index, address, bytes);
  fake_complete_in(&driver, index, 1 + next_random(state) % 4000000); /* while the engine waits */
  free_block(atomic_exchange(&shared[next_random(state) % SHARED], address));
}

static void work(uintptr_t number)
{
  uint32_t state = (uint32_t)number + 1;

  for (int i = 0; i < STEPS; i++) {
    uint32_t dice = next_random(&state) % 100;
    if (dice < 80) {
      allocate(&state);
    } else if (dice < 92) {
      free_block(atomic_exchange(&shared[next_random(&state) % SHARED], 0));
    } else if (dice < 97) {
      int index = (int)(next_random(&state) % 2);
      uint64_t token = gp_engine_sync_begin(engine);
      fake_complete(&driver, index);
      gp_engine_sync_end(engine, contexts[index], token);
    } else if (dice < 98) {
      gp_engine_trim(engine, contexts[0], 1 << 20, GP_TRIM_REQUESTED);
    } else if (dice < 99) {
      gp_forwarded_t memory;
      gp_engine_suspend(engine);
      gp_engine_resume(engine);
      if (gp_engine_forwarded_reserve(engine, contexts[0], 4096, GP_FORWARDED_MANAGED)) {
        memory = (gp_forwarded_t){
            .address = 0x1000 + ((uint64_t)state << 20), .size = 4096, .kind = GP_FORWARDED_MANAGED};
        gp_engine_forwarded_commit(engine, contexts[0], &memory, 1);
        if (gp_engine_forwarded_take(engine, GP_SPACE_POINTER, memory.address, &memory))
          gp_engine_forwarded_freed(engine, &memory, 0, 1);
      }
    } else {
      gp_block_view_t views[32];
      gp_stats_t stats;
      (void)gp_engine_blocks(engine, 0, views, 32, &stats, NULL);
    }
  }
}

static const char *const settings[][4] = {
    {"GPUPOOL_LIMIT=96MiB", "GPUPOOL_MAX_DEFERRED=4MiB", "GPUPOOL_RESERVE=0", NULL},
    {"GPUPOOL_REUSE=strict", "GPUPOOL_MAX_CACHED=8MiB", NULL},
    {"GPUPOOL_TYPE=unpooled", "GPUPOOL_LIMIT=128MiB", NULL},
    {"GPUPOOL_TYPE=naive", "GPUPOOL_IDLE_RELEASE=0", "GPUPOOL_SLACK=0", NULL},
    {"GPUPOOL_TYPE=segment", "GPUPOOL_LIMIT=96MiB", "GPUPOOL_MAX_DEFERRED=4MiB", NULL},
    {"GPUPOOL_TYPE=segment", "GPUPOOL_REUSE=strict", "GPUPOOL_MAX_CACHED=8MiB", NULL},
    {"GPUPOOL_TYPE=vmm", "GPUPOOL_LIMIT=96MiB", "GPUPOOL_MAX_DEFERRED=4MiB", NULL},
    {"GPUPOOL_TYPE=vmm", "GPUPOOL_REUSE=strict", "GPUPOOL_MAX_CACHED=8MiB", NULL},
    {"GPUPOOL_FILL=zero", "GPUPOOL_LIMIT=128MiB", "GPUPOOL_RESERVE=0", NULL},
    {"GPUPOOL_FILL=poison", "GPUPOOL_TYPE=vmm", NULL},
};
#define SETTINGS_COUNT (int)(sizeof(settings) / sizeof(settings[0]))

/* Blocks still have an owner only where a late fill holds one that would go to the driver: until its context
 * ends. Returns their bytes. */
static uint64_t expect_only_exact_blocks(void)
{
  static gp_block_view_t views[BLOCKS];
  size_t count = gp_engine_blocks(engine, 0, views, BLOCKS, NULL, NULL);
  uint64_t bytes = 0;

  ck_assert_uint_le(count, BLOCKS);
  for (size_t i = 0; i < count; i++)
    if (views[i].refs > 0) {
      const gp_block_t *block = gp_address_map_find(&engine->blocks, views[i].address);
      ck_assert(block && block->exact);
      bytes += block->size;
    }
  return bytes;
}

START_TEST(test_threads)
{
  uint64_t address = 0;
  gp_stats_t stats;

  fake_driver_init(&driver, 256 * GP_MIB, true);
  driver.locked = true;
  driver.fill_takes = 30000;
  engine = fake_engine(&driver, NULL, settings[_i % SETTINGS_COUNT]);
  gp_lock_leave_gaps(_i < SETTINGS_COUNT ? 0 : GAPS);
  for (int i = 0; i < 2; i++) {
    gp_driver_context_t key = fake_context(i, 0);
    contexts[i] = gp_engine_context(engine, &key);
  }
  allocations = frees = refused = early = 0;
  gp_run_together(THREADS, work);
  for (int i = 0; i < SHARED; i++)
    free_block(atomic_exchange(&shared[i], 0));
  /* Allocations end fills that a suspension has made late, once these are over: the driver's time passes with
   * its calls. */
  for (int i = 0; i < 200; i++) {
    ck_assert_int_eq(gp_engine_alloc(engine, contexts[i % 2], 4096, &address), 0);
    free_block(address);
    gp_engine_stats(engine, 0, &stats);
    if (i > 0 && stats.allocation.current == 0)
      break;
  }

  ck_assert_uint_eq(atomic_load(&early), 0);
  uint64_t kept = expect_only_exact_blocks();
  ck_assert_uint_gt(stats.allocation.allocated, 0); /* by the pool, which no thread suspended any more */
  ck_assert_uint_gt(atomic_load(&allocations), THREADS * STEPS / 4);
  ck_assert_int_eq(driver.errors, 0);
  uint64_t limit = gp_engine_limit(engine, 0);
  if (limit)
    ck_assert_uint_le(driver.peak, limit);
  for (int i = 0; i < 2; i++) {
    uint64_t token = gp_engine_sync_begin(engine);
    fake_complete(&driver, i);
    gp_engine_sync_end(engine, contexts[i], token);
  }
  gp_engine_trim(engine, contexts[0], UINT64_MAX, GP_TRIM_REQUESTED);
  ck_assert_uint_eq(driver.used, kept);
  ck_assert(gp_engine_check(engine));
  gp_engine_destroy(engine);
  fake_driver_fini(&driver);
}
END_TEST

/* Contexts that all threads meet at the same moment: each has one record. */
enum { MET = 2, ENGINES = 100 };

static gp_context_t *met[THREADS][MET];

static void meet(uintptr_t number)
{
  for (int i = 0; i < MET; i++) {
    gp_driver_context_t key = fake_context(i, 0);
    gp_meet();
    met[number][i] = gp_engine_context(engine, &key);
  }
}

START_TEST(test_a_context_that_threads_meet_has_one_record)
{
  gp_lock_leave_gaps(3);
  for (int round = 0; round < ENGINES; round++) {
    fake_driver_init(&driver, 256 * GP_MIB, true);
    driver.locked = true;
    engine = fake_engine(&driver, NULL, settings[0]);
    gp_run_together(THREADS, meet);
    for (int i = 0; i < MET; i++) {
      ck_assert_ptr_nonnull(met[0][i]);
      for (int other = 1; other < THREADS; other++)
        ck_assert_ptr_eq(met[other][i], met[0][i]);
    }
    ck_assert(gp_engine_check(engine));
    gp_engine_destroy(engine);
    fake_driver_fini(&driver);
  }
  gp_lock_leave_gaps(0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("threads");
  TCase *threads = tcase_create("threads");
  tcase_set_timeout(threads, 300);
  tcase_add_loop_test(threads, test_threads, 0, 2 * SETTINGS_COUNT);
  tcase_add_test(threads, test_a_context_that_threads_meet_has_one_record);
  suite_add_tcase(suite, threads);
  return gp_check_main(suite);
}
