/*
 * Launching kernels, and what is known about them.
 */
#include "rt.h"

#include <string.h>

/* The <<<...>>> of generated code: pushed, then popped by the stub of the kernel, in the same thread. */
typedef struct {
  dim3 grid, block;
  size_t shared;
  void *stream;
} configuration_t;

static _Thread_local configuration_t stack[8];
static _Thread_local unsigned depth;

unsigned CUDARTAPI __cudaPushCallConfiguration(
    dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *ret, const void *symbol);
cudaError_t CUDARTAPI __cudaLaunchKernel(
    cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);

unsigned CUDARTAPI __cudaPushCallConfiguration(
    dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream)
{
  if (depth == sizeof stack / sizeof stack[0])
    return 1;
  stack[depth++] = (configuration_t){grid, block, shared, stream};
  return 0;
}

cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
  if (depth == 0)
    return rt_result((CUresult)cudaErrorMissingConfiguration);
  const configuration_t *top = &stack[--depth];
  *grid = top->grid;
  *block = top->block;
  *shared = top->shared;
  *(void **)stream = top->stream;
  return cudaSuccess;
}

static CUresult launch_function(CUfunction function, dim3 grid, dim3 block, void **args, size_t shared,
    cudaStream_t stream, bool per_thread)
{
  return PICK(cuLaunchKernel)(
      function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, args, NULL);
}

static CUresult launch(const void *symbol, dim3 grid, dim3 block, void **args, size_t shared,
    cudaStream_t stream, bool cooperative, bool per_thread)
{
  CUfunction function;
  CUresult code = rt_kernel_of(symbol, &function);
  if (code != CUDA_SUCCESS)
    return code;
  if (!cooperative)
    return launch_function(function, grid, block, args, shared, stream, per_thread);
  return PICK(cuLaunchCooperativeKernel)(
      function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, args);
}

RT_FN2(cudaLaunchKernel, cudaLaunchKernel_ptsz,
    (const void *symbol, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream),
    launch(symbol, grid, block, args, shared, stream, false, per_thread))
RT_FN2(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz,
    (const void *symbol, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream),
    launch(symbol, grid, block, args, shared, stream, true, per_thread))
RT_FN2(__cudaLaunchKernel, __cudaLaunchKernel_ptsz,
    (cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream),
    launch_function((CUfunction)kernel, grid, block, args, shared, stream, per_thread))

static CUresult launch_ex(const cudaLaunchConfig_t *config, const void *symbol, void **args, bool per_thread)
{
  CUfunction function;
  if (!config)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult code = rt_kernel_of(symbol, &function);
  if (code != CUDA_SUCCESS)
    return code;
  CUlaunchConfig plan = {.gridDimX = config->gridDim.x,
      .gridDimY = config->gridDim.y,
      .gridDimZ = config->gridDim.z,
      .blockDimX = config->blockDim.x,
      .blockDimY = config->blockDim.y,
      .blockDimZ = config->blockDim.z,
      .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
      .hStream = config->stream,
      .attrs = (CUlaunchAttribute *)config->attrs,
      .numAttrs = config->numAttrs};
  return PICK(cuLaunchKernelEx)(&plan, function, args, NULL);
}

RT_FN2(cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz,
    (const cudaLaunchConfig_t *config, const void *symbol, void **args),
    launch_ex(config, symbol, args, per_thread))

RT_FN(cudaGetKernel, (cudaKernel_t * ret, const void *symbol), rt_kernel_of(symbol, (CUfunction *)ret))
RT_FN(__cudaGetKernel, (cudaKernel_t * ret, const void *symbol), rt_kernel_of(symbol, (CUfunction *)ret))
RT_FN(cudaGetFuncBySymbol, (cudaFunction_t * ret, const void *symbol), rt_kernel_of(symbol, ret))

static CUresult attributes(struct cudaFuncAttributes *ret, const void *symbol)
{
  CUfunction function;
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult code = rt_kernel_of(symbol, &function);
  if (code != CUDA_SUCCESS)
    return code;
  /* What 12 has behind it is not the program's to lose where it was built with an older structure. */
  memset(ret, 0, RT_MAJOR >= 12 ? sizeof *ret : offsetof(struct cudaFuncAttributes, clusterDimMustBeSet));
  const struct {
    CUfunction_attribute attribute;
    int *value;
  } wanted[] = {
      {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &ret->maxThreadsPerBlock},
      {CU_FUNC_ATTRIBUTE_NUM_REGS, &ret->numRegs},
      {CU_FUNC_ATTRIBUTE_PTX_VERSION, &ret->ptxVersion},
      {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &ret->binaryVersion},
      {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &ret->cacheModeCA},
      {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &ret->maxDynamicSharedSizeBytes},
      {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &ret->preferredShmemCarveout},
  };
  for (size_t i = 0; code == CUDA_SUCCESS && i < sizeof wanted / sizeof wanted[0]; i++)
    code = rt_driver.cuFuncGetAttribute(wanted[i].value, wanted[i].attribute, function);
  return code;
}

RT_FN(cudaFuncGetAttributes, (struct cudaFuncAttributes * ret, const void *symbol), attributes(ret, symbol))

static CUresult with_function(const void *symbol, CUfunction *ret)
{
  return rt_kernel_of(symbol, ret);
}

static CUresult set_attribute(const void *symbol, enum cudaFuncAttribute attribute, int value)
{
  CUfunction function;
  CUresult code = with_function(symbol, &function);
  return code == CUDA_SUCCESS ? rt_driver.cuFuncSetAttribute(function, (CUfunction_attribute)attribute, value)
                              : code;
}

static CUresult set_cache(const void *symbol, enum cudaFuncCache config)
{
  CUfunction function;
  CUresult code = with_function(symbol, &function);
  return code == CUDA_SUCCESS ? rt_driver.cuFuncSetCacheConfig(function, (CUfunc_cache)config) : code;
}

static CUresult get_name(const char **ret, const void *symbol)
{
  CUfunction function;
  CUresult code = with_function(symbol, &function);
  return code == CUDA_SUCCESS ? rt_driver.cuFuncGetName(ret, function) : code;
}

static CUresult occupancy(int *ret, const void *symbol, int block, size_t shared, unsigned flags)
{
  CUfunction function;
  CUresult code = with_function(symbol, &function);
  return code == CUDA_SUCCESS ? rt_driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                                    ret, function, block, shared, flags)
                              : code;
}

static CUresult available_shared(size_t *ret, const void *symbol, int blocks, int block)
{
  CUfunction function;
  CUresult code = with_function(symbol, &function);
  return code == CUDA_SUCCESS
             ? rt_driver.cuOccupancyAvailableDynamicSMemPerBlock(ret, function, blocks, block)
             : code;
}

RT_FN(cudaFuncSetAttribute, (const void *symbol, enum cudaFuncAttribute attribute, int value),
    set_attribute(symbol, attribute, value))
RT_FN(cudaFuncSetCacheConfig, (const void *symbol, enum cudaFuncCache config), set_cache(symbol, config))
RT_FN(cudaFuncGetName, (const char **ret, const void *symbol), get_name(ret, symbol))
RT_FN(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *ret, const void *symbol, int block, size_t shared),
    occupancy(ret, symbol, block, shared, 0))
RT_FN(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    (int *ret, const void *symbol, int block, size_t shared, unsigned int flags),
    occupancy(ret, symbol, block, shared, flags))
RT_FN(cudaOccupancyAvailableDynamicSMemPerBlock, (size_t * ret, const void *symbol, int blocks, int block),
    available_shared(ret, symbol, blocks, block))
