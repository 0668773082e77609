/*
 * What the device has finished becomes idle, and what is surplus then goes back to the driver, whose free
 * waits for the device: for calls of the program that may wait. The caller holds no lock unless a comment
 * says otherwise.
 *
 * Uses: reuse/, contexts.h, release.h, driver_calls.h, mode.h.
 */
#ifndef GP_POOL_RECLAIM_H
#define GP_POOL_RECLAIM_H

#include "pool/state.h"

/* Moves blocks that every context has completed to idle, and gives surplus back. */
void gp_reclaim(gp_engine_t *engine);

/* The same after asking outstanding fences, and recording new ones. It does not wait to know more. */
void gp_reclaim_poll(gp_engine_t *engine);

/*
 * The host waits for the contexts of own's device, or of all, so that what was freed before the call is
 * reusable. Returns the driver's code for own, if it had to be waited for.
 */
int gp_reclaim_wait(gp_engine_t *engine, gp_context_t *own, bool own_device_only);

/* The same for own's device, but gives up after GP_PATIENCE_NS: a kernel may be waiting for this very thread.
 */
bool gp_reclaim_wait_bounded(gp_engine_t *engine, gp_context_t *own);

/* Bytes that may be deferred before a miss waits. The caller holds the device's lock. */
uint64_t gp_reclaim_allowance(const gp_engine_t *engine, const gp_device_t *device);

#endif
