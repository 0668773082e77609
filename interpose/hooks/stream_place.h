/* The streams that the program names in its calls. */
#ifndef GP_INTERPOSE_HOOKS_STREAM_PLACE_H
#define GP_INTERPOSE_HOOKS_STREAM_PLACE_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * Returns the record of a stream as the program names it: NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a
 * handle. per_thread: a NULL stream is the per-thread default stream. Returns NULL if the stream has no
 * record. Any thread; the caller holds no lock.
 */
gp_identity_t *gp_stream_identity(gp_engine_t *engine, CUstream stream, bool per_thread);

/*
 * Submits an operation that does nothing to the stream, in place of the program's call, so that the call
 * keeps its ordering effects on other streams, including those of the legacy default stream. Does not wait.
 * Returns the driver's error for an invalid stream, and CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, with nothing
 * done, for one that is capturing. Arguments as above. Any thread; the caller holds no lock.
 */
CUresult gp_stream_take_place(CUstream stream, bool per_thread);

/*
 * Returns whether the stream is capturing, or the query fails. Only the driver knows: streams join a capture
 * when they wait for its events. The query is legal during captures (cuda.h at cuStreamIsCapturing).
 * Arguments as above.
 */
bool gp_stream_is_captured(CUstream stream, bool per_thread);

#endif
