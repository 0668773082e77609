/*
 * Ways of a driver that the simulated one does not have, preloaded behind the library, in front of it: a call
 * of the driver that calls the driver again, through whatever stands in front, and a way to it that nothing
 * stands in front of.
 */
#include <dlfcn.h>
#include <stddef.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

CUresult unseen_reset(CUdevice device);

__attribute__((visibility("default"))) CUresult unseen_reset(CUdevice device)
{
  __typeof__(cuDevicePrimaryCtxReset_v2) *reset =
      (__typeof__(reset))dlsym(RTLD_NEXT, "cuDevicePrimaryCtxReset_v2");
  return reset ? reset(device) : CUDA_ERROR_NOT_FOUND;
}

__attribute__((visibility("default"))) CUresult cuDriverGetVersion(int *version)
{
  __typeof__(cuDriverGetVersion) *next = (__typeof__(next))dlsym(RTLD_NEXT, "cuDriverGetVersion");
  __typeof__(cuMemGetInfo_v2) *info = (__typeof__(info))dlsym(RTLD_DEFAULT, "cuMemGetInfo_v2");
  size_t available, total;
  if (info)
    (void)info(&available, &total); /* what it answers is not the point */
  return next ? next(version) : CUDA_ERROR_NOT_FOUND;
}
