/*
 * Gives memory back to the driver. The functions that give back return bytes; the caller holds no lock
 * unless a comment says otherwise.
 */
#ifndef GP_POOL_LIMITS_RELEASE_H
#define GP_POOL_LIMITS_RELEASE_H

#include "pool/records.h"

/* Takes a LIVE, RETAINED, DEFERRED or IDLE block out of the map and its lists. The caller holds the device's
 * lock. */
void gp_release_start(gp_engine_t *engine, gp_block_t *block);

/* Gives the driver a block that was started from LIVE, by the driver table's free, or by free_fn if that is
 * not NULL, which frees in the order of a stream. order: that stream; NULL: unknown. Returns the driver's
 * code. */
int gp_release_owned(
    gp_engine_t *engine, gp_block_t *block, const gp_order_t *order, gp_free_fn free_fn, void *arg);
int gp_release_retained(gp_engine_t *engine, gp_block_t *block); /* for one started from RETAINED */

/* Gives idle blocks back, largest first, until `bytes` are on their way; nothing while
 * the engine is suspended. */
uint64_t gp_release_largest(
    gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_trim_reason_t reason);

/* Gives back the idle mapped memory of device->ordered. Does not wait for the device. */
uint64_t gp_release_async(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason);

/*
 * GPUPOOL_ASYNC=plain: gives back all idle whole blocks that were last asked for in a stream. The driver's
 * free may wait, so the caller has found that no device has work.
 */
uint64_t gp_release_ordered(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason);

/*
 * Gives back all idle or deferred memory of the context, suspended or not: whole segments that are idle,
 * and mapped memory that every context has completed. For other memory it uses no fences or rules of reuse:
 * the driver's free is right, whatever uses the memory. May wait for the device.
 */
uint64_t gp_release_unused(gp_engine_t *engine, gp_context_t *context, gp_trim_reason_t reason);

/* Gives back what is surplus of the context now (space/surplus.h); nothing while
 * the engine is suspended. */
uint64_t gp_release_surplus(gp_engine_t *engine, gp_context_t *context, uint64_t now_ns);

/* Gives back one block, if it is still deferred since the free of that incarnation. False: it is not, or it
 * is a part of a segment. May wait for the device. *ret_code: the driver's. */
bool gp_release_deferred(gp_engine_t *engine, gp_block_t *block, uint64_t block_id, int *ret_code);

#endif
