/*
 * The last way to serve a stream-ordered request: memory that another stream has freed and not reached the
 * free yet. The request's stream waits for that free; the host does not. The driver's own pool does the same
 * (cuda.h, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, on by default): so only where the driver's pool
 * would be short of memory as well. Memory of cudaMalloc never serves this way, nothing waits during a
 * capture, and the legacy default stream neither waits nor has events (its operations order other streams).
 *
 * Any thread. The caller holds no lock unless a comment says otherwise.
 */
#ifndef GP_POOL_REUSE_WAIT_IN_STREAM_H
#define GP_POOL_REUSE_WAIT_IN_STREAM_H

#include "pool/serve/hit.h"
#include "pool/space/free_events.h"

/* After a miss: whether frees need events from now on, because less than a quarter of the device or of the
 * limit is left, or less than what the program has, or has freed and not reached yet, in its streams. */
void gp_wait_in_stream_judge(gp_engine_t *engine, gp_context_t *context);

/* The same after a free, for memory that streams got without a miss. The caller holds the device's lock. */
static inline void gp_wait_in_stream_note_free(gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (__builtin_expect(device->bound_bytes + device->filed_bytes > device->events_beyond, 0))
    atomic_store_explicit(&device->needs_events, true, memory_order_relaxed);
}

static inline bool gp_wait_in_stream_needs_events(gp_device_t *device)
{
  return atomic_load_explicit(&device->needs_events, memory_order_relaxed);
}

/* Right before a free in the stream, which is not captured: records an event there. NULL: the free has none.
 * After the free the caller drops its use of the event. */
gp_free_event_t *gp_wait_in_stream_record(gp_engine_t *engine, const gp_order_t *order);
void gp_wait_in_stream_drop(gp_free_event_t *event);

/* Serves the request from memory with pending frees. False: it has not. */
bool gp_wait_in_stream_serve(gp_request_t *request);

#endif
