/*
 * The stream captures that are running, each of which suspends the pool (gp_engine_suspend_in).
 *
 * Whoever makes a driver call that may end one takes it out first, and finishes it or puts it back when the
 * driver has answered: as soon as the driver has a stream back it may give the same handle to another thread,
 * whose capture must not be taken for this one. The pool stays suspended meanwhile.
 *
 * All functions may be called by any thread; none calls the driver with a lock held.
 */
#ifndef GP_INTERPOSE_HOOKS_CAPTURES_H
#define GP_INTERPOSE_HOOKS_CAPTURES_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

typedef struct gp_capture gp_capture_t;

/*
 * Suspends the pool for a capture that is about to begin; per_thread: a NULL stream means the thread's own.
 * Then put it, or finish it if the driver refused. NULL if the host has no memory for it: the pool then
 * stands aside for good.
 */
gp_capture_t *gp_capture_begin(gp_engine_t *engine, CUstream stream, bool per_thread);

/* Files a capture. One of the same stream that is still here has ended by a way that nobody saw, and is
 * finished. */
void gp_capture_put(gp_engine_t *engine, gp_capture_t *capture);

/* Whether there is a record of a capture that began in that stream. The handle may be one that is no stream's
 * any more. */
bool gp_capture_is_followed(gp_engine_t *engine, CUstream stream, bool per_thread);

/* Takes the capture that began in a stream out, or returns NULL. The caller owns it until it puts or finishes
 * it. */
gp_capture_t *gp_capture_take(gp_engine_t *engine, CUstream stream, bool per_thread);

/* It is over: the suspension ends. Frees the record; NULL is legal. */
void gp_capture_finish(gp_engine_t *engine, gp_capture_t *capture);

#endif
