/*
 * Functions newer than the headers: those that CUDA 13.1 to 13.4 brought, as far as they are modelled, and
 * invented ones of 14000, which stand for what no library can know. Each forwards to an older one, whose name
 * is in the log.
 */
#include "sim.h"

/* The names in front of which cuda.h, if it has them, may put other types. */
#define NEWER(name, ...)                                                                                     \
  CUresult CUDAAPI name(__VA_ARGS__);                                                                        \
  CUresult CUDAAPI name(__VA_ARGS__)
#define NEWER_STREAM(name, older, parameters, ...)                                                           \
  CUresult CUDAAPI name parameters;                                                                          \
  CUresult CUDAAPI name##_ptsz parameters;                                                                   \
  CUresult CUDAAPI name parameters                                                                           \
  {                                                                                                          \
    return older(__VA_ARGS__);                                                                               \
  }                                                                                                          \
  CUresult CUDAAPI name##_ptsz parameters                                                                    \
  {                                                                                                          \
    return older##_ptsz(__VA_ARGS__);                                                                        \
  }

NEWER_STREAM(cuMemcpyWithAttributesAsync, cuMemcpyAsync,
    (CUdeviceptr dst, CUdeviceptr src, size_t bytes, void *attributes, CUstream stream), dst, src, bytes,
    stream)
NEWER_STREAM(cuLaunchHostFunc_v2, cuLaunchHostFunc, (CUstream stream, CUhostFn fn, void *user, unsigned mode),
    stream, fn, user)
/* The order of the nodes is not compared with the graph's: they are added to it. */
NEWER_STREAM(cuStreamBeginRecaptureToGraph, cuStreamBeginCaptureToGraph,
    (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void *callback, void *user), stream, graph,
    NULL, NULL, 0, mode)

/* Any context passes for one that was made for graphics. There is no command list: what was captured is
 * dropped. */
NEWER_STREAM(cuStreamBeginCaptureToCig, cuStreamBeginCapture_v2, (CUstream stream, void *parameters), stream,
    parameters ? CU_STREAM_CAPTURE_MODE_RELAXED : (CUstreamCaptureMode)-1)

static CUresult dropped(CUresult result, CUgraph graph)
{
  return result == CUDA_SUCCESS ? cuGraphDestroy(graph) : result;
}

NEWER(cuStreamEndCaptureToCig, CUstream stream)
{
  CUgraph graph = NULL;
  CUresult result = cuStreamEndCapture(stream, &graph);
  return dropped(result, graph);
}

NEWER(cuStreamEndCaptureToCig_ptsz, CUstream stream)
{
  CUgraph graph = NULL;
  CUresult result = cuStreamEndCapture_ptsz(stream, &graph);
  return dropped(result, graph);
}

NEWER(cuGraphAddNode_v3, CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes,
    const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *parameters)
{
  return cuGraphAddNode_v2(node, graph, nodes, edges, count, parameters);
}

/* Only whether there is such memory. */
static CUresult bind(CUdeviceptr address)
{
  CUdeviceptr base;
  size_t bytes;
  return cuMemGetAddressRange_v2(&base, &bytes, address);
}

NEWER(cuMulticastBindAddr_v2, CUmemGenericAllocationHandle multicast, CUdevice device, size_t offset,
    CUdeviceptr address, size_t bytes, unsigned long long flags)
{
  return bind(address);
}

NEWER(cuLogicalEndpointBindAddr, unsigned endpoint, CUdevice device, cuuint64_t offset, void *address,
    cuuint64_t bytes, unsigned long long flags)
{
  return bind((CUdeviceptr)(uintptr_t)address);
}

/*
 * Invented. The flags have to be 0.
 */

NEWER(cuMemAlloc_v3, CUdeviceptr *ret, size_t bytes, unsigned long long flags)
{
  return flags ? CUDA_ERROR_INVALID_VALUE : cuMemAlloc_v2(ret, bytes);
}

NEWER(cuMemFree_v3, CUdeviceptr address, unsigned long long flags)
{
  return flags ? CUDA_ERROR_INVALID_VALUE : cuMemFree_v2(address);
}

NEWER(cuMemFreeAsync_v2, CUdeviceptr address, CUstream stream, unsigned long long flags)
{
  return flags ? CUDA_ERROR_INVALID_VALUE : cuMemFreeAsync(address, stream);
}

NEWER(cuStreamBeginCapture_v3, CUstream stream, CUstreamCaptureMode mode, unsigned long long flags)
{
  return flags ? CUDA_ERROR_INVALID_VALUE : cuStreamBeginCapture_v2(stream, mode);
}

/* Begins, though its name has "End" in it. */
NEWER(cuStreamBeginCaptureToEndpoint, CUstream stream, CUstreamCaptureMode mode, unsigned long long flags)
{
  return cuStreamBeginCapture_v3(stream, mode, flags);
}

NEWER(cuStreamEndCapture_v2, CUstream stream, CUgraph *ret_graph, unsigned long long flags)
{
  return flags ? CUDA_ERROR_INVALID_VALUE : cuStreamEndCapture(stream, ret_graph);
}

NEWER(cuCtxCreate_v5, CUcontext *ret, unsigned flags, CUdevice device, void *extra)
{
  return extra ? CUDA_ERROR_INVALID_VALUE : cuCtxCreate_v2(ret, flags, device);
}

/* A launch whose arguments are in registers of both kinds and on the stack. */
NEWER(cuLaunchFuture, CUfunction function, double half, unsigned blocks, float quarter, CUstream stream,
    void **parameters, int five, int six, int seven, int eight)
{
  if (half != 0.5 || quarter != 0.25f || five != 5 || six != 6 || seven != 7 || eight != 8)
    return CUDA_ERROR_INVALID_VALUE;
  return cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

/* Others may use that memory from now on. */
NEWER(cuMemLend, int flags, CUdeviceptr address)
{
  return flags ? CUDA_ERROR_INVALID_VALUE : bind(address);
}
