/* The streams that the program names in its calls. */
#ifndef GP_INTERPOSE_HOOKS_STREAM_PLACE_H
#define GP_INTERPOSE_HOOKS_STREAM_PLACE_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * The identity of the stream in whose order memory is allocated and freed, as the program names it: NULL,
 * CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a handle; per_thread: NULL means the calling thread's own.
 * Returns NULL if it has no identity. Any thread; the caller holds no lock.
 */
gp_identity_t *gp_stream_identity(gp_engine_t *engine, CUstream stream, bool per_thread);

/*
 * Puts an operation that does nothing into the stream, so that the effects of the program's call on
 * other streams, and by the legacy default stream's rules, stay. Does not wait. per_thread: the handle
 * 0 is the calling thread's stream. Returns the driver's error for an invalid stream, and
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, with nothing done, for one that is being captured. Any
 * thread; the caller holds no lock.
 */
CUresult gp_stream_take_place(CUstream stream, bool per_thread);

/*
 * The stream is being captured, or the driver does not say. Only the driver knows: streams join a capture
 * unseen when they wait for its events. This question is legal during captures (cuda.h at
 * cuStreamIsCapturing). Otherwise as above.
 */
bool gp_stream_is_captured(CUstream stream, bool per_thread);

#endif
