/*
 * When surplus (space/surplus.h) goes back to the driver. The driver's free may wait for all work of the
 * context, also for a kernel that ends only when the calling thread goes on. So it is called in calls of the
 * program that natively wait for that context in the same way, a free and a synchronization, and only if no
 * context had work a moment ago; else later. doc/waits.md has the argument.
 *
 * Any thread; the caller holds no lock. Bytes are returned. Uses: release.h, reclaim.h, space/surplus.h.
 */
#ifndef GP_POOL_GIVE_BACK_H
#define GP_POOL_GIVE_BACK_H

#include "pool/state.h"

/* There is idle memory that could go back in such a call for the context: its own, or stream-ordered memory
 * of its device. The caller holds the device's lock. */
bool gp_give_back_has(const gp_context_t *context);

/* In the program's free of a block of the context, which found that the device has surplus. */
uint64_t gp_give_back_in_free(gp_engine_t *engine, gp_context_t *context);

/*
 * After a synchronization of the context by the program, which succeeded. What was kept when pooling stopped
 * goes back, too.
 */
uint64_t gp_give_back_after_sync(gp_engine_t *engine, gp_context_t *context);

/* No device had work a moment ago, so that a free of the driver's finds nothing to wait for. Outside of a
 * free; that one context was synchronized is not enough: the driver's free may wait for others. */
bool gp_give_back_is_quiet(gp_engine_t *engine);

#endif
