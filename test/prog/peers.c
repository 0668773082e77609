/*
 * Memory that was there before a context of another device was given access to it: peers none|late DEVICE.
 * DEVICE, 0 or 1, is that of the memory.
 */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES ((size_t)2 << 20)

int main(int argc, char **argv)
{
  CUdevice device = argc > 2 ? atoi(argv[2]) : 0;
  CUcontext owner, peer;
  CUdeviceptr block;

  CALL(cuInit(0));
  CALL(cuCtxCreate_v2(&owner, 0, device));
  CALL(cuMemAlloc_v2(&block, BYTES));
  CALL(cuCtxCreate_v2(&peer, 0, 1 - device));
  if (argc > 1 && strcmp(argv[1], "late") == 0)
    CALL(cuCtxEnablePeerAccess(owner, 0));
  CALL(cuCtxSetCurrent(owner));
  CALL(cuMemFree_v2(block));
  return 0;
}
