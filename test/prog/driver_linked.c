/*
 * Shows a program linked to libcuda that calls the driver by its exported names, so that the dynamic linker,
 * not dlsym, decides which library serves cuMemAlloc_v2, cuMemFree_v2 and cuMemGetInfo_v2.
 */
#include "calls.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS                                                                                               \
  32 /* of 2 MiB and more: smaller ones share pages, which are free again when all in them are               \
      */
#define WORDS 1024

static size_t free_bytes(void)
{
  size_t available, total;
  CALL(cuMemGetInfo(&available, &total));
  if (available > total) {
    fprintf(stderr, "driver_linked: more memory is free than there is\n");
    exit(1);
  }
  return available;
}

/* Flags and priority are numbers both. */
static void check_stream(void)
{
  CUstream stream;
  unsigned flags = 0;
  int least, greatest, priority = 0;
  CALL(cuCtxGetStreamPriorityRange(&least, &greatest));
  CALL(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
  CALL(cuStreamGetFlags(stream, &flags));
  CALL(cuStreamGetPriority(stream, &priority));
  if (flags != CU_STREAM_NON_BLOCKING || priority != greatest) {
    fprintf(stderr, "driver_linked: the stream has other flags or another priority\n");
    exit(1);
  }
  CALL(cuStreamDestroy(stream));
}

int main(void)
{
  CUdevice device;
  CUcontext context;
  CALL(cuInit(0));
  CALL(cuDeviceGet(&device, 0));
  CALL(cuDevicePrimaryCtxRetain(&context, device));
  CALL(cuCtxSetCurrent(context));
  check_stream();

  static unsigned host[WORDS];
  CUdeviceptr blocks[BLOCKS];
  size_t before = free_bytes(), held = 0;
  unsigned wrong = 0;
  for (int round = 0; round < 10; round++) {
    held = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
      size_t bytes = (size_t)(i + 2) << 20;
      CALL(cuMemAlloc(&blocks[i], bytes));
      CALL(cuMemsetD32(blocks[i] + bytes - sizeof(host), i + 1, WORDS));
      held += bytes;
    }
    wrong += free_bytes() > before - held;
    for (unsigned i = 0; i < BLOCKS; i++) {
      size_t bytes = (size_t)(i + 2) << 20;
      CALL(cuMemcpyDtoH(host, blocks[i] + bytes - sizeof(host), sizeof(host)));
      for (unsigned k = 0; k < WORDS; k++)
        wrong += host[k] != i + 1;
      CALL(cuMemFree(blocks[i]));
    }
  }
  printf("driver_linked: held=%zu wrong=%u all_free_again=%s\n", held, wrong,
      free_bytes() >= before ? "yes" : "no");
  CALL(cuDevicePrimaryCtxRelease(device));
  return wrong > 0;
}
