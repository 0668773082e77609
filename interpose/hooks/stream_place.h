/* The streams that the program passes to its calls. */
#ifndef GP_INTERPOSE_HOOKS_STREAM_PLACE_H
#define GP_INTERPOSE_HOOKS_STREAM_PLACE_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * Returns the record of a stream that the program passes as NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a
 * handle, or NULL if the stream has no record. If per_thread is true, a NULL stream is the per-thread default
 * stream. Any thread; the caller holds no lock.
 */
gp_stream_record_t *gp_stream_record_find(gp_engine_t *engine, CUstream stream, bool per_thread);

/*
 * Submits a no-op to the stream in place of the program's call, so that the call keeps its ordering effects
 * on other streams, including those of the legacy default stream. Does not wait. Returns the driver's error
 * for an invalid stream. Returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and does nothing, if the stream is
 * capturing. Arguments as above. Any thread; the caller holds no lock.
 */
CUresult gp_stream_take_place(CUstream stream, bool per_thread);

/*
 * Returns true if the stream is capturing, or if the query fails. Only the driver knows this: a stream joins
 * a capture when it waits for one of the capture's events. The query is legal during captures (cuda.h at
 * cuStreamIsCapturing). Arguments as above.
 */
bool gp_stream_is_captured(CUstream stream, bool per_thread);

#endif
