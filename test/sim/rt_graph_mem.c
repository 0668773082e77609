/*
 * Memory of graphs.
 */
#include "rt.h"

#define SAME(a, b)                                                                                           \
  (sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) &&                            \
      offsetof(struct cudaMemAllocNodeParams, a) == offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, b))
_Static_assert(SAME(accessDescs, accessDescs) && SAME(bytesize, bytesize) && SAME(dptr, dptr),
    "the parameters have one layout in the runtime and in the driver");

RT_FN_INIT(cudaGraphAddMemAllocNode,
    (cudaGraphNode_t * ret, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t count,
        struct cudaMemAllocNodeParams *params),
    rt_driver.cuGraphAddMemAllocNode(ret, graph, deps, count, (CUDA_MEM_ALLOC_NODE_PARAMS *)params))
RT_FN_INIT(cudaGraphMemAllocNodeGetParams, (cudaGraphNode_t node, struct cudaMemAllocNodeParams *ret),
    rt_driver.cuGraphMemAllocNodeGetParams(node, (CUDA_MEM_ALLOC_NODE_PARAMS *)ret))
RT_FN_INIT(cudaGraphAddMemFreeNode,
    (cudaGraphNode_t * ret, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t count, void *p),
    rt_driver.cuGraphAddMemFreeNode(ret, graph, deps, count, rt_address(p)))
RT_FN_INIT(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void *ret),
    rt_driver.cuGraphMemFreeNodeGetParams(node, (CUdeviceptr *)ret))
RT_FN_INIT(cudaDeviceGraphMemTrim, (int device), rt_driver.cuDeviceGraphMemTrim(device))
RT_FN_INIT(cudaDeviceGetGraphMemAttribute,
    (int device, enum cudaGraphMemAttributeType attribute, void *value),
    rt_driver.cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value))
RT_FN_INIT(cudaDeviceSetGraphMemAttribute,
    (int device, enum cudaGraphMemAttributeType attribute, void *value),
    rt_driver.cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value))
