/*
 * Several threads that take small memory without the device's lock, free each other's, and look at the device
 * as a whole all the while. Run under TSan it finds races; everywhere it checks that nothing is handed out
 * while work of an earlier owner is pending, or twice, and that whoever looks finds every block.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "pool/stripes.h"
#include "pool/util/lock_gaps.h"
#include "test/pool/check_main.h"
#include "test/pool/fake_driver.h"
#include "test/pool/run_together.h"

#define THREADS 4
#define STEPS   60000
#define SHARED  64
#define SIZES   6
#define GAPS    64 /* between holds of locks: in the second round */

static fake_driver_t driver;
static gp_engine_t *engine;
static gp_context_t *contexts[2];

static _Atomic uint64_t shared[SHARED]; /* blocks that any thread may free */
static _Atomic uint64_t early, twice, lost;
static _Atomic uint64_t served; /* by stripes, as far as seen: there were some */

static uint32_t next_random(uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void free_block(uint64_t address)
{
  int code = -1;
  if (address != 0 && (gp_engine_free(engine, address, &code) != GP_FREE_DONE || code != 0))
    abort();
}

/* Owners by the number of the address: the pool may give none to two. */
#define OWNERS 8192
static _Atomic uint64_t owners[OWNERS];

static _Atomic uint64_t *owner_of(uint64_t address)
{
  return &owners[address / 512 % OWNERS];
}

static void allocate(uint32_t *state)
{
  uint64_t address;
  int index = (int)(next_random(state) % 16 == 0);
  uint64_t bytes = 512 + 512 * (uint64_t)(next_random(state) % SIZES);

  if (gp_engine_alloc(engine, contexts[index], bytes, &address) != 0)
    abort();
  if (fake_is_any_in_use(&driver, address, bytes))
    atomic_fetch_add(&early, 1);
  if (atomic_exchange(owner_of(address), address) == address)
    atomic_fetch_add(&twice, 1);
  fake_submit_on(&driver, index, address, bytes);
  uint64_t other = atomic_exchange(&shared[next_random(state) % SHARED], address);
  if (other != 0)
    atomic_store(owner_of(other), 0);
  free_block(other);
}

static void synchronize(int index)
{
  uint64_t token = gp_engine_sync_begin(engine, contexts[index]);
  fake_complete(&driver, index);
  gp_engine_sync_end(engine, contexts[index], token);
}

static void stripe(void)
{
  gp_device_t *device = contexts[0]->device;
  gp_device_take_beside(device);
  if (gp_device_is_striped(device))
    atomic_fetch_add(&served, device->stripes->served);
  else
    gp_stripes_begin(device);
  gp_lock_release(&device->lock);
}

/* A live block is one for everyone who looks. */
static void look(uint32_t *state)
{
  gp_block_view_t views[256];
  gp_stats_t stats;
  uint64_t live = 0;

  size_t count = gp_engine_blocks(engine, 0, views, 256, &stats, NULL);
  for (size_t i = 0; i < count && i < 256; i++)
    live += views[i].state == GP_BLOCK_ALLOCATED;
  if (count <= 256 && live != stats.allocation.current)
    atomic_fetch_add(&lost, 1);
  (void)gp_engine_trim(engine, contexts[0], next_random(state) % 4096, GP_TRIM_REQUESTED);
}

static void work(uintptr_t number)
{
  uint32_t state = (uint32_t)number + 1;

  for (int i = 0; i < STEPS; i++) {
    uint32_t dice = next_random(&state) % 1000;
    if (dice < 940)
      allocate(&state);
    else if (dice < 980)
      synchronize((int)(dice % 8 == 0));
    else if (dice < 992)
      stripe();
    else if (dice < 995)
      look(&state);
    else if (dice < 998)
      (void)gp_engine_owner(engine, atomic_load(&shared[dice % SHARED]));
    else
      (void)gp_engine_begins_use(engine, atomic_load(&shared[dice % SHARED]));
  }
}

static const char *const settings[][3] = {
    {"GPUPOOL_REUSE=context", NULL},
    {"GPUPOOL_REUSE=context", "GPUPOOL_LIMIT=96MiB", NULL},
    {"GPUPOOL_REUSE=context", "GPUPOOL_MAX_DEFERRED=1MiB", NULL},
};
#define SETTINGS_COUNT (int)(sizeof(settings) / sizeof(settings[0]))

START_TEST(test_stripe_threads)
{
  gp_stats_t stats;

  fake_driver_init(&driver, 256 * GP_MIB, true);
  driver.locked = true;
  engine = fake_engine(&driver, NULL, settings[_i % SETTINGS_COUNT]);
  gp_lock_leave_gaps(_i < SETTINGS_COUNT ? 0 : GAPS);
  for (int i = 0; i < 2; i++) {
    gp_driver_context_t key = fake_context(i, 0);
    contexts[i] = gp_engine_context(engine, &key);
  }
  early = twice = lost = served = 0;
  for (int i = 0; i < OWNERS; i++)
    owners[i] = 0;
  gp_run_together(THREADS, work);
  for (int i = 0; i < SHARED; i++)
    free_block(atomic_exchange(&shared[i], 0));

  ck_assert_uint_eq(atomic_load(&early), 0);
  ck_assert_uint_eq(atomic_load(&twice), 0);
  ck_assert_uint_eq(atomic_load(&lost), 0);
  ck_assert_uint_gt(atomic_load(&served), 0);
  ck_assert_int_eq(driver.errors, 0);
  gp_engine_stats(engine, 0, &stats);
  ck_assert_uint_eq(stats.allocation.current, 0);
  synchronize(0);
  synchronize(1);
  for (int i = 0; i < 2; i++)
    gp_engine_trim(engine, contexts[i], UINT64_MAX, GP_TRIM_REQUESTED);
  ck_assert_uint_eq(driver.used, 0);
  ck_assert(gp_engine_check(engine));
  gp_engine_destroy(engine);
  fake_driver_fini(&driver);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stripe_threads");
  TCase *threads = tcase_create("threads");
  tcase_set_timeout(threads, 300);
  tcase_add_loop_test(threads, test_stripe_threads, 0, 2 * SETTINGS_COUNT);
  suite_add_tcase(suite, threads);
  return gp_check_main(suite);
}
