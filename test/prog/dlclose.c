/*
 * Shows a program that loads the CUDA driver itself and lets go of it again, each time with memory that it
 * has not freed. Whether it is then really unloaded is the loader's business. Prints codes and no address.
 */
#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES      (256u << 10)
#define FIND(name) __typeof__(name) *p_##name = (__typeof__(name) *)dlsym(driver, #name)

static int round_trip(void)
{
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  CUcontext context;
  CUdeviceptr left, block;
  if (!driver) {
    printf("%s\n", dlerror());
    return 1;
  }
  FIND(cuInit);
  FIND(cuDevicePrimaryCtxRetain);
  FIND(cuDevicePrimaryCtxRelease_v2);
  FIND(cuCtxSetCurrent);
  FIND(cuCtxSynchronize);
  FIND(cuMemAlloc_v2);
  FIND(cuMemFree_v2);
  SAY(p_cuInit(0));
  SAY(p_cuDevicePrimaryCtxRetain(&context, 0));
  SAY(p_cuCtxSetCurrent(context));
  SAY(p_cuMemAlloc_v2(&left, BYTES));
  for (int i = 0; i < 3; i++) {
    SAY(p_cuMemAlloc_v2(&block, BYTES));
    SAY(p_cuMemFree_v2(block));
    SAY(p_cuCtxSynchronize());
  }
  SAY(p_cuDevicePrimaryCtxRelease_v2(0));
  SAY(dlclose(driver));
  return 0;
}

int main(void)
{
  for (int i = 0; i < 3; i++)
    if (round_trip())
      return 1;
  return 0;
}
