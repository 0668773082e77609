/*
 * Makes idle what the device has finished. The caller holds no lock unless a comment says otherwise.
 */
#ifndef GP_POOL_LIMITS_RECLAIM_H
#define GP_POOL_LIMITS_RECLAIM_H

#include "pool/records.h"

/* Makes blocks idle whose free every context has completed. */
void gp_reclaim(gp_engine_t *engine);

/* The same after it queried outstanding fences and recorded new ones. Does not wait to learn more. */
void gp_reclaim_poll(gp_engine_t *engine);

/* Waits, in the host, for every context that lags. For drivers without fences, when memory is out and there
 * is no other way to learn that freed memory is reusable. */
void gp_reclaim_synchronously(gp_engine_t *engine);

/* GPUPOOL_MAX_DEFERRED in bytes: freed memory that the device may still use. UINT64_MAX: no bound. The caller
 * holds the device's lock. */
uint64_t gp_deferred_bound(const gp_engine_t *engine, const gp_device_t *device);

#endif
