/*
 * One engine over one fake driver with one context, for the tests of the engine; each includes it once.
 */
#ifndef GP_TEST_POOL_ENGINE_FIXTURE_H
#define GP_TEST_POOL_ENGINE_FIXTURE_H

#include <check.h>

#include "pool/forwarded/forwarded.h"
#include "test/pool/fake_driver.h"

static fake_driver_t driver;
static gp_engine_t *engine;
static gp_context_t *context;

static inline void start(const char *const *settings, uint64_t capacity, bool with_fence)
{
  gp_driver_context_t first = fake_context(0, 0);
  fake_driver_init(&driver, capacity, with_fence);
  engine = fake_engine(&driver, NULL, settings);
  context = gp_engine_context(engine, &first);
  ck_assert_ptr_nonnull(context);
}

static inline void stop(void)
{
  ck_assert(gp_engine_check(engine));
  ck_assert_int_eq(driver.errors, 0);
  gp_engine_destroy(engine);
  fake_driver_fini(&driver);
}

static inline uint64_t allocate(uint64_t bytes)
{
  uint64_t address = 0;
  ck_assert_int_eq(gp_engine_alloc(engine, context, bytes, &address), 0);
  return address;
}

static inline int free_code(uint64_t address)
{
  int code = -1;
  ck_assert_int_eq(gp_engine_free(engine, address, &code), GP_FREE_DONE);
  return code;
}

static inline void synchronize(void)
{
  uint64_t token = gp_engine_sync_begin(engine);
  fake_complete(&driver, 0);
  gp_engine_sync_end(engine, context, token);
}

static inline gp_stats_t stats(void)
{
  gp_stats_t result;
  gp_engine_stats(engine, 0, &result);
  return result;
}

/* The program ends a pool of the driver's. */
static inline void end_mempool(uint64_t pool, int device, uint64_t reserved)
{
  gp_ending_pool_t ending = gp_engine_mempool_ends(engine, pool, device, reserved);
  gp_engine_mempool_ended(engine, &ending);
}

#endif
