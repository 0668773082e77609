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
