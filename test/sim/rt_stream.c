/*
 * Streams, events, capture and graphs: mostly one driver call each.
 */
#include "rt.h"

#include <cuda_profiler_api.h>
#include <string.h>

RT_FN(cudaStreamCreate, (cudaStream_t * ret), rt_driver.cuStreamCreate(ret, 0))
RT_FN(
    cudaStreamCreateWithFlags, (cudaStream_t * ret, unsigned int flags), rt_driver.cuStreamCreate(ret, flags))
RT_FN(cudaStreamCreateWithPriority, (cudaStream_t * ret, unsigned int flags, int priority),
    rt_driver.cuStreamCreateWithPriority(ret, flags, priority))
RT_FN(cudaStreamDestroy, (cudaStream_t stream), rt_driver.cuStreamDestroy(stream))
RT_FN2(cudaStreamSynchronize, cudaStreamSynchronize_ptsz, (cudaStream_t stream),
    PICK(cuStreamSynchronize)(stream))
RT_FN2(cudaStreamQuery, cudaStreamQuery_ptsz, (cudaStream_t stream), PICK(cuStreamQuery)(stream))
RT_FN2(cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz,
    (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
    PICK(cuStreamWaitEvent)(stream, event, flags))
RT_FN2(cudaStreamGetPriority, cudaStreamGetPriority_ptsz, (cudaStream_t stream, int *ret),
    PICK(cuStreamGetPriority)(stream, ret))
RT_FN2(cudaStreamGetFlags, cudaStreamGetFlags_ptsz, (cudaStream_t stream, unsigned int *ret),
    PICK(cuStreamGetFlags)(stream, ret))
RT_FN2(cudaStreamGetId, cudaStreamGetId_ptsz, (cudaStream_t stream, unsigned long long *ret),
    PICK(cuStreamGetId)(stream, ret))
RT_FN2(cudaStreamGetDevice, cudaStreamGetDevice_ptsz, (cudaStream_t stream, int *ret),
    PICK(cuStreamGetDevice)(stream, ret))
RT_FN2(cudaStreamAddCallback, cudaStreamAddCallback_ptsz,
    (cudaStream_t stream, cudaStreamCallback_t fn, void *user, unsigned int flags),
    PICK(cuStreamAddCallback)(stream, (CUstreamCallback)fn, user, flags))
RT_FN2(cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz, (cudaStream_t stream, cudaHostFn_t fn, void *user),
    PICK(cuLaunchHostFunc)(stream, fn, user))

RT_FN(cudaEventCreate, (cudaEvent_t * ret), rt_driver.cuEventCreate(ret, 0))
RT_FN(cudaEventCreateWithFlags, (cudaEvent_t * ret, unsigned int flags), rt_driver.cuEventCreate(ret, flags))
RT_FN(cudaEventDestroy, (cudaEvent_t event), rt_driver.cuEventDestroy(event))
RT_FN2(cudaEventRecord, cudaEventRecord_ptsz, (cudaEvent_t event, cudaStream_t stream),
    PICK(cuEventRecord)(event, stream))
RT_FN2(cudaEventRecordWithFlags, cudaEventRecordWithFlags_ptsz,
    (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
    PICK(cuEventRecordWithFlags)(event, stream, flags))
RT_FN(cudaEventQuery, (cudaEvent_t event), rt_driver.cuEventQuery(event))
RT_FN(cudaEventSynchronize, (cudaEvent_t event), rt_driver.cuEventSynchronize(event))
RT_FN(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
    rt_driver.cuEventElapsedTime(ms, start, end))
RT_FN(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * ret, cudaEvent_t event),
    rt_driver.cuIpcGetEventHandle((CUipcEventHandle *)ret, event))

static CUresult open_event(cudaEvent_t *ret, cudaIpcEventHandle_t handle)
{
  CUipcEventHandle copy;
  memcpy(&copy, &handle, sizeof copy);
  return rt_driver.cuIpcOpenEventHandle(ret, copy);
}

RT_FN(cudaIpcOpenEventHandle, (cudaEvent_t * ret, cudaIpcEventHandle_t handle), open_event(ret, handle))

RT_FN2(cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz,
    (cudaStream_t stream, enum cudaStreamCaptureMode mode),
    PICK(cuStreamBeginCapture_10010)(stream, (CUstreamCaptureMode)mode))
RT_FN2(cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph_ptsz,
    (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *deps, const cudaGraphEdgeData *edges,
        size_t count, enum cudaStreamCaptureMode mode),
    PICK(cuStreamBeginCaptureToGraph)(
        stream, graph, deps, (const CUgraphEdgeData *)edges, count, (CUstreamCaptureMode)mode))
RT_FN2(cudaStreamEndCapture, cudaStreamEndCapture_ptsz, (cudaStream_t stream, cudaGraph_t *ret),
    PICK(cuStreamEndCapture)(stream, ret))
RT_FN2(cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *ret),
    PICK(cuStreamIsCapturing)(stream, (CUstreamCaptureStatus *)ret))
RT_FN_INIT(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
    rt_driver.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))

RT_FN_INIT(cudaGraphCreate, (cudaGraph_t * ret, unsigned int flags), rt_driver.cuGraphCreate(ret, flags))
RT_FN_INIT(cudaGraphDestroy, (cudaGraph_t graph), rt_driver.cuGraphDestroy(graph))
RT_FN_INIT(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
    rt_driver.cuGraphGetNodes(graph, nodes, count))
RT_FN_INIT(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
    rt_driver.cuGraphGetRootNodes(graph, nodes, count))
RT_FN_INIT(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *ret),
    rt_driver.cuGraphNodeGetType(node, (CUgraphNodeType *)ret))
RT_FN_INIT(cudaGraphInstantiateWithFlags,
    (cudaGraphExec_t * ret, cudaGraph_t graph, unsigned long long flags),
    rt_driver.cuGraphInstantiateWithFlags(ret, graph, flags))
RT_FN2(cudaGraphLaunch, cudaGraphLaunch_ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
    PICK(cuGraphLaunch)(exec, stream))
RT_FN2(cudaGraphUpload, cudaGraphUpload_ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
    PICK(cuGraphUpload)(exec, stream))
RT_FN_INIT(cudaGraphExecDestroy, (cudaGraphExec_t exec), rt_driver.cuGraphExecDestroy(exec))

RT_FN(cudaProfilerStart, (void), rt_driver.cuProfilerStart())
RT_FN(cudaProfilerStop, (void), rt_driver.cuProfilerStop())
