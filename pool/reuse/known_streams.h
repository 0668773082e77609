/*
 * The list of live streams, for drivers without a fence for a whole context (before 12.5). It contains the
 * streams that the program created, and the default stream of each context. The library queries these streams
 * for pending work before it makes a call that may wait for the device. The results prove nothing about freed
 * memory, because the list lacks the per-thread streams of other threads.
 *
 * Any thread may call. The caller holds no lock unless a comment says otherwise. On a driver with such a
 * fence these functions do nothing.
 */
#ifndef GP_POOL_REUSE_KNOWN_STREAMS_H
#define GP_POOL_REUSE_KNOWN_STREAMS_H

#include "pool/records.h"

/* Adds a stream that the program has created; `handle` is the driver's. Does nothing if the context is NULL.
 */
void gp_known_stream_add(gp_engine_t *engine, gp_context_t *context, uint64_t handle);

/* Records that the program may have streams, and may record events, that the library does not see. */
void gp_known_streams_miss(gp_engine_t *engine);

/*
 * Removes a stream that the program is about to destroy. First waits until no thread is querying the stream;
 * a query does not wait for the device. Returns the stream's context, or NULL if the stream was not known. If
 * the driver refuses to destroy the stream, the caller adds it again to that context.
 */
gp_context_t *gp_known_stream_remove(gp_engine_t *engine, uint64_t handle);

/* gp_known_streams_add_context adds the default stream of a new context. gp_known_streams_drop_context
 * removes all streams of a context that has ended (NULL: of all contexts). The caller holds contexts_lock. */
void gp_known_streams_add_context(gp_engine_t *engine, gp_context_t *context);
void gp_known_streams_drop_context(gp_engine_t *engine, const gp_context_t *context);

/*
 * Queries each stream; never waits. Returns true if none has pending work, and each context in which a stream
 * was destroyed with pending work has been synchronized since. Returns false if there may be work, or if the
 * engine may make no driver call now.
 */
bool gp_known_streams_are_idle(gp_engine_t *engine);

#endif
