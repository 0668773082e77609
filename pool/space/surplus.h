/*
 * Idle memory that the pool should not keep: more than GPUPOOL_MAX_CACHED, unused for GPUPOOL_IDLE_RELEASE,
 * or above a limit that was lowered. The caller holds the device's lock. Uses: state.h.
 */
#ifndef GP_POOL_SPACE_SURPLUS_H
#define GP_POOL_SPACE_SURPLUS_H

#include "pool/state.h"

bool gp_surplus_is_due(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns);

/* Why, if it is due. */
gp_trim_reason_t gp_surplus_reason(const gp_engine_t *engine, const gp_device_t *device);

#endif
