/*
 * Releases surplus (space/surplus.h) to the driver at safe moments. The driver's free may wait for all work
 * of the context, even for a kernel that ends only when the calling thread continues. So the pool releases
 * surplus only in the program's frees and synchronizations, which without the library would wait for the
 * context in the same way. It also requires that no context had pending work a moment ago; otherwise it tries
 * again later. doc/waits.md has the argument.
 *
 * Any thread may call. The caller holds no lock. Functions of type uint64_t return the bytes released.
 */
#ifndef GP_POOL_LIMITS_GIVE_BACK_H
#define GP_POOL_LIMITS_GIVE_BACK_H

#include "pool/records.h"

/* Returns true if there is idle memory to release: the context's own memory, or stream-ordered memory of its
 * device. The caller holds the device's lock. */
bool gp_give_back_has(const gp_context_t *context);

/* Releases surplus when the program frees a block of the context. Pass waits = true for a cudaFree, which may
 * wait for a busy device. */
uint64_t gp_give_back_in_free(gp_engine_t *engine, gp_context_t *context, bool waits);

#endif
