/*
 * Memory goes back to the driver. The functions that give back return bytes; the caller holds no lock unless
 * a comment says otherwise. Uses: driver_calls.h, limit.h, mode.h, events.h, reuse/stamps.h, space/.
 */
#ifndef GP_POOL_RELEASE_H
#define GP_POOL_RELEASE_H

#include "pool/state.h"

/* Takes a LIVE, RETAINED, DEFERRED or IDLE block out of the map and its lists. The caller holds the device's
 * lock. */
void gp_release_start(gp_engine_t *engine, gp_block_t *block);

/* A block started from LIVE: by the driver table's free, or by free_fn if that is not NULL. The driver's
 * code. */
int gp_release_owned(gp_engine_t *engine, gp_block_t *block, gp_free_fn free_fn, void *arg);
int gp_release_retained(gp_engine_t *engine, gp_block_t *block); /* the same for one started from RETAINED */

/* Idle blocks, largest first, until `bytes` are on their way; nothing while the engine is suspended. */
uint64_t gp_release_largest(
    gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_trim_reason_t reason);

/*
 * Stream-ordered memory of the device that waits for facts: what was freed in the order of a stream that
 * lives goes back in that order, as the program's own free would have. Own streams of other threads are left
 * out: this one could not name them. Does not wait for the device.
 */
uint64_t gp_release_in_order(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason);

/*
 * Stream-ordered memory of the device is about to grow by so many bytes, with which the program has more than
 * ever before. Where the pool would hold much more than that, idle memory of that kind goes back to the
 * driver's pool first, which cuts what was asked for from it.
 */
void gp_release_before_growth(gp_engine_t *engine, gp_device_t *device, uint64_t bytes);

/*
 * Idle stream-ordered memory of the device, all of it. Does not wait for the device; but with
 * GPUPOOL_ASYNC=plain it is deferred memory, too, and the driver's free may wait: the caller has found that
 * no device has work.
 */
uint64_t gp_release_ordered(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason);

/*
 * What is idle or deferred in the context, all of it, suspended or not; of segments those that are idle, of
 * mapped memory what every context has completed. For the rest no fences or rules of reuse are used: the
 * driver's free is right, whatever uses the memory. May wait for the device.
 */
uint64_t gp_release_unused(gp_engine_t *engine, gp_context_t *context, gp_trim_reason_t reason);

/* What is surplus of the context now (space/surplus.h); nothing while the engine is suspended. */
uint64_t gp_release_surplus(gp_engine_t *engine, gp_context_t *context, uint64_t now_ns);

/*
 * One block, if it is still deferred since the free of that incarnation; false: it is not, or is a part of a
 * segment. May wait for the
 * device. *ret_code: the driver's.
 */
bool gp_release_deferred(gp_engine_t *engine, gp_block_t *block, uint64_t block_id, int *ret_code);

#endif
