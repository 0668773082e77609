/*
 * Surplus is idle memory that the pool should release. It is memory beyond GPUPOOL_MAX_CACHED, beyond a limit
 * that was lowered, beyond the budget (budget.h), or beyond the segments that the program has needed
 * (segment.h). It is also memory to release for GPUPOOL_RESERVE or at a user's request, and memory that was
 * idle for GPUPOOL_IDLE_RELEASE. The caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_SURPLUS_H
#define GP_POOL_SPACE_SURPLUS_H

#include "pool/device_record.h"

/* gp_surplus_is_due returns true if the device has surplus. gp_surplus_is_due_of_idle does the same, but may
 * be called only if the device has releasable memory. */
bool gp_surplus_is_due_of_idle(const gp_engine_t *engine, gp_device_t *device, uint64_t now_ns);

static inline bool gp_surplus_is_due(const gp_engine_t *engine, gp_device_t *device, uint64_t now_ns)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return gp_device_releasable(device) > 0 && gp_surplus_is_due_of_idle(engine, device, now_ns);
}

/* Returns true if deferred blocks whose work is proven complete (reuse/drain.h) might be surplus once they
 * are idle. The caller must drain them first. */
bool gp_surplus_awaits_drain(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns);

/* Returns the context's next block to release, and the reason, or NULL if there is none. For mapped memory
 * the block is a chunk, carved out as MAPPING. `spared` is the number of blocks that this call of the program
 * has already released as GP_TRIM_SPARE. */
gp_block_t *gp_surplus_next(gp_engine_t *engine, gp_context_t *context, uint64_t now_ns, unsigned spared,
    gp_trim_reason_t *ret_reason);

/* Returns the bytes of the device's idle memory that are surplus. */
uint64_t gp_surplus_bytes(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns);

/* Requests the release of `bytes` of idle memory when the device is quiet. The largest request counts, but a
 * request for GP_TRIM_RESERVE replaces the previous one for that reason. */
void gp_surplus_want(gp_device_t *device, uint64_t bytes, gp_trim_reason_t reason);

/* Sets, in the statistics, the bytes of surplus that the pool keeps because the device is busy. */
void gp_surplus_note_kept(gp_device_t *device, uint64_t bytes);

/* Records that `bytes` of the device's idle memory are being released to the driver. */
void gp_surplus_went(gp_device_t *device, uint64_t bytes);

#endif
