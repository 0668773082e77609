/* Creates and finds the records of driver contexts, and drops a lost context with all its memory. The public
 * functions are in engine.h. */
#ifndef GP_POOL_REUSE_CONTEXTS_H
#define GP_POOL_REUSE_CONTEXTS_H

#include "pool/records.h"

void gp_context_init(gp_context_t *context, const gp_driver_context_t *driver_context, gp_device_t *device);

/*
 * Drops the contexts that, according to a wait or a fence (gp_driver_note), have ended. Called by gp_reclaim.
 * Also called by code that waits without gp_reclaim, and by code that such a context's memory or suspension
 * would block. Costs one load if there is no such context. The caller holds no lock.
 */
void gp_contexts_lose_gone(gp_engine_t *engine);

#endif
