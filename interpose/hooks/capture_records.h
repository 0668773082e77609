/*
 * Records of the running stream captures. Each capture suspends the pool within its reach
 * (gp_engine_suspend_in).
 *
 * A hook takes the record of a capture out of the list before the driver's call that may end the capture.
 * Afterwards it finishes the record, or puts it back: after a stream is destroyed, the driver may give the
 * same handle to another thread, which may begin a capture of its own. The pool remains suspended meanwhile.
 *
 * In all functions a NULL stream is the per-thread default stream. In the program, NULL may be the legacy
 * default stream, but that stream cannot be captured (cuda.h, cuStreamBeginCapture), so the driver rejects
 * the call.
 *
 * Any thread may call these functions; none calls the driver with a lock held.
 */
#ifndef GP_INTERPOSE_HOOKS_CAPTURE_RECORDS_H
#define GP_INTERPOSE_HOOKS_CAPTURE_RECORDS_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

typedef struct gp_capture gp_capture_t;

/*
 * Suspends the pool for a capture that this thread is about to begin. The caller owns the returned record,
 * and passes it to gp_capture_put if the driver succeeds, or else to gp_capture_finish. Returns NULL if the
 * host is out of memory; pooling has then stopped permanently.
 */
gp_capture_t *gp_capture_begin(gp_engine_t *engine, CUstream stream, gp_reach_t reach);

/* Stores the record of a running capture, which the caller no longer owns. Finishes an older capture of the
 * same stream, which must have ended without the library's knowledge. */
void gp_capture_put(gp_engine_t *engine, gp_capture_t *capture);

/* Returns true if there is a record of a capture that began in this stream. The stream may have been
 * destroyed since then. */
bool gp_capture_is_followed(gp_engine_t *engine, CUstream stream);

/* Removes and returns the record of the capture that began in a stream, or returns NULL if there is none. The
 * caller owns the record until it calls gp_capture_put or gp_capture_finish. */
gp_capture_t *gp_capture_take(gp_engine_t *engine, CUstream stream);

/* Ends the suspension of a capture that is over, and frees its record. NULL is legal. */
void gp_capture_finish(gp_engine_t *engine, gp_capture_t *capture);

#endif
