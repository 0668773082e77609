/*
 * The last way to serve a stream-ordered request: with memory that was freed in another stream, which has not
 * reached the free yet. The request's stream waits for that free; the host does not. The driver's own pool
 * does the same (cuda.h, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, on by default). The library does
 * so only when the driver's pool would be short of memory as well. It never uses memory of cudaMalloc, and
 * nothing waits during a capture. The legacy default stream neither waits nor gets events, because its
 * operations order other streams.
 *
 * Any thread may call. The caller holds no lock unless a comment says otherwise.
 */
#ifndef GP_POOL_REUSE_WAIT_IN_STREAM_H
#define GP_POOL_REUSE_WAIT_IN_STREAM_H

#include "pool/serve/hit.h"
#include "pool/space/free_events.h"

/* Decides, after a miss, whether frees need events from now on. They do if less than a quarter of the device
 * or of the limit is left, or less than the stream-ordered memory that is in use or pending. */
void gp_wait_in_stream_judge(gp_engine_t *engine, gp_context_t *context);

/* Makes later frees record events if more is pending than was left at the last miss. Called after a free,
 * because memory may have been allocated without a miss since. The caller holds the device's lock. */
static inline void gp_wait_in_stream_note_free(gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (__builtin_expect(device->bound_bytes + device->stream_block_bytes > device->events_beyond, 0))
    atomic_store_explicit(&device->needs_events, true, memory_order_relaxed);
}

static inline bool gp_wait_in_stream_needs_events(gp_device_t *device)
{
  return atomic_load_explicit(&device->needs_events, memory_order_relaxed);
}

/* gp_wait_in_stream_record records an event right before a free in the stream, which is not capturing.
 * Returns NULL if the free needs no event. The caller calls gp_wait_in_stream_drop after the free. */
gp_free_event_t *gp_wait_in_stream_record(gp_engine_t *engine, const gp_stream_order_t *order);
void gp_wait_in_stream_drop(gp_free_event_t *event);

/* Serves the request with memory whose free is pending in another stream. Returns false if it could not serve
 * the request. */
bool gp_wait_in_stream_serve(gp_request_t *request);

#endif
