/* Makes deferred blocks idle when the device no longer uses them. The caller holds no lock unless a comment
 * says otherwise. */
#ifndef GP_POOL_LIMITS_RECLAIM_H
#define GP_POOL_LIMITS_RECLAIM_H

#include "pool/records.h"

/* Makes deferred blocks idle if every context has completed the epoch of their free. */
void gp_reclaim(gp_engine_t *engine);

/* Queries outstanding fences, records new ones, and calls gp_reclaim. Never waits. */
void gp_reclaim_poll(gp_engine_t *engine);

/* Waits on the host for every context that has not completed the newest epoch. Used on drivers without
 * fences, when memory has run out and no other way can prove that freed memory is reusable. */
void gp_reclaim_synchronously(gp_engine_t *engine);

/* Returns GPUPOOL_MAX_DEFERRED in bytes, which bounds the freed memory that the device may still use.
 * UINT64_MAX stands for no bound. The caller holds the device's lock. */
uint64_t gp_deferred_bound(const gp_engine_t *engine, const gp_device_t *device);

#endif
