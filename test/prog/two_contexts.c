/*
 * Memory of one context is freed while another is current and work on it is pending; the next allocation of
 * the first context must not be given it early, whatever the pool has to do in which context to find out, and
 * the program's context stays current.
 */
#include "calls.h"

#include <stdio.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES (16u << 20)

static void expect_current(CUcontext context)
{
  CUcontext current = NULL;
  CALL(cuCtxGetCurrent(&current));
  if (current != context)
    printf("another context is current\n");
}

int main(void)
{
  CUcontext first, second;
  CUdeviceptr freed, copied, other, next;
  CUstream stream;
  unsigned char host[64];

  CALL(cuInit(0));
  CALL(cuCtxCreate_v2(&first, 0, 0));
  CALL(cuCtxCreate_v2(&second, 0, 0));
  CALL(cuCtxSetCurrent(first));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuMemAlloc_v2(&freed, BYTES));
  CALL(cuMemAlloc_v2(&copied, BYTES));
  CALL(cuMemsetD8Async(freed, 1, BYTES, stream));
  CALL(cuMemcpyDtoDAsync_v2(copied, freed, BYTES, stream));

  CALL(cuCtxSetCurrent(second));
  CALL(cuMemFree_v2(freed));
  expect_current(second);
  CALL(cuMemAlloc_v2(&other, BYTES));
  expect_current(second);

  CALL(cuMemFreeAsync(other, stream));
  expect_current(second);

  CALL(cuCtxSetCurrent(first));
  CALL(cuMemAlloc_v2(&next, BYTES));
  CALL(cuMemsetD8_v2(next, 2, BYTES));
  CALL(cuStreamSynchronize(stream));
  CALL(cuMemcpyDtoH_v2(host, copied, sizeof(host)));
  CALL(cuMemFreeAsync(next, stream));
  expect_current(first);
  printf("the copy holds %d\n", host[0]);
  return host[0] != 1;
}
