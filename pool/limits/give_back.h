/*
 * When surplus (space/surplus.h) goes back to the driver. The driver's free may wait for all work of the
 * context, even for a kernel that ends only when the calling thread goes on. So the pool gives surplus back
 * only in the program's frees and synchronizations, which natively wait for the context in the same way,
 * and only if no context had work a moment ago. Otherwise it does so later. doc/waits.md has the argument.
 *
 * Any thread; the caller holds no lock. The functions return bytes.
 */
#ifndef GP_POOL_LIMITS_GIVE_BACK_H
#define GP_POOL_LIMITS_GIVE_BACK_H

#include "pool/records.h"

/* There is idle memory that such a call could give back for the context: its own, or stream-ordered memory
 * of its device. The caller holds the device's lock. */
bool gp_give_back_has(const gp_context_t *context);

/* Called in the program's free of a block of the context that found surplus on the device. waits: it is a
 * cudaFree, which may wait for a busy device. */
uint64_t gp_give_back_in_free(gp_engine_t *engine, gp_context_t *context, bool waits);

#endif
