/*
 * Linked to the driver, and its first call is cuGetProcAddress: before cuInit, and with no dlsym that could
 * have found the driver before. Then it allocates with what it was given.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdio.h>

CUresult CUDAAPI linked_lookup(const char *, void **, int, cuuint64_t, int *) __asm__("cuGetProcAddress_v2");

int main(void)
{
  CUdevice device;
  CUcontext context;
  CUdeviceptr pointer = 0;
  CUresult(CUDAAPI * alloc)(CUdeviceptr *, size_t) = NULL;
  int result = linked_lookup("cuMemAlloc", (void **)&alloc, 12000, 0, NULL);

  printf("linked_lookup: %d\n", result);
  if (!alloc || cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
      cuCtxSetCurrent(context))
    return 1;
  printf("linked_lookup: allocation %d\n", (int)alloc(&pointer, 1 << 20));
  return 0;
}
