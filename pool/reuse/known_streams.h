/*
 * The live streams of a driver that has no fence over a whole context (before 12.5): those that the program
 * created, and the default stream of each context. The library asks the driver whether they have work before
 * it makes a call that may wait for the device. The answers prove nothing about freed memory, since they do
 * not include other threads' own streams.
 *
 * Any thread; the caller holds no lock unless a comment says otherwise. On a driver with such a fence these
 * functions keep nothing and ask nothing.
 */
#ifndef GP_POOL_REUSE_KNOWN_STREAMS_H
#define GP_POOL_REUSE_KNOWN_STREAMS_H

#include "pool/records.h"

/* The program created the stream; handle is the driver's. context NULL: nothing happens. */
void gp_known_stream_add(gp_engine_t *engine, gp_context_t *context, uint64_t handle);

/* The program may have streams, and may record events, that the library does not see. */
void gp_known_streams_miss(gp_engine_t *engine);

/*
 * The program is about to destroy the stream. Returns when no thread asks the driver about it; such a call
 * does not wait for the device. Returns the stream's context, with which the caller adds it again if the
 * driver refuses to destroy it; NULL: the stream was not known.
 */
gp_context_t *gp_known_stream_remove(gp_engine_t *engine, uint64_t handle);

/* The context, with its default stream, is new, or has ended; NULL: all contexts have ended. The
 * caller holds contexts_lock. */
void gp_known_streams_add_context(gp_engine_t *engine, gp_context_t *context);
void gp_known_streams_drop_context(gp_engine_t *engine, const gp_context_t *context);

/*
 * Asks the driver about each stream; never waits. True: none has work, and no stream was destroyed with
 * pending work after which its context was not synchronized. False: one may have work, or the engine may make
 * no call now.
 */
bool gp_known_streams_are_idle(gp_engine_t *engine);

#endif
