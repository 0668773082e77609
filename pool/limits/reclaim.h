/* Makes blocks idle that the device has completed. The caller holds no lock unless a comment says otherwise.
 */
#ifndef GP_POOL_LIMITS_RECLAIM_H
#define GP_POOL_LIMITS_RECLAIM_H

#include "pool/records.h"

/* Makes blocks idle whose free every context has completed. */
void gp_reclaim(gp_engine_t *engine);

/* Queries outstanding fences, records new ones, and does the same. Never waits. */
void gp_reclaim_poll(gp_engine_t *engine);

/* Makes the host wait for every context that lags. For drivers without fences, when memory has run out and
 * nothing else can prove that freed memory is reusable. */
void gp_reclaim_synchronously(gp_engine_t *engine);

/* Returns GPUPOOL_MAX_DEFERRED in bytes, the bound on freed memory that the device may still use; UINT64_MAX:
 * no bound. The caller holds the device's lock. */
uint64_t gp_deferred_bound(const gp_engine_t *engine, const gp_device_t *device);

#endif
