/*
 * The engine with GPUPOOL_CHECK, and an observer of damage; each test includes it once.
 */
#ifndef GP_TEST_POOL_DAMAGE_FIXTURE_H
#define GP_TEST_POOL_DAMAGE_FIXTURE_H

#include "pool/engine_record.h"
#include "pool/reuse/mode.h"
#include "pool/serve/damage.h"
#include "pool/serve/fill.h"
#include "pool/space/block_record.h"
#include "pool/space/driver_calls.h"
#include "test/pool/async_fixture.h"
#include "test/pool/check_main.h"

#define SETTINGS(...) ((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_PATIENCE=0", __VA_ARGS__, NULL})
#define EDGES         "GPUPOOL_CHECK=edges"
#define STALE         "GPUPOOL_CHECK=stale"
#define BOTH          "GPUPOOL_CHECK=edges,stale"
#define FULL          "GPUPOOL_CHECK=stale=full"
#define MANY          100 /* blocks: more than a search takes at once */

/* The damage and the damage events that the observer has received. */
static gp_damage_t damages[8];
static gp_event_t damage_events[8];
static int damage_count, event_count;

static inline uint64_t observe_event(void *self, const gp_event_t *event)
{
  (void)self;
  if (event->action == GP_ACTION_DAMAGE && event_count < 8)
    damage_events[event_count++] = *event;
  return event->time_ns;
}

static int reports_with_lock;

static inline void observe_damage(void *self, const gp_damage_t *damage)
{
  (void)self;
  reports_with_lock += gp_holds_engine_lock();
  if (damage_count < 8)
    damages[damage_count++] = *damage;
}

static const gp_observer_t observer = {.event = observe_event, .damage = observe_damage};

static inline void begin_with(const char *const *settings, uint64_t capacity)
{
  gp_driver_context_t first = fake_context(0, 0);

  damage_count = event_count = 0;
  fake_driver_init(&driver, capacity, true);
  engine = fake_engine(&driver, &observer, settings);
  context = gp_engine_context(engine, &first);
  ck_assert_ptr_nonnull(context);
  gp_stream_record_begin(engine, context, FIRST, false);
  gp_stream_record_begin(engine, context, SECOND, false);
}

static inline void begin(const char *const *settings)
{
  begin_with(settings, GP_GIB);
}

/* cudaFree, after which the hook searches. */
static inline void release(uint64_t address)
{
  ck_assert_int_eq(free_code(address), 0);
  gp_engine_search(engine, context);
}

/* cudaDeviceSynchronize */
static inline void synchronize_and_search(void)
{
  synchronize();
  gp_engine_search(engine, context);
}

static inline size_t quarantined_in(gp_context_t *arena)
{
  size_t count = 0;

  gp_lock_take(&arena->device->lock);
  GP_LIST_EACH(&arena->quarantine, const gp_block_t, order, block)
    count += block->state == GP_STATE_QUARANTINED;
  gp_lock_release(&arena->device->lock);
  return count;
}

static inline size_t quarantined(void)
{
  return quarantined_in(context) + quarantined_in(&context->device->async_context);
}

static inline bool is_checking(void)
{
  return atomic_load(&engine->checks) & (GP_CHECK_EDGES | GP_CHECK_STALE);
}

static inline void expect_damage(gp_damage_kind_t kind, uint64_t address, uint64_t offset, uint64_t bytes)
{
  ck_assert_int_eq(reports_with_lock, 0);
  ck_assert_int_eq(damage_count, 1);
  ck_assert_int_eq(event_count, 1);
  ck_assert_uint_eq(stats().num_damages, 1);
  ck_assert_int_eq(damages[0].kind, kind);
  ck_assert_uint_eq(damages[0].address, address);
  ck_assert_uint_eq(damages[0].offset, offset);
  ck_assert_uint_eq(damages[0].bytes, bytes);
  ck_assert_int_eq(damages[0].device, 0);
  ck_assert_uint_eq(damage_events[0].address, address + offset);
  ck_assert_uint_eq(damage_events[0].size, bytes);
  ck_assert_int_eq(damage_events[0].detail, (int)kind);
}

/* Nothing was found, and nothing is left. */
static inline void stop_sound(void)
{
  ck_assert_int_eq(damage_count, 0);
  ck_assert_uint_eq(stats().num_damages, 0);
  stop();
}

static const char *const types[] = {
    "GPUPOOL_TYPE=round", "GPUPOOL_TYPE=naive", "GPUPOOL_TYPE=segment", "GPUPOOL_TYPE=vmm"};
#define TYPES 4

#endif
