/*
 * Points of streams, in mode `epoch`: what else tells that memory freed in the order of a stream
 * (identities.h) may be used again.
 *
 * - The device has passed a point that lies behind the free: every use was ordered before it, so any stream
 * may have the memory, whatever other streams are at.
 * - Another stream waits for such a point (cudaStreamWaitEvent): what is asked for there afterwards is
 * ordered behind it. So the driver's own pool has it, too (cuda.h,
 * CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES).
 *
 * A blocking stream's point lies behind the frees that came before the library's newest operation in it only:
 * natively the free itself would be one, and comes behind the legacy default stream's work (identities.h).
 *
 * Any thread. Uses: state.h, stamps.h, space/block_life.h, space/ordered_blocks.h, work_flags.h.
 */
#ifndef GP_POOL_REUSE_STREAM_POINTS_H
#define GP_POOL_REUSE_STREAM_POINTS_H

#include "pool/state.h"

/*
 * The point at which a stream is now, as gp_stream_table has its handle: GP_STREAM_DEFAULT for the legacy
 * default stream, GP_STREAM_LAST_OF_DEFAULTS for the calling thread's. What the caller then submits to it
 * comes later. Without identity a point tells nothing. The caller holds contexts_lock.
 */
gp_stream_point_t gp_stream_point(gp_engine_t *engine, gp_context_t *context, uint64_t handle);

/* The device has passed the point. The caller holds no device's lock. */
void gp_stream_point_passed(const gp_stream_point_t *point);

/* A stream waits for the point, on the device: what the caller then submits to it comes behind. NULL: one
 * without identity. The caller holds no lock. */
void gp_stream_point_awaited(gp_identity_t *by, const gp_stream_point_t *point);

/* A block that was freed before a point for which the stream waits, out of its queue; NULL: there is none.
 * The caller holds the device's lock. */
struct gp_block *gp_stream_points_take(gp_engine_t *engine, gp_identity_t *by, const struct gp_fit *fit);

/*
 * What was freed before points that the device has passed becomes idle, `most` blocks at most; how many did.
 * What is left is moved by the next call. With identity: of that stream, which ends. The caller holds the
 * device's lock.
 */
unsigned gp_stream_points_drain(gp_engine_t *engine, gp_device_t *device, uint64_t now_ns, unsigned most);
unsigned gp_stream_points_drain_one(
    gp_engine_t *engine, gp_identity_t *identity, uint64_t now_ns, unsigned most);

#endif
