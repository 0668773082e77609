/*
 * A pair and a synchronization by the CUDA runtime in stream order, for subject_cuda.c: in a stream that does
 * not block, or with BENCH_STREAM=legacy in the default one.
 */
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "subject.h"

static cudaStream_t stream;

/* The first call is subject_start's, in the only thread. */
static void make_stream(void)
{
  static bool is_made;
  const char *wanted = getenv("BENCH_STREAM");

  if (is_made)
    return;
  is_made = true;
  if (!wanted && cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
    abort();
}

uint64_t subject_take(uint64_t bytes)
{
  void *block;
  make_stream();
  if (cudaMallocAsync(&block, bytes, stream) != cudaSuccess)
    abort();
  return (uint64_t)(uintptr_t)block;
}

void subject_give(uint64_t address)
{
  if (cudaFreeAsync((void *)(uintptr_t)address, stream) != cudaSuccess)
    abort();
}

void subject_synchronize(void)
{
  if (cudaDeviceSynchronize() != cudaSuccess)
    abort();
}
