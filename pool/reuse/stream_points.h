/*
 * Points of streams are another completion proof for memory freed in stream order (stream_records.h). They
 * allow reuse in two cases:
 * - The device has reached a point that comes after the free. Every use was ordered before the point, so any
 *   request may reuse the memory, whatever other streams and contexts do. This also holds for memory of
 *   cudaMalloc that cudaFreeAsync frees.
 * - Another stream waits for such a point (cudaStreamWaitEvent). Later requests in that stream are ordered
 *   after the point and may reuse the memory. The driver's own pool does the same (cuda.h,
 *   CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES).
 *
 * In a blocking stream, only an operation of the stream can be a point after a free. Without the library the
 * free itself is such an operation, ordered after the work of the legacy default stream (stream_records.h).
 * gp_stream_record_point ensures the same order.
 *
 * Any thread may call these functions.
 */
#ifndef GP_POOL_REUSE_STREAM_POINTS_H
#define GP_POOL_REUSE_STREAM_POINTS_H

#include "pool/reuse/mode.h"
#include "pool/engine_record.h"

/*
 * Returns true if the program uses stream-ordered memory; only then are points worth their cost.
 * gp_stream_points_want must be called before the program's first stream-ordered call. It misses an event
 * record that another thread began just before. This is harmless: if two threads record one event
 * concurrently, the program can rely on neither record.
 */
static inline bool gp_stream_points_are_wanted(const gp_engine_t *engine)
{
  return atomic_load_explicit(&engine->has_async_calls, memory_order_relaxed);
}

/* Returns true if events can prove points, because the library sees every call that might record an event. */
static inline bool gp_stream_points_trust_events(const gp_engine_t *engine)
{
  return engine->serves_async && !gp_mode_is_distrusted() &&
         !atomic_load_explicit(&engine->has_unknown_streams, memory_order_relaxed);
}

static inline void gp_stream_points_want(gp_engine_t *engine)
{
  if (!gp_stream_points_are_wanted(engine))
    atomic_store(&engine->has_async_calls, true);
}

/* Records that the device has reached the point. The caller holds no device's lock. */
void gp_stream_point_passed(const gp_stream_point_t *point);

/* Records that the stream `by` waits for the point on the device, so that its later work runs after the
 * point. `by` is NULL if the stream has no record. The caller holds no lock. */
void gp_stream_point_awaited(gp_stream_record_t *by, const gp_stream_point_t *point);

/* Returns a block of the arena that was freed before a point for which the stream `by` waits, and removes it
 * from its queue. Returns NULL if there is none. With is_cut, takes a part of fit->fresh bytes. The caller
 * holds the device's lock. */
struct gp_block *gp_stream_points_take(gp_engine_t *engine, gp_stream_record_t *by, const gp_context_t *arena,
    const struct gp_fit *fit, bool is_cut);

/*
 * gp_stream_points_drain makes at most `most` blocks idle that were freed before points that the device has
 * reached. Returns the number of blocks; the next call continues where this one stopped.
 * gp_stream_points_drain_one does this for one stream. The caller holds the device's lock.
 */
unsigned gp_stream_points_drain(gp_engine_t *engine, gp_device_t *device, uint64_t now_ns, unsigned most);
unsigned gp_stream_points_drain_one(
    gp_engine_t *engine, gp_stream_record_t *stream_record, uint64_t now_ns, unsigned most);

#endif
