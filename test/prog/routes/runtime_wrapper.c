/*
 * A preload of the runtime's functions, as profilers and allocators have it: counts the calls, and tells at
 * the end.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>

static int calls;

cudaError_t cudaMalloc(void **ret, size_t bytes)
{
  cudaError_t (*next)(void **, size_t) = (cudaError_t(*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc");
  calls++;
  return next(ret, bytes);
}

cudaError_t cudaFree(void *block)
{
  cudaError_t (*next)(void *) = (cudaError_t(*)(void *))dlsym(RTLD_NEXT, "cudaFree");
  calls++;
  return next(block);
}

__attribute__((destructor)) static void tell(void)
{
  fprintf(stderr, "wrapper: %d calls\n", calls);
}
