/*
 * Stream captures. While a capture is running, the library makes no driver calls of its own: many calls are
 * prohibited then, and would invalidate the capture. The library does not pool for threads that CUDA
 * prohibits from allocating.
 *
 * A hook counts a capture before it calls the driver, so that the library makes no call in between. If the
 * capture did not begin, the hook reverts the count. A capture ends with the driver's success, with its
 * stream, or with its context (gp_engine_suspend_in).
 */
#include "interpose/hooks/capture_records.h"
#include "interpose/hooks/hooks.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "base/cancel.h"

/* The capture that a driver call is about to begin or end, for the case that the thread is cancelled in the
 * call: finish_passage undoes a begin, and keep_passage keeps a capture. */
typedef struct passage {
  gp_engine_t *engine;
  gp_capture_t *capture; /* NULL: no capture */
} passage_t;

/* Finishes a capture if the thread was cancelled in the driver's call that begins it: the program cannot end
 * a capture whose begin has not returned. */
static void finish_passage(void *arg)
{
  const passage_t *passage = arg;
  gp_capture_finish(passage->engine, passage->capture);
}

/* Keeps a capture if the thread was cancelled in the driver's call that ends it. That call may or may not
 * have ended the capture, so the capture counts until its stream or its context ends. */
static void keep_passage(void *arg)
{
  const passage_t *passage = arg;
  if (passage->capture)
    gp_capture_put(passage->engine, passage->capture);
}

static CUresult began(gp_engine_t *engine, gp_capture_t *capture, CUresult result)
{
  if (capture && result == CUDA_SUCCESS)
    gp_capture_put(engine, capture);
  else
    gp_capture_finish(engine, capture);
  return result;
}

/*
 * Returns the reach of a capture: the threads to which CUDA prohibits "potentially unsafe" calls, such as
 * cudaMalloc (cuda.h at cuThreadExchangeStreamCaptureMode). A thread may have exempted itself: the driver
 * then accepts its calls.
 */
static gp_reach_t reach_of(CUstreamCaptureMode mode)
{
  switch (mode) {
  case CU_STREAM_CAPTURE_MODE_GLOBAL: return GP_REACH_THREADS;
  case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: return GP_REACH_THREAD;
  case CU_STREAM_CAPTURE_MODE_RELAXED: return GP_REACH_NONE;
  default: return GP_REACH_EVERYTHING;
  }
}

#define BEGIN_CAPTURE(symbol, reach, stream, ...)                                                            \
  gp_engine_t *engine = gp_library_engine();                                                                 \
  passage_t passage = {                                                                                      \
      .engine = engine, .capture = engine ? gp_capture_begin(engine, stream, reach) : NULL};                 \
  CUresult result;                                                                                           \
  GP_CANCEL_UNDO(result, GP_REAL_CALL(symbol, __VA_ARGS__), finish_passage, &passage);                       \
  return began(engine, passage.capture, result)

CUresult CUDAAPI hook_cuStreamBeginCapture(CUstream stream)
{
  BEGIN_CAPTURE(cuStreamBeginCapture, GP_REACH_THREADS, stream, stream);
}

CUresult CUDAAPI hook_cuStreamBeginCapture_ptsz(CUstream stream)
{
  BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, GP_REACH_THREADS, stream, stream);
}

CUresult CUDAAPI hook_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
  BEGIN_CAPTURE(cuStreamBeginCapture_v2, reach_of(mode), stream, stream, mode);
}

CUresult CUDAAPI hook_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
  BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, reach_of(mode), stream, stream, mode);
}

CUresult CUDAAPI hook_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
    const void *edges, size_t count, CUstreamCaptureMode mode)
{
  BEGIN_CAPTURE(
      cuStreamBeginCaptureToGraph, reach_of(mode), stream, stream, graph, nodes, edges, count, mode);
}

CUresult CUDAAPI hook_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
    const CUgraphNode *nodes, const void *edges, size_t count, CUstreamCaptureMode mode)
{
  BEGIN_CAPTURE(
      cuStreamBeginCaptureToGraph_ptsz, reach_of(mode), stream, stream, graph, nodes, edges, count, mode);
}

/* Captures into the graph's existing nodes (13.3); in other respects this is an ordinary capture. */
CUresult CUDAAPI hook_cuStreamBeginRecaptureToGraph(
    CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void *callback, void *user_data)
{
  BEGIN_CAPTURE(
      cuStreamBeginRecaptureToGraph, reach_of(mode), stream, stream, mode, graph, callback, user_data);
}

CUresult CUDAAPI hook_cuStreamBeginRecaptureToGraph_ptsz(
    CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void *callback, void *user_data)
{
  BEGIN_CAPTURE(
      cuStreamBeginRecaptureToGraph_ptsz, reach_of(mode), stream, stream, mode, graph, callback, user_data);
}

/* Captures into a command list of a graphics API, "similarly to cuStreamBeginCapture with
 * CU_STREAM_CAPTURE_MODE_RELAXED"; the stream must not be synchronized meanwhile (CUDA Driver API, 13.4). */
CUresult CUDAAPI hook_cuStreamBeginCaptureToCig(CUstream stream, void *parameters)
{
  BEGIN_CAPTURE(cuStreamBeginCaptureToCig, GP_REACH_EVERYTHING, stream, stream, parameters);
}

CUresult CUDAAPI hook_cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *parameters)
{
  BEGIN_CAPTURE(cuStreamBeginCaptureToCig_ptsz, GP_REACH_EVERYTHING, stream, stream, parameters);
}

/*
 * Returns true if cuStreamEndCapture, which returned `result`, has left the stream without a capture. The
 * documented capture errors decide this directly. After any other error the function asks the driver for the
 * stream's state; the program has just used the handle. If the query fails, the capture counts as running: it
 * will end with its stream.
 */
static bool is_over(CUresult result, CUstream stream)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;

  switch (result) {
  case CUDA_SUCCESS:
  case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
  case CUDA_ERROR_STREAM_CAPTURE_UNJOINED: return true;
  case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
  case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: return false;
  default: break;
  }
  CUresult asked = GP_REAL_CALL(cuStreamIsCapturing, stream ? stream : CU_STREAM_PER_THREAD, &status);
  return asked == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUresult ended(gp_engine_t *engine, gp_capture_t *capture, CUresult result, bool over)
{
  if (capture && !over)
    gp_capture_put(engine, capture);
  else
    gp_capture_finish(engine, capture);
  if (engine)
    gp_engine_note_result(engine, (int)result);
  return result;
}

#define END_CAPTURE(symbol, stream, ...)                                                                     \
  gp_engine_t *engine = gp_library_engine();                                                                 \
  passage_t passage = {.engine = engine, .capture = engine ? gp_capture_take(engine, stream) : NULL};        \
  CUresult result;                                                                                           \
  GP_CANCEL_UNDO(result, GP_REAL_CALL(symbol, __VA_ARGS__), keep_passage, &passage);                         \
  return ended(engine, passage.capture, result, passage.capture && is_over(result, stream))

CUresult CUDAAPI hook_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
  END_CAPTURE(cuStreamEndCapture, stream, stream, graph);
}

CUresult CUDAAPI hook_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
  END_CAPTURE(cuStreamEndCapture_ptsz, stream, stream, graph);
}

CUresult CUDAAPI hook_cuStreamEndCaptureToCig(CUstream stream)
{
  END_CAPTURE(cuStreamEndCaptureToCig, stream, stream);
}

CUresult CUDAAPI hook_cuStreamEndCaptureToCig_ptsz(CUstream stream)
{
  END_CAPTURE(cuStreamEndCaptureToCig_ptsz, stream, stream);
}
