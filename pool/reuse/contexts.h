/* The records of driver contexts: created, found, and lost with all their memory. engine.h has the public
 * functions. */
#ifndef GP_POOL_REUSE_CONTEXTS_H
#define GP_POOL_REUSE_CONTEXTS_H

#include "pool/records.h"

void gp_context_init(gp_context_t *context, const gp_driver_context_t *driver_context, gp_device_t *device);

/*
 * Marks the contexts lost that a wait or a fence found to have ended (gp_driver_note). gp_reclaim calls this,
 * and so does code that waits without gp_reclaim, or that the memory or a suspension of such a context would
 * block. Costs one load if there is none. The caller holds no lock.
 */
void gp_contexts_lose_gone(gp_engine_t *engine);

#endif
