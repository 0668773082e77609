/* Creates and finds the records of driver contexts, and drops a lost context with all its memory. engine.h
 * has the public functions. */
#ifndef GP_POOL_REUSE_CONTEXTS_H
#define GP_POOL_REUSE_CONTEXTS_H

#include "pool/records.h"

void gp_context_init(gp_context_t *context, const gp_driver_context_t *driver_context, gp_device_t *device);

/*
 * Drops the contexts that a wait or a fence found to have ended (gp_driver_note). Called by gp_reclaim, and
 * by code that waits without gp_reclaim or that memory or a suspension of such a context would block. Costs
 * one load if there is none. The caller holds no lock.
 */
void gp_contexts_lose_gone(gp_engine_t *engine);

#endif
