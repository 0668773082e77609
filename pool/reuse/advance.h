/*
 * Turns completed epochs into reusable memory: raises `covered` (stamps.h) to what every context has
 * completed. That touches no block: drain.h moves the blocks later.
 *
 * Any thread; the caller holds no lock.
 */
#ifndef GP_POOL_REUSE_ADVANCE_H
#define GP_POOL_REUSE_ADVANCE_H

#include "pool/engine.h"

/* Raises `covered`. The cost does not depend on the number of deferred blocks. */
void gp_advance(gp_engine_t *engine);

#endif
