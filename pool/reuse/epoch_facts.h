/*
 * What reuse mode `epoch` adds: facts about single streams. It is all that the rest of the project sees of
 * the folder reuse/epoch/. A build with -Depoch=false takes reuse/without_epoch.c instead, which knows no
 * such fact.
 *
 * All functions may be called by any thread.
 */
#ifndef GP_POOL_REUSE_EPOCH_FACTS_H
#define GP_POOL_REUSE_EPOCH_FACTS_H

#include "pool/engine.h"

/* False: GPUPOOL_REUSE=epoch is `context`. */
bool gp_epoch_is_built(void);

/*
 * Around a call that says, when it has succeeded, that all work submitted to the stream before begin is
 * complete. begin may also be remembered, for an event that is recorded now and waited for later. end is
 * gp_stream_fact_end (reuse/stream_calls.h), which calls settle and moves what is reusable now. The caller
 * holds no lock.
 */
typedef struct gp_stream_fact {
  gp_stream_t *stream; /* NULL: none */
  uint64_t id;
  uint64_t epoch;
  uint32_t token;
} gp_stream_fact_t;

gp_stream_fact_t gp_stream_fact_begin(gp_engine_t *engine, gp_stream_t *stream);
void gp_stream_fact_settle(gp_engine_t *engine, const gp_stream_fact_t *fact);

/* What is known of streams becomes what contexts have completed. The caller holds contexts_lock. */
void gp_epoch_settle(gp_engine_t *engine);

/* Around a synchronization of a context, whose epoch has just begun. The caller holds contexts_lock. */
void gp_epoch_sync_begin(gp_engine_t *engine, gp_context_t *context, uint64_t epoch);
void gp_epoch_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch);

/* The epoch that the context's default stream has completed. The caller holds contexts_lock. */
uint64_t gp_epoch_default_completed(const gp_context_t *context);

/*
 * Drivers without a fence of a context: poll asks fences of streams that are outstanding, and default
 * streams, and records what is not; it never waits; false: it can do neither. can_be_asked: the driver can be
 * asked about all streams that hold memory back. The caller holds no lock.
 */
bool gp_epoch_poll(gp_engine_t *engine);
bool gp_epoch_can_be_asked(gp_engine_t *engine);

#endif
