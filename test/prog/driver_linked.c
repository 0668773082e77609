/*
 * Shows a program linked to libcuda that calls the driver by its exported names, so that the dynamic linker,
 * not dlsym, decides which library serves cuMemAlloc_v2, cuMemFree_v2 and cuMemGetInfo_v2.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS                                                                                               \
  32 /* of 2 MiB and more: smaller ones share pages, which are free again when all in them are               \
      */
#define WORDS 1024

static void must(const char *what, CUresult result)
{
  const char *name = NULL;
  if (result == CUDA_SUCCESS)
    return;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    name = "unknown";
  fprintf(stderr, "driver_linked: %s failed: %s\n", what, name);
  exit(1);
}

static size_t free_bytes(void)
{
  size_t available, total;
  must("cuMemGetInfo", cuMemGetInfo(&available, &total));
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
  must("cuCtxGetStreamPriorityRange", cuCtxGetStreamPriorityRange(&least, &greatest));
  must("cuStreamCreateWithPriority", cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
  must("cuStreamGetFlags", cuStreamGetFlags(stream, &flags));
  must("cuStreamGetPriority", cuStreamGetPriority(stream, &priority));
  if (flags != CU_STREAM_NON_BLOCKING || priority != greatest) {
    fprintf(stderr, "driver_linked: the stream has other flags or another priority\n");
    exit(1);
  }
  must("cuStreamDestroy", cuStreamDestroy(stream));
}

int main(void)
{
  CUdevice device;
  CUcontext context;
  must("cuInit", cuInit(0));
  must("cuDeviceGet", cuDeviceGet(&device, 0));
  must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
  must("cuCtxSetCurrent", cuCtxSetCurrent(context));
  check_stream();

  static unsigned host[WORDS];
  CUdeviceptr blocks[BLOCKS];
  size_t before = free_bytes(), held = 0;
  unsigned wrong = 0;
  for (int round = 0; round < 10; round++) {
    held = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
      size_t bytes = (size_t)(i + 2) << 20;
      must("cuMemAlloc", cuMemAlloc(&blocks[i], bytes));
      must("cuMemsetD32", cuMemsetD32(blocks[i] + bytes - sizeof(host), i + 1, WORDS));
      held += bytes;
    }
    wrong += free_bytes() > before - held;
    for (unsigned i = 0; i < BLOCKS; i++) {
      size_t bytes = (size_t)(i + 2) << 20;
      must("cuMemcpyDtoH", cuMemcpyDtoH(host, blocks[i] + bytes - sizeof(host), sizeof(host)));
      for (unsigned k = 0; k < WORDS; k++)
        wrong += host[k] != i + 1;
      must("cuMemFree", cuMemFree(blocks[i]));
    }
  }
  printf("driver_linked: held=%zu wrong=%u all_free_again=%s\n", held, wrong,
      free_bytes() >= before ? "yes" : "no");
  must("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease(device));
  return wrong > 0;
}
