/*
 * A pair and a synchronization by the CUDA runtime, whatever stands behind it: for subject_cuda.c and
 * subject_runtime.c.
 */
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "subject.h"

uint64_t subject_take(uint64_t bytes)
{
  void *block;
  if (cudaMalloc(&block, bytes) != cudaSuccess)
    abort();
  return (uint64_t)(uintptr_t)block;
}

void subject_give(uint64_t address)
{
  if (cudaFree((void *)(uintptr_t)address) != cudaSuccess)
    abort();
}

void subject_synchronize(void)
{
  if (cudaDeviceSynchronize() != cudaSuccess)
    abort();
}
