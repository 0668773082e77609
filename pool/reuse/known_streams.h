/*
 * The streams of a driver that has no fence over a whole context (before 12.5): those that the program
 * created, destroyed ones while they have work, and the default stream of each context. The library can
 * ask whether they have work, in every reuse mode. The answers are no facts, since they do not include
 * other threads' own streams. They show only that a call that waits for a context would not wait for work
 * that the library knows of.
 *
 * Any thread; the caller holds no lock unless a comment says otherwise. On a driver with such a fence these
 * functions keep nothing and ask nothing.
 */
#ifndef GP_POOL_REUSE_KNOWN_STREAMS_H
#define GP_POOL_REUSE_KNOWN_STREAMS_H

#include "pool/records.h"

/*
 * The program created the stream; handle is the driver's. is_blocking: the default stream and it wait for
 * each other; false when in doubt. context NULL: nothing happens.
 */
void gp_known_stream_add(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking);

/* There may be an unknown stream: from now on streams' answers are not conclusive. */
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

typedef enum gp_known_work {
  GP_KNOWN_WORK_NONE,    /* no stream has work */
  GP_KNOWN_WORK_BEFORE,  /* each stream with work has had some since the last noted free */
  GP_KNOWN_WORK_LATER,   /* a stream has work that it did not have then */
  GP_KNOWN_WORK_UNKNOWN, /* the engine cannot ask the driver now, or the driver has a better fence to ask */
} gp_known_work_t;

/* Asks the driver about each stream; never waits. */
gp_known_work_t gp_known_streams_ask(gp_engine_t *engine);

/* The library's own stream of a context, made at first sight: a fence in it passes when the default stream
 * has reached that point, and holds no other stream up. 0: there is none now. Does not wait. */
uint64_t gp_known_streams_side(gp_engine_t *engine, gp_context_t *context);

/* Also asks, and notes which streams of the device have work, at a free of the device's memory by the
 * program. The driver's own free would not have waited for other devices. */
void gp_known_streams_note_free(gp_engine_t *engine, const gp_device_t *freed);

#endif
