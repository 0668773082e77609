/*
 * The streams of a driver that has no fence over a whole context (before 12.5): those that the program
 * created, destroyed ones while they have work, and the default stream of each context. Whether they have
 * work can be asked, in every reuse mode. What the answers say is no fact, for the own streams of other
 * threads are not among them. They say only that a call which waits for a context would not wait for work
 * that the library knows of.
 *
 * Any thread; the caller holds no lock unless a comment says otherwise. On a driver with such a fence nothing
 * is kept and nothing is asked. Uses: state.h, driver_calls.h, mode.h.
 */
#ifndef GP_POOL_REUSE_KNOWN_STREAMS_H
#define GP_POOL_REUSE_KNOWN_STREAMS_H

#include "pool/state.h"

/*
 * The program created the stream; handle is the driver's. is_blocking: the default stream and it wait for
 * each other; false when in doubt. context NULL: nothing happens.
 */
void gp_known_stream_add(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking);

/* There may be a stream that is not known: from now on streams tell nothing for certain. */
void gp_known_streams_miss(gp_engine_t *engine);

/*
 * The program is about to destroy the stream. Returns when no thread asks the driver about it; such a call
 * does not wait for the device. Returns the stream's context, with which the caller adds it again if the
 * driver refuses to destroy it; NULL: the stream was not known.
 */
gp_context_t *gp_known_stream_remove(gp_engine_t *engine, uint64_t handle);

/* The context with its default stream is new, or has ended; NULL: all have. The
 * caller holds contexts_lock. */
void gp_known_streams_add_context(gp_engine_t *engine, gp_context_t *context);
void gp_known_streams_drop_context(gp_engine_t *engine, const gp_context_t *context);

typedef enum gp_known_work {
  GP_KNOWN_WORK_NONE,    /* no stream has work */
  GP_KNOWN_WORK_BEFORE,  /* those that have work had some at the last free that was noted, and ever since */
  GP_KNOWN_WORK_LATER,   /* a stream has work that had none then */
  GP_KNOWN_WORK_UNKNOWN, /* the driver cannot be asked now, or has a fence that is to be asked instead */
} gp_known_work_t;

/* Asks the driver about each stream; never waits. */
gp_known_work_t gp_known_streams_ask(gp_engine_t *engine);

/*
 * The library's own stream of a context, made at first sight: a fence in it has passed when the default
 * stream has got as far, and holds no other stream up. 0: there is none now. Does not wait.
 */
uint64_t gp_known_streams_side(gp_engine_t *engine, gp_context_t *context);

/*
 * Asks likewise, and notes which streams of the device have work now, at a free of its memory by the program.
 * The driver's own free would not have waited for other devices.
 */
void gp_known_streams_note_free(gp_engine_t *engine, const gp_device_t *freed);

#endif
