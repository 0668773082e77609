/*
 * Releases memory to the driver. Functions of type uint64_t return the bytes released; the caller holds no
 * lock unless a comment says otherwise.
 */
#ifndef GP_POOL_LIMITS_RELEASE_H
#define GP_POOL_LIMITS_RELEASE_H

#include "pool/records.h"

/* Begins the release of a LIVE, RETAINED, DEFERRED or IDLE block: takes it out of the address map and its
 * lists. The caller holds the device's lock. */
void gp_release_start(gp_engine_t *engine, gp_block_t *block);

/* Finishes the release of a block that was LIVE, by the driver table's free, or by free_fn if that is not
 * NULL, which frees in the order of a stream. order: that stream; NULL: unknown. Returns the driver's code.
 */
int gp_release_owned(
    gp_engine_t *engine, gp_block_t *block, const gp_order_t *order, gp_free_fn free_fn, void *arg);
int gp_release_retained(gp_engine_t *engine, gp_block_t *block); /* of a block that was RETAINED */

/* Releases idle blocks, largest first, until `bytes` are on their way; nothing while the engine is suspended.
 */
uint64_t gp_release_largest(
    gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_trim_reason_t reason);

/* Releases the idle mapped memory of device->ordered. Does not wait for the device. */
uint64_t gp_release_async(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason);

/*
 * GPUPOOL_ASYNC=plain: releases all idle whole blocks whose last owner allocated them in a stream. The
 * driver's free may wait, so the caller has checked that no device has pending work.
 */
uint64_t gp_release_ordered(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason);

/*
 * Releases all idle or deferred memory of the context, suspended or not: whole driver allocations, whole
 * segments that are idle, and mapped memory that every context has completed. Whole allocations need no
 * completion proof: the driver's free is correct whatever still uses them. May wait for the device.
 */
uint64_t gp_release_unused(gp_engine_t *engine, gp_context_t *context, gp_trim_reason_t reason);

/* Releases the context's surplus (space/surplus.h); nothing while the engine is suspended. */
uint64_t gp_release_surplus(gp_engine_t *engine, gp_context_t *context, uint64_t now_ns);

/* Releases one block if it is still deferred since the free of the owner block_id. False: it is not, or it is
 * a part of a segment. May wait for the device. *ret_code: the driver's. */
bool gp_release_deferred(gp_engine_t *engine, gp_block_t *block, uint64_t block_id, int *ret_code);

#endif
