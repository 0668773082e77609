/*
 * What the device has finished becomes idle. The caller holds no lock unless a comment says otherwise.
 *
 * Uses: reuse/, contexts.h, driver_calls.h, mode.h.
 */
#ifndef GP_POOL_RECLAIM_H
#define GP_POOL_RECLAIM_H

#include "pool/state.h"

/* Moves blocks that every context has completed to idle. */
void gp_reclaim(gp_engine_t *engine);

/* The same after asking outstanding fences, and recording new ones. It does not wait to know more. */
void gp_reclaim_poll(gp_engine_t *engine);

/*
 * The host waits for every context that lags. For drivers without fences, when there is no memory and no
 * other way to learn that freed memory is reusable.
 */
void gp_reclaim_synchronously(gp_engine_t *engine);

/* Bytes that may be deferred before a miss polls. The caller holds the device's lock. */
uint64_t gp_reclaim_allowance(const gp_engine_t *engine, const gp_device_t *device);

#endif
