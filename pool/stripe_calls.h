/*
 * The allocation and the free that a stripe serves (stripes.h): nearly all of a program whose threads are in
 * each other's way. Any thread; the caller holds no lock. Uses: stripes.h, mode.h, reuse/stamps.h.
 */
#ifndef GP_POOL_STRIPE_CALLS_H
#define GP_POOL_STRIPE_CALLS_H

#include "pool/stripes.h"

/*
 * Memory for such a request of `requested` bytes, which named no stream, from the stripe of the calling
 * thread. False: it has none that is covered, or may not say so now. The device is striped, or was a moment
 * ago.
 */
bool gp_stripe_alloc(gp_engine_t *engine, gp_context_t *context, const gp_fit_t *fit, uint64_t requested,
    uint64_t *ret_address);

/*
 * Frees the block that starts at address, whose record says that a stripe may have it. False: nothing was
 * done: none has it, the device has to see this free, or the driver.
 */
bool gp_stripe_free(gp_engine_t *engine, gp_block_t *block, uint64_t address);

#endif
