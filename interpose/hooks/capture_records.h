/*
 * The running stream captures. Each suspends the pool within its reach (gp_engine_suspend_in).
 *
 * A hook takes a capture out before the driver's call that may end it, and finishes it or puts it back
 * afterwards: once the driver has a stream back, it may give the same handle to another thread, whose
 * captures are different ones. The pool stays suspended meanwhile.
 *
 * In all functions a NULL stream is the calling thread's own, also if the program means the legacy stream:
 * that cannot be captured (cuda.h, cuStreamBeginCapture), so the driver refuses the call.
 *
 * All functions may be called by any thread; none calls the driver with a lock held.
 */
#ifndef GP_INTERPOSE_HOOKS_CAPTURE_RECORDS_H
#define GP_INTERPOSE_HOOKS_CAPTURE_RECORDS_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

typedef struct gp_capture gp_capture_t;

/*
 * Suspends the pool for a capture that this thread is about to begin. The caller owns the record: it passes
 * it to put after the driver's success, or else to finish. NULL: the host has no memory for the record, and
 * pooling has ended for good.
 */
gp_capture_t *gp_capture_begin(gp_engine_t *engine, CUstream stream, gp_reach_t reach);

/* Files a capture, which the caller no longer owns. Finishes an older capture of the same stream, which
 * must have ended unseen. */
void gp_capture_put(gp_engine_t *engine, gp_capture_t *capture);

/* True if there is a record of a capture that began in that stream. The stream may have been destroyed
 * meanwhile. */
bool gp_capture_is_followed(gp_engine_t *engine, CUstream stream);

/* Takes the capture that began in a stream out, or returns NULL. The caller owns it until put or finish. */
gp_capture_t *gp_capture_take(gp_engine_t *engine, CUstream stream);

/* The capture is over: ends the suspension and frees the record. NULL is legal. */
void gp_capture_finish(gp_engine_t *engine, gp_capture_t *capture);

#endif
