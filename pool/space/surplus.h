/*
 * Surplus: idle memory that the pool should release. It is memory beyond GPUPOOL_MAX_CACHED, beyond a limit
 * that was lowered, beyond the budget (budget.h) or the segments that the program has needed (segment.h),
 * memory wanted back (for GPUPOOL_RESERVE, or by a user's request), or memory idle for GPUPOOL_IDLE_RELEASE.
 * The caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_SURPLUS_H
#define GP_POOL_SPACE_SURPLUS_H

#include "pool/device_record.h"

/* The device has surplus. of_idle: to be called if some idle memory could go back. */
bool gp_surplus_is_due_of_idle(const gp_engine_t *engine, gp_device_t *device, uint64_t now_ns);

static inline bool gp_surplus_is_due(const gp_engine_t *engine, gp_device_t *device, uint64_t now_ns)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return gp_device_releasable(device) > 0 && gp_surplus_is_due_of_idle(engine, device, now_ns);
}

/* Deferred blocks that are covered (reuse/drain.h), if there are any, may be surplus once idle: the caller
 * must drain them first. */
bool gp_surplus_awaits_drain(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns);

/* The context's next block to go back, and why; NULL: none. Of mapped memory it is a chunk, cut out for this.
 * spared: how many of this call of the program's went as GP_TRIM_SPARE. */
gp_block_t *gp_surplus_next(gp_engine_t *engine, gp_context_t *context, uint64_t now_ns, unsigned spared,
    gp_trim_reason_t *ret_reason);

/* Bytes of the device's idle memory that are surplus. */
uint64_t gp_surplus_bytes(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns);

/* Asks for `bytes` of idle memory to go back when the device is quiet. The largest wish counts, but an
 * allocation that finds the reserve short replaces its earlier wish. */
void gp_surplus_want(gp_device_t *device, uint64_t bytes, gp_trim_reason_t reason);

/* Notes for the statistics that `bytes` of surplus stay because the device is busy; 0: none. */
void gp_surplus_note_kept(gp_device_t *device, uint64_t bytes);

/* Notes that `bytes` of the device's idle memory are on their way to the driver. */
void gp_surplus_went(gp_device_t *device, uint64_t bytes);

#endif
