/*
 * What a device says of itself (but rt_device_prop.c), and error names.
 */
#include "rt.h"

RT_FN_INIT(cudaDeviceGetAttribute, (int *ret, enum cudaDeviceAttr attribute, int device),
    rt_driver.cuDeviceGetAttribute(ret, (CUdevice_attribute)attribute, device))
RT_FN_INIT(cudaDeviceGetPCIBusId, (char *text, int room, int device),
    rt_driver.cuDeviceGetPCIBusId(text, room, device))
RT_FN_INIT(cudaDeviceGetByPCIBusId, (int *ret, const char *text), rt_driver.cuDeviceGetByPCIBusId(ret, text))
RT_FN_INIT(cudaDeviceGetP2PAttribute, (int *ret, enum cudaDeviceP2PAttr attribute, int src, int dst),
    rt_driver.cuDeviceGetP2PAttribute(ret, (CUdevice_P2PAttribute)attribute, src, dst))

/* ---- errors ---- */

static const struct {
  const char *name;
  int code;
} errors[] = {
#define RT_ERROR(name, code) {#name, code},
#include "rt_errors.def"
#undef RT_ERROR
};

const char *CUDARTAPI cudaGetErrorName(cudaError_t error)
{
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    if (errors[i].code == (int)error)
      return errors[i].name;
  }
  return "unrecognized error code";
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t error)
{
  switch ((int)error) {
  case cudaSuccess: return "no error";
  case cudaErrorInvalidValue: return "invalid argument";
  case cudaErrorMemoryAllocation: return "out of memory";
  case cudaErrorInitializationError: return "initialization error";
  case cudaErrorCudartUnloading: return "driver shutting down";
  case cudaErrorNoDevice: return "no CUDA-capable device is detected";
  case cudaErrorInvalidDevice: return "invalid device ordinal";
  case cudaErrorNotReady: return "device not ready";
  case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
  default: return cudaGetErrorName(error);
  }
}
