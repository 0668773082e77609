/*
 * Takes and frees memory beside work of two streams, in rounds, then frees all that it has: held. It makes no
 * call that a fence of a pool needs, so that a driver call of that name which fails is none of its own. Of
 * its two references to the context it gives one up, and the context stays. Prints how many frees there were,
 * how many of them were refused, and the code of the last one that was.
 */
#include "calls.h"

#include <stdio.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BLOCKS 24
#define ROUNDS 12
#define BYTES  ((size_t)2 << 20) /* whole pages: what the device gives is what was asked for */

static CUdeviceptr blocks[BLOCKS];
static CUstream streams[2];
static int frees, refused, last;

static void take(int i, size_t bytes)
{
  CALL(cuMemAlloc_v2(&blocks[i], bytes));
  CALL(cuMemsetD8Async(blocks[i], (unsigned char)i, 4096, streams[i % 2]));
}

static void give(int i)
{
  CUresult result = cuMemFree_v2(blocks[i]);
  frees++;
  if (result != CUDA_SUCCESS) {
    refused++;
    last = (int)result;
  }
}

int main(void)
{
  CUcontext context;

  CALL(cuInit(0));
  for (int i = 0; i < 2; i++)
    CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  for (int i = 0; i < 2; i++)
    CALL(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < BLOCKS; i++)
    take(i, BYTES * (size_t)(1 + i % 3));
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = round % 3; i < BLOCKS; i += 3) {
      give(i);
      take(i, BYTES * (size_t)(1 + (i + round) % 3));
    }
    if (round % 4 == 3)
      CALL(cuStreamSynchronize(streams[round % 2]));
  }
  CALL(cuDevicePrimaryCtxRelease_v2(0));
  for (int i = 0; i < BLOCKS; i++)
    give(i);
  printf("frees=%d refused=%d last=%d\n", frees, refused, last);
  return 0;
}
