/*
 * What is known becomes what is reusable: `covered` (stamps.h) rises to what every context has completed.
 * That touches no block: drain.h moves them later.
 *
 * Any thread; the caller holds no lock. Uses: single.h, stamps.h, mode.h.
 */
#ifndef GP_POOL_REUSE_ADVANCE_H
#define GP_POOL_REUSE_ADVANCE_H

#include "pool/engine.h"

/* Raises `covered`. Its cost does not depend on how much is deferred. */
void gp_advance(gp_engine_t *engine);

#endif
