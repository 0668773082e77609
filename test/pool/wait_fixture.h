/*
 * For tests of waits: an engine over a small device whose memory work holds, and a clock that moves in the
 * pauses of the engine only. Each test program includes it once.
 */
#ifndef GP_TEST_POOL_WAIT_FIXTURE_H
#define GP_TEST_POOL_WAIT_FIXTURE_H

#include <pthread.h>
#include <string.h>

#include "test/pool/engine_fixture.h"

#define SECOND      UINT64_C(1000000000)
#define MILLISECOND UINT64_C(1000000)
#define SMALL       (512 * GP_KIB) /* a free of so much is not worth a fence */
#define LARGE       (64 * GP_MIB)  /* one of so much is */

static gp_oom_t oom; /* the last */
static pthread_mutex_t oom_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Threads may report at the same time. */
static inline void note_oom(void *self, const gp_oom_t *report)
{
  (void)self;
  (void)pthread_mutex_lock(&oom_mutex);
  oom = *report;
  (void)pthread_mutex_unlock(&oom_mutex);
}

static const gp_observer_t observer = {.out_of_memory = note_oom};
static uint64_t began_ns;

/* GPUPOOL_RESERVE=0, so that a small device does not count as nearly full, no waits in frees, and one more
 * setting or NULL. */
static inline void begin(const char *setting, uint64_t capacity, bool with_fence)
{
  bool bounds = setting && strstr(setting, "MAX_DEFERRED");
  const char *const settings[] = {
      "GPUPOOL_RESERVE=0", bounds ? setting : "GPUPOOL_MAX_DEFERRED=none", bounds ? NULL : setting, NULL};
  gp_driver_context_t first = fake_context(0, 0);

  memset(&oom, 0, sizeof(oom));
  fake_driver_init(&driver, capacity, with_fence);
  engine = fake_engine(&driver, &observer, settings);
  context = gp_engine_context(engine, &first);
  ck_assert_ptr_nonnull(context);
  began_ns = driver.now_ns;
}

static inline uint64_t passed_ns(void)
{
  return driver.now_ns - began_ns;
}

/* The allocation fails, and the program gets the error. */
static inline void refuse(uint64_t bytes)
{
  uint64_t address = 0;
  uint64_t ooms = stats().num_ooms;

  ck_assert_int_eq(gp_engine_alloc(engine, context, bytes, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(stats().num_ooms, ooms + 1);
}

/* Frees a block on which the context still works. */
static inline void free_busy(uint64_t block)
{
  fake_submit(&driver, 0, block);
  ck_assert_int_eq(free_code(block), 0);
}

/* The device has nothing but a block that work holds. Without a fence at its free: it is small. */
static inline uint64_t fill_with_small(const char *setting)
{
  begin(setting, SMALL, true);
  uint64_t block = allocate(SMALL);
  free_busy(block);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 0);
  return block;
}

/* With a fence at the free. */
static inline uint64_t fill_with_large(const char *setting)
{
  begin(setting, LARGE, true);
  uint64_t block = allocate(LARGE);
  free_busy(block);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  return block;
}

/* An allocation that may fail. */
static inline void miss(void)
{
  uint64_t address = 0;
  (void)gp_engine_alloc(engine, context, SMALL, &address);
}

#endif
