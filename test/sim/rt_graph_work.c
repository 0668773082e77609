/*
 * Nodes of graphs that do work on memory: kernels and copies.
 */
#include "rt.h"

static CUresult add_kernel(cudaGraphNode_t *ret, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t count,
    const struct cudaKernelNodeParams *params)
{
  CUfunction function;
  if (!params)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult code = rt_kernel_of(params->func, &function);
  if (code != CUDA_SUCCESS)
    return code;
  CUDA_KERNEL_NODE_PARAMS_v2 plan = {.func = function,
      .gridDimX = params->gridDim.x,
      .gridDimY = params->gridDim.y,
      .gridDimZ = params->gridDim.z,
      .blockDimX = params->blockDim.x,
      .blockDimY = params->blockDim.y,
      .blockDimZ = params->blockDim.z,
      .sharedMemBytes = params->sharedMemBytes,
      .kernelParams = params->kernelParams,
      .extra = params->extra};
  return rt_driver.cuGraphAddKernelNode(ret, graph, deps, count, &plan);
}

RT_FN(cudaGraphAddKernelNode,
    (cudaGraphNode_t * ret, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t count,
        const struct cudaKernelNodeParams *params),
    add_kernel(ret, graph, deps, count, params))

static CUresult add_copy(cudaGraphNode_t *ret, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t count,
    void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
  bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
  bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
  CUDA_MEMCPY3D plan = {.srcMemoryType = kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED
                                         : from_host               ? CU_MEMORYTYPE_HOST
                                                                   : CU_MEMORYTYPE_DEVICE,
      .srcHost = src,
      .srcDevice = rt_address(src),
      .dstMemoryType = kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED
                       : to_host                 ? CU_MEMORYTYPE_HOST
                                                 : CU_MEMORYTYPE_DEVICE,
      .dstHost = dst,
      .dstDevice = rt_address(dst),
      .WidthInBytes = bytes,
      .Height = 1,
      .Depth = 1};
  CUcontext context;
  CUresult code = rt_driver.cuCtxGetCurrent(&context);
  return code == CUDA_SUCCESS ? rt_driver.cuGraphAddMemcpyNode(ret, graph, deps, count, &plan, context)
                              : code;
}

RT_FN(cudaGraphAddMemcpyNode1D,
    (cudaGraphNode_t * ret, cudaGraph_t graph, const cudaGraphNode_t *deps, size_t count, void *dst,
        const void *src, size_t bytes, enum cudaMemcpyKind kind),
    add_copy(ret, graph, deps, count, dst, src, bytes, kind))
