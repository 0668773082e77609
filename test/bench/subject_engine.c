/*
 * The pool's engine, on a driver that hands out addresses and does nothing else, so that nothing but the pool
 * is measured. The settings are those of the environment (GPUPOOL_REUSE, GPUPOOL_TRACE, GPUPOOL_STACKS).
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "interpose/clock.h"
#include "pool/engine.h"
#include "subject.h"
#include "trace/record/recorder.h"

const uint32_t subject_largest = 8u << 20;

#define NOT_READY 600

static _Atomic uint64_t next_address = UINT64_C(0x100000000000);
static gp_options_t options;
static gp_engine_t *engine;
static gp_context_t *context;

static int null_alloc(void *self, const gp_driver_context_t *driver_context, uint64_t bytes, uint64_t *ret)
{
  (void)self;
  (void)driver_context;
  *ret = atomic_fetch_add(&next_address, (bytes + 511) / 512 * 512);
  return 0;
}

static int null_free(void *self, const gp_driver_context_t *driver_context, uint64_t address)
{
  (void)self;
  (void)driver_context;
  (void)address;
  return 0;
}

static int null_wait(void *self, const gp_driver_context_t *driver_context)
{
  (void)self;
  (void)driver_context;
  return 0;
}

static int null_info(
    void *self, const gp_driver_context_t *driver_context, uint64_t *ret_free, uint64_t *ret_total)
{
  (void)self;
  (void)driver_context;
  *ret_free = *ret_total = UINT64_C(1) << 40;
  return 0;
}

static int null_fence_record(void *self, const gp_driver_context_t *driver_context, void **fence)
{
  (void)self;
  (void)driver_context;
  *fence = fence;
  return 0;
}

/* The device is busy until the program synchronizes. */
static int null_fence_query(void *self, const gp_driver_context_t *driver_context, void *fence)
{
  (void)self;
  (void)driver_context;
  (void)fence;
  return NOT_READY;
}

static uint64_t real_now(void *self)
{
  (void)self;
  return gp_clock_now_ns();
}

/* A microsecond later at each reading: what depends on time is the same in every run. */
static uint64_t stepping_now(void *self)
{
  static _Atomic uint64_t now_ns = 1000000;
  (void)self;
  return atomic_fetch_add_explicit(&now_ns, 1000, memory_order_relaxed);
}

static void real_pause(void *self, uint64_t ns)
{
  (void)self;
  nanosleep(
      &(struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)}, NULL);
}

static const char *environment(void *arg, const char *variable)
{
  (void)arg;
  return getenv(variable);
}

void subject_start(bool is_counted)
{
  static gp_driver_ops_t ops = {
      .alloc = null_alloc,
      .free = null_free,
      .wait = null_wait,
      .wait_as_free = null_wait,
      .fence_record = null_fence_record,
      .fence_query = null_fence_query,
      .memory_info = null_info,
      .now_ns = real_now,
      .pause = real_pause,
      .code_out_of_memory = 2,
      .code_invalid_value = 1,
      .code_not_ready = NOT_READY,
  };
  const gp_driver_t driver = {&ops, NULL};
  const gp_driver_context_t driver_context = {(void *)1, 1, 0, true};

  if (is_counted)
    ops.now_ns = stepping_now;
  gp_options_parse(&options, environment, NULL, NULL, NULL);
  gp_recorder_t *recorder = gp_recorder_create(&options, ops.now_ns, NULL);
  const gp_observer_t observer = gp_recorder_observer(recorder);
  engine = gp_engine_create(&driver, &observer, &options);
  context = engine ? gp_engine_context(engine, &driver_context) : NULL;
  if (!context)
    abort();
  if (is_counted)
    return;
  (void)gp_clock_now_ns();
  nanosleep(&(struct timespec){0, SUBJECT_CLOCK_LEARNS_NS}, NULL);
}

uint64_t subject_take(uint64_t bytes)
{
  uint64_t address = 0;
  if (gp_engine_alloc(engine, context, bytes, &address) != 0)
    abort();
  return address;
}

void subject_give(uint64_t address)
{
  int code;
  if (gp_engine_free(engine, address, &code) != GP_FREE_DONE)
    abort();
}

void subject_synchronize(void)
{
  gp_engine_sync_end(engine, context, gp_engine_sync_begin(engine));
}
