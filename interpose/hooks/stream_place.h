/* For calls that the pool serves but that natively are operations of a stream. */
#ifndef GP_INTERPOSE_HOOKS_STREAM_PLACE_H
#define GP_INTERPOSE_HOOKS_STREAM_PLACE_H

#include <stdbool.h>

#include <cuda.h>

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
