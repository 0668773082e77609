/*
 * Releases memory to the driver. Functions of type uint64_t return the bytes released. The caller holds no
 * lock unless a comment says otherwise.
 */
#ifndef GP_POOL_LIMITS_RELEASE_H
#define GP_POOL_LIMITS_RELEASE_H

#include "pool/records.h"

/* Begins the release of a LIVE, RETAINED, DEFERRED or IDLE block: removes it from the address map and its
 * lists. The caller holds the device's lock. */
void gp_release_start(gp_engine_t *engine, gp_block_t *block);

/* Finish the release of a block that was LIVE or RETAINED, and return the driver's code. If free_fn is not
 * NULL, gp_release_owned calls it, because it frees in stream order; otherwise it calls the driver table's
 * free. `order` is the stream in which free_fn frees; NULL: unknown. */
int gp_release_owned(
    gp_engine_t *engine, gp_block_t *block, const gp_stream_order_t *order, gp_free_fn free_fn, void *arg);
int gp_release_retained(gp_engine_t *engine, gp_block_t *block); /* for a block that was RETAINED */

/* Releases idle blocks, largest first, until at least `bytes` are being released. Releases nothing while the
 * engine is suspended. */
uint64_t gp_release_largest(
    gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_trim_reason_t reason);

/* Releases the idle mapped memory for stream-ordered requests (device->async_context). Does not wait for the
 * device. */
uint64_t gp_release_async(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason);

/*
 * Releases all idle whole blocks whose last owner allocated them in stream order (GPUPOOL_ASYNC=plain). The
 * driver's free may wait, so the caller has checked that no device has pending work.
 */
uint64_t gp_release_pooled_async(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason);

/*
 * Releases all idle or deferred memory of the context, even while the engine is suspended: whole driver
 * allocations, segments that are idle as a whole, and idle mapped memory whose free every context has
 * completed. Whole allocations need no completion proof, because the driver's free waits for work that uses
 * them. May wait for the device.
 */
uint64_t gp_release_unused(gp_engine_t *engine, gp_context_t *context, gp_trim_reason_t reason);

/* Releases the context's surplus (space/surplus.h). Releases nothing while the engine is suspended. */
uint64_t gp_release_surplus(gp_engine_t *engine, gp_context_t *context, uint64_t now_ns);

/* Releases one block if it is still deferred since the free by its owner block_id. Returns false if the block
 * is no longer deferred, or is a part of a segment. *ret_code is the driver's code. May wait for the device.
 */
bool gp_release_deferred(gp_engine_t *engine, gp_block_t *block, uint64_t block_id, int *ret_code);

#endif
