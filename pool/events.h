/* Functions that send the engine's events to the observer. */
#ifndef GP_POOL_EVENTS_H
#define GP_POOL_EVENTS_H

#include "pool/engine_record.h"

/* Lets the observer find the origin of the present request. Must be called before an event that has an
 * origin. The caller holds no lock. */
static inline void gp_find_origin(gp_engine_t *engine, gp_occasion_t occasion, uint64_t size)
{
  gp_assert(gp_locks_held() == 0);
  if (engine->observer.find_origin)
    engine->observer.find_origin(engine->observer.self, occasion, size);
}

/* Returns the origin of the present request: the id of its call stack. The caller holds the device's lock. */
static inline uint32_t gp_origin(const gp_engine_t *engine)
{
  return engine->observer.origin ? engine->observer.origin(engine->observer.self) : GP_ORIGIN_NONE;
}

/* Calls the observer's first_use() the first time that this function is called. The caller holds no lock. */
void gp_event_first_use(gp_engine_t *engine);

/* Returns true if the observer wants the event. Without this check an allocation and its free would spend
 * much of their time on events that nobody reads. */
static inline bool gp_event_is_wanted(const gp_engine_t *engine, const gp_cookie_t *cookie)
{
  return (cookie && cookie->slot != 0) ||
         atomic_load_explicit(engine->observer.interest, memory_order_relaxed) != 0;
}

/* While the observer wants no events, a device reads the clock once in this many requests. */
#define GP_REQUESTS_A_CLOCK 64

/*
 * Returns true if each request has to read the clock. Reading it takes a sixth of the time of an allocation
 * and its free served from the pool. While the observer wants no events, only the age of idle memory needs
 * the time. The time of the last miss or synchronization, or of the last request that read the clock, is then
 * precise enough.
 */
static inline bool gp_clock_is_read(const gp_engine_t *engine)
{
  return gp_event_is_wanted(engine, NULL);
}

/* Reads the clock for a request. Called before the request takes the device's lock, so that no other thread
 * waits for the lock meanwhile. Returns 0 if the clock need not be read. */
static inline uint64_t gp_request_clock(const gp_engine_t *engine)
{
  return gp_clock_is_read(engine) ? gp_now(engine) : 0;
}

/* Returns the time of a request. clock_ns is the result of gp_request_clock. The caller holds the device's
 * lock. */
static inline uint64_t gp_request_time(const gp_engine_t *engine, gp_device_t *device, uint64_t clock_ns)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (clock_ns == 0 && device->unclocked++ % GP_REQUESTS_A_CLOCK == 0)
    clock_ns = gp_now(engine);
  return gp_device_time(device, clock_ns);
}

/* Returns the observer's cookie for an event of a block, or NULL if that action has none. */
static inline gp_cookie_t *gp_event_cookie(gp_block_t *block, gp_action_t action)
{
  bool is_segment = action == GP_ACTION_SEGMENT_ALLOC || action == GP_ACTION_SEGMENT_FREE;
  if (action == GP_ACTION_FREE_REFUSED)
    return NULL;
  return is_segment && block->segment ? &block->segment->observer_cookie : &block->observer_cookie;
}

/*
 * Sends an event of a block to the observer, which must want it. Returns the time that the observer assigns
 * to the event. Inline, so that the compiler knows the action. The caller holds the device's lock. Times are
 * in nanoseconds, sizes in bytes.
 */
static inline __attribute__((always_inline)) uint64_t gp_event_block_wanted(gp_engine_t *engine,
    gp_block_t *block, gp_action_t action, gp_detail_t detail, uint64_t time_ns, uint64_t duration_ns,
    bool hit)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_assert_internal(!hit || action == GP_ACTION_ALLOC);
  bool is_segment = action == GP_ACTION_SEGMENT_ALLOC || action == GP_ACTION_SEGMENT_FREE;
  bool is_free = action == GP_ACTION_FREE_REQUESTED || action == GP_ACTION_FREE_COMPLETED;
  /* A segment is released because the calling thread needs the room, so the event's origin is the caller. */
  bool is_callers = action == GP_ACTION_SEGMENT_FREE || action == GP_ACTION_FREE_REFUSED;
  const gp_event_t event = {
      .time_ns = time_ns,
      .address = block->address,
      .size = is_segment ? block->size : block->requested,
      .rounded_size = block->size,
      .block_id = is_segment ? 0 : block->block_id,
      .duration_ns = duration_ns,
      .alloc_ns = is_free ? block->time_ns : 0,
      .origin = is_callers ? gp_origin(engine) : block->origin,
      .action = action,
      .detail = detail,
      .device = block->context->device->ordinal,
      .context = block->context->driver.id,
      .observer_cookie = gp_event_cookie(block, action),
      .stream = block->stream == GP_STREAM_LEGACY ? 0 : block->stream,
      .has_stream = block->stream != 0,
      .hit = hit,
      .is_cut = block->segment != NULL,
  };
  return engine->observer.event(engine->observer.self, &event);
}

/* Sends an event of a block to the observer if the observer wants it. */
static inline void gp_event_block(gp_engine_t *engine, gp_block_t *block, gp_action_t action,
    gp_detail_t detail, uint64_t time_ns, uint64_t duration_ns, bool hit)
{
  if (gp_event_is_wanted(engine, gp_event_cookie(block, action)))
    (void)gp_event_block_wanted(engine, block, action, detail, time_ns, duration_ns, hit);
}

/* Callers of the following functions hold the device's lock. Times are in nanoseconds, sizes in bytes. */

/* Reports a refused free: the address lies in cut memory, but no block in use starts there. */
void gp_event_refused(gp_engine_t *engine, const gp_context_t *context, uint64_t address, uint64_t time_ns);

/* Reports that a chunk of mapped memory was mapped or unmapped. */
void gp_event_chunk(gp_engine_t *engine, const gp_range_t *range, gp_chunk_t *chunk, gp_action_t action,
    gp_detail_t detail, uint64_t time_ns, uint64_t duration_ns);

void gp_event_device(
    gp_engine_t *engine, int device, gp_action_t action, gp_detail_t detail, uint64_t size, uint64_t time_ns);
void gp_event_forwarded(
    gp_engine_t *engine, gp_forwarded_t *memory, gp_action_t action, uint64_t time_ns, uint64_t duration_ns);

/* Reports damage of a block. The event has the address and number of the damaged bytes, and the block's
 * owner. */
void gp_event_damage(
    gp_engine_t *engine, const gp_block_t *block, const gp_damage_t *damage, uint64_t time_ns);

/* Reports to the observer that the references or the taint of a block have changed, which no event shows. The
 * caller holds the device's lock. */
void gp_event_holders(gp_engine_t *engine, gp_block_t *block);

/* Reports the engine's other values for the device to the observer. Called after a driver call. The caller
 * holds the device's lock. */
void gp_event_facts(gp_engine_t *engine, gp_device_t *device);

/* Returns the use of the device at the last query of the driver. Returns false if the driver was never
 * queried. The caller holds the device's lock. */
bool gp_device_use_at_query(const gp_device_t *device, gp_device_use_t *ret_use);

/* The memory in use, grouped by requested size, for the out-of-memory report. The array has room for more
 * sizes than are reported, and keeps those with the largest totals. */
typedef struct gp_oom_groups {
  gp_oom_owner_t groups[64];
  int count;
} gp_oom_groups_t;

void gp_oom_groups_add(gp_oom_groups_t *all, uint64_t size);

/* Fills the array of GP_OOM_OWNERS entries, the largest total first. Destroys the contents of `all`. */
void gp_oom_groups_largest(gp_oom_groups_t *all, gp_oom_owner_t *owners);

#endif
