/*
 * Entry points whose parameters differ between the major versions of the runtime. A program brings those of
 * the version that it was built with: of a call with fewer, the others are what the registers happen to hold,
 * which must not be taken for pointers. The C names differ from the exported ones because the headers declare
 * only one of the forms.
 *
 * Facts of cuda_runtime_api.h in 11.8, 12.x and 13.0.
 */
#include "rt.h"

#define EXPORTED(symbol, name, params)                                                                       \
  cudaError_t CUDARTAPI name params __asm__(#symbol);                                                        \
  cudaError_t CUDARTAPI name params

/* ---- 13: places are structures ---- */

#if RT_MAJOR >= 12
static inline CUmemLocation to_driver(struct cudaMemLocation location)
{
  return (CUmemLocation){.type = (CUmemLocationType)location.type, .id = location.id};
}
#endif

#define ADVISE(symbol, name)                                                                                 \
  EXPORTED(symbol, name,                                                                                     \
      (const void *p, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation location));         \
  RT_FN(name, (const void *p, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation location),  \
      rt_driver.cuMemAdvise_12020(rt_address(p), bytes, (CUmem_advise)advice, to_driver(location)))
#define PREFETCH(symbol, name, symbol_pt, name_pt)                                                           \
  EXPORTED(symbol, name,                                                                                     \
      (const void *p, size_t bytes, struct cudaMemLocation location, unsigned flags, cudaStream_t stream));  \
  EXPORTED(symbol_pt, name_pt,                                                                               \
      (const void *p, size_t bytes, struct cudaMemLocation location, unsigned flags, cudaStream_t stream));  \
  RT_FN2(name, name_pt,                                                                                      \
      (const void *p, size_t bytes, struct cudaMemLocation location, unsigned flags, cudaStream_t stream),   \
      PICK(cuMemPrefetchAsync_12020)(rt_address(p), bytes, to_driver(location), flags, stream))

#if RT_MAJOR >= 13
ADVISE(cudaMemAdvise, mem_advise)
PREFETCH(cudaMemPrefetchAsync, mem_prefetch, cudaMemPrefetchAsync_ptsz, mem_prefetch_pt)
#else
EXPORTED(cudaMemAdvise, mem_advise, (const void *p, size_t bytes, enum cudaMemoryAdvise advice, int device));
RT_FN(mem_advise, (const void *p, size_t bytes, enum cudaMemoryAdvise advice, int device),
    rt_driver.cuMemAdvise(rt_address(p), bytes, (CUmem_advise)advice, device))
EXPORTED(cudaMemPrefetchAsync, mem_prefetch, (const void *p, size_t bytes, int device, cudaStream_t stream));
EXPORTED(cudaMemPrefetchAsync_ptsz, mem_prefetch_pt,
    (const void *p, size_t bytes, int device, cudaStream_t stream));
RT_FN2(mem_prefetch, mem_prefetch_pt, (const void *p, size_t bytes, int device, cudaStream_t stream),
    PICK(cuMemPrefetchAsync)(rt_address(p), bytes, device, stream))
#if RT_MAJOR == 12
ADVISE(cudaMemAdvise_v2, mem_advise_v2)
PREFETCH(cudaMemPrefetchAsync_v2, mem_prefetch_v2, cudaMemPrefetchAsync_v2_ptsz, mem_prefetch_v2_pt)
#endif
#endif

/* ---- captures: 13 has only the form with edges ---- */

#define CAPTURE_INFO_3(symbol, name, symbol_pt, name_pt)                                                     \
  EXPORTED(symbol, name,                                                                                     \
      (cudaStream_t stream, enum cudaStreamCaptureStatus * ret, unsigned long long *id, cudaGraph_t *graph,  \
          const cudaGraphNode_t **deps, const CUgraphEdgeData **edges, size_t *count));                      \
  EXPORTED(symbol_pt, name_pt,                                                                               \
      (cudaStream_t stream, enum cudaStreamCaptureStatus * ret, unsigned long long *id, cudaGraph_t *graph,  \
          const cudaGraphNode_t **deps, const CUgraphEdgeData **edges, size_t *count));                      \
  RT_FN2(name, name_pt,                                                                                      \
      (cudaStream_t stream, enum cudaStreamCaptureStatus * ret, unsigned long long *id, cudaGraph_t *graph,  \
          const cudaGraphNode_t **deps, const CUgraphEdgeData **edges, size_t *count),                       \
      PICK(cuStreamGetCaptureInfo_12030)(                                                                    \
          stream, (CUstreamCaptureStatus *)ret, (cuuint64_t *)id, graph, deps, edges, count))

#if RT_MAJOR >= 13
CAPTURE_INFO_3(cudaStreamGetCaptureInfo, capture_info, cudaStreamGetCaptureInfo_ptsz, capture_info_pt)
#else
EXPORTED(cudaStreamGetCaptureInfo, capture_info,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *ret, unsigned long long *id));
EXPORTED(cudaStreamGetCaptureInfo_ptsz, capture_info_pt,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *ret, unsigned long long *id));
RT_FN2(capture_info, capture_info_pt,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *ret, unsigned long long *id),
    PICK(cuStreamGetCaptureInfo_10010)(stream, (CUstreamCaptureStatus *)ret, (cuuint64_t *)id))
EXPORTED(cudaStreamGetCaptureInfo_v2, capture_info_v2,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *ret, unsigned long long *id, cudaGraph_t *graph,
        const cudaGraphNode_t **deps, size_t *count));
EXPORTED(cudaStreamGetCaptureInfo_v2_ptsz, capture_info_v2_pt,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *ret, unsigned long long *id, cudaGraph_t *graph,
        const cudaGraphNode_t **deps, size_t *count));
RT_FN2(capture_info_v2, capture_info_v2_pt,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *ret, unsigned long long *id, cudaGraph_t *graph,
        const cudaGraphNode_t **deps, size_t *count),
    PICK(cuStreamGetCaptureInfo_11030)(
        stream, (CUstreamCaptureStatus *)ret, (cuuint64_t *)id, graph, deps, count))
#if RT_MAJOR == 12
CAPTURE_INFO_3(
    cudaStreamGetCaptureInfo_v3, capture_info_v3, cudaStreamGetCaptureInfo_v3_ptsz, capture_info_v3_pt)
#endif
#endif

/* ---- graphs: 11 tells where it failed, and has no flags ---- */

#if RT_MAJOR >= 12
EXPORTED(cudaGraphInstantiate, graph_instantiate,
    (cudaGraphExec_t * ret, cudaGraph_t graph, unsigned long long flags));
RT_FN_INIT(graph_instantiate, (cudaGraphExec_t * ret, cudaGraph_t graph, unsigned long long flags),
    rt_driver.cuGraphInstantiateWithFlags(ret, graph, flags))
EXPORTED(cudaGraphExecUpdate, graph_update,
    (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *ret));
RT_FN_INIT(graph_update, (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *ret),
    rt_driver.cuGraphExecUpdate(exec, graph, (CUgraphExecUpdateResultInfo *)ret))
#else
EXPORTED(cudaGraphExecUpdate, graph_update,
    (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error_node, int *ret));
RT_FN_INIT(graph_update, (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error_node, int *ret),
    ((void)exec, (void)graph, (void)error_node, (void)ret, CUDA_ERROR_NOT_SUPPORTED))
EXPORTED(cudaGraphInstantiate, graph_instantiate,
    (cudaGraphExec_t * ret, cudaGraph_t graph, cudaGraphNode_t *error_node, char *text, size_t bytes));
RT_FN_INIT(graph_instantiate,
    (cudaGraphExec_t * ret, cudaGraph_t graph, cudaGraphNode_t *error_node, char *text, size_t bytes),
    rt_driver.cuGraphInstantiate(ret, graph, error_node, text, bytes))
#endif

/* ---- entry points of the driver: 11 has no status ---- */

static CUresult entry_point(const char *symbol, void **ret, int version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *ret_status, bool per_thread)
{
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  if (flags == cudaEnableDefault && per_thread)
    flags = cudaEnablePerThreadDefaultStream;
  CUresult code = rt_driver.cuGetProcAddress_v2(symbol, ret, version, flags, &status);
  if (ret_status)
    *ret_status = (enum cudaDriverEntryPointQueryResult)status;
  return code;
}

static int version_for_all(void)
{
  return RT_VERSION < rt_driver_version ? RT_VERSION : rt_driver_version;
}

#define ENTRY_POINT(symbol_of, name, params, version, status, per_thread)                                    \
  EXPORTED(symbol_of, name, params);                                                                         \
  RT_FN_INIT(name, params, entry_point(symbol, ret, (int)(version), flags, status, per_thread))

#if RT_MAJOR >= 12
#define ENTRY_PARAMS                                                                                         \
  (const char *symbol, void **ret, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
ENTRY_POINT(cudaGetDriverEntryPoint, driver_entry, ENTRY_PARAMS, version_for_all(), status, false)
ENTRY_POINT(cudaGetDriverEntryPoint_ptsz, driver_entry_pt, ENTRY_PARAMS, version_for_all(), status, true)
#else
#define ENTRY_PARAMS (const char *symbol, void **ret, unsigned long long flags)
ENTRY_POINT(cudaGetDriverEntryPoint, driver_entry, ENTRY_PARAMS, version_for_all(), NULL, false)
ENTRY_POINT(cudaGetDriverEntryPoint_ptsz, driver_entry_pt, ENTRY_PARAMS, version_for_all(), NULL, true)
#endif

/* 11 does not have it; here it does, since the same programs, built with newer headers, are run with each
 * version. */
#define ENTRY_PARAMS_BY_VERSION                                                                              \
  (const char *symbol, void **ret, unsigned version, unsigned long long flags,                               \
      enum cudaDriverEntryPointQueryResult *status)
ENTRY_POINT(cudaGetDriverEntryPointByVersion, driver_entry_by_version, ENTRY_PARAMS_BY_VERSION, version,
    status, false)
ENTRY_POINT(cudaGetDriverEntryPointByVersion_ptsz, driver_entry_by_version_pt, ENTRY_PARAMS_BY_VERSION,
    version, status, true)
