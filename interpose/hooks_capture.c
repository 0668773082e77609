/*
 * Stream captures: while one is active nothing is pooled and we make no driver call of our own, because many calls are
 * prohibited then and would invalidate the program's capture.
 *
 * The capture is counted before the driver is asked, so that no call of ours can slip in between; taken back if it
 * did not begin. It ends with a successful cuStreamEndCapture, or with one that reports that it had become invalid.
 */
#include "interpose/hooks.h"
#include "interpose/library.h"
#include "interpose/real.h"

#define BEGIN_CAPTURE(symbol, ...)                                                                           \
  gp_engine_t *engine = gp_library_engine();                                                                 \
  if (engine)                                                                                                \
    gp_engine_suspend(engine);                                                                         \
  CUresult result = GP_REAL_CALL(symbol, __VA_ARGS__);                                                       \
  if (engine && result != CUDA_SUCCESS)                                                                      \
    gp_engine_resume(engine);                                                                           \
  return result

CUresult CUDAAPI hook_cuStreamBeginCapture(CUstream stream)
{
  BEGIN_CAPTURE(cuStreamBeginCapture, stream);
}

CUresult CUDAAPI hook_cuStreamBeginCapture_ptsz(CUstream stream)
{
  BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, stream);
}

CUresult CUDAAPI hook_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
  BEGIN_CAPTURE(cuStreamBeginCapture_v2, stream, mode);
}

CUresult CUDAAPI hook_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
  BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, stream, mode);
}

CUresult CUDAAPI hook_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
    const void *edges, size_t count, CUstreamCaptureMode mode)
{
  BEGIN_CAPTURE(cuStreamBeginCaptureToGraph, stream, graph, nodes, edges, count, mode);
}

CUresult CUDAAPI hook_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
    const void *edges, size_t count, CUstreamCaptureMode mode)
{
  BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz, stream, graph, nodes, edges, count, mode);
}

static CUresult ended(CUresult result)
{
  gp_engine_t *engine = gp_library_engine();
  if (engine && (result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
                    result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED))
    gp_engine_resume(engine);
  return result;
}

CUresult CUDAAPI hook_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
  (void)gp_library_engine();
  return ended(GP_REAL_CALL(cuStreamEndCapture, stream, graph));
}

CUresult CUDAAPI hook_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
  (void)gp_library_engine();
  return ended(GP_REAL_CALL(cuStreamEndCapture_ptsz, stream, graph));
}
