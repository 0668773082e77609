/*
 * The CUDA runtime: with libgpupool.so preloaded the whole way through the library, without it the simulated
 * driver's own allocator.
 */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <time.h>

#include "subject.h"

const uint32_t subject_largest = 8u << 20;

void subject_start(bool is_counted)
{
  if (cudaFree(NULL) != cudaSuccess)
    abort();
  subject_give(subject_take(1));
  if (!is_counted)
    nanosleep(&(struct timespec){0, SUBJECT_CLOCK_LEARNS_NS}, NULL);
}

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
