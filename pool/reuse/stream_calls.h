/*
 * What the interposer tells of streams: each is known to the table, ends mode `single`, and where the host
 * has no memory for it the mode falls to `context`. Any thread; the caller holds no lock. Uses: streams.h,
 * epoch_facts.h, advance.h, single_order.h, mode.h.
 */
#ifndef GP_POOL_REUSE_STREAM_CALLS_H
#define GP_POOL_REUSE_STREAM_CALLS_H

#include "pool/engine.h"
#include "pool/reuse/advance.h"
#include "pool/reuse/epoch_facts.h"
#include "pool/reuse/streams.h"

/* A stream was created in the context; it has no work yet. */
void gp_stream_created(gp_engine_t *engine, gp_context_t *context, uint64_t handle);

/* The driver refused to destroy what gp_stream_take took out. NULL: nothing to do. */
void gp_stream_restored(gp_engine_t *engine, gp_stream_t *stream);

/* The default stream of the calling thread in a context, made at first sight; NULL: the host has no memory.
 */
gp_stream_t *gp_stream_of_thread(gp_engine_t *engine, gp_context_t *context);

/* The calling thread is about to submit work to the stream (the stubs do it by themselves). */
void gp_stream_mark(gp_engine_t *engine, gp_stream_t *stream);

/*
 * The driver has an operation of the pool's own in the stream, of which no stub told, and the pool relies on
 * its being over: to be called before what depends on it is handed out. handle: the legacy default stream's,
 * the thread's own or a created one's. In modes that do not follow streams nothing happens.
 */
void gp_stream_mark_own(gp_engine_t *engine, gp_context_t *context, uint64_t handle);

/* What gp_stream_fact_begin began has succeeded: moves what is reusable now. */
void gp_stream_fact_end(gp_engine_t *engine, const gp_stream_fact_t *fact);

#endif
