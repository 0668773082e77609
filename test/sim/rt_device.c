/*
 * What a device says of itself, and error names.
 */
#include "rt.h"

#include <string.h>

RT_FN_INIT(cudaDeviceGetAttribute, (int *ret, enum cudaDeviceAttr attribute, int device),
    rt_driver.cuDeviceGetAttribute(ret, (CUdevice_attribute)attribute, device))
RT_FN_INIT(cudaDeviceGetPCIBusId, (char *text, int room, int device),
    rt_driver.cuDeviceGetPCIBusId(text, room, device))
RT_FN_INIT(cudaDeviceGetByPCIBusId, (int *ret, const char *text), rt_driver.cuDeviceGetByPCIBusId(ret, text))
RT_FN_INIT(cudaDeviceGetP2PAttribute, (int *ret, enum cudaDeviceP2PAttr attribute, int src, int dst),
    rt_driver.cuDeviceGetP2PAttribute(ret, (CUdevice_P2PAttribute)attribute, src, dst))

static int attribute(enum cudaDeviceAttr which, int device)
{
  int value = 0;
  (void)rt_driver.cuDeviceGetAttribute(
      &value, (CUdevice_attribute)which, device); /* 0 when the driver has no answer */
  return value;
}

static CUresult properties(struct cudaDeviceProp *p, int device)
{
  if (!p)
    return CUDA_ERROR_INVALID_VALUE;
  memset(p, 0, sizeof *p);
  CUresult code = rt_driver.cuDeviceGetName(p->name, sizeof p->name, device);
  if (code != CUDA_SUCCESS)
    return code;
  (void)rt_driver.cuDeviceGetUuid((CUuuid *)&p->uuid, device); /* the device exists, so these cannot fail */
  (void)rt_driver.cuDeviceTotalMem(&p->totalGlobalMem, device);
  p->sharedMemPerBlock = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerBlock, device);
  p->regsPerBlock = attribute(cudaDevAttrMaxRegistersPerBlock, device);
  p->warpSize = attribute(cudaDevAttrWarpSize, device);
  p->memPitch = (size_t)attribute(cudaDevAttrMaxPitch, device);
  p->maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock, device);
  p->maxThreadsDim[0] = attribute(cudaDevAttrMaxBlockDimX, device);
  p->maxThreadsDim[1] = attribute(cudaDevAttrMaxBlockDimY, device);
  p->maxThreadsDim[2] = attribute(cudaDevAttrMaxBlockDimZ, device);
  p->maxGridSize[0] = attribute(cudaDevAttrMaxGridDimX, device);
  p->maxGridSize[1] = attribute(cudaDevAttrMaxGridDimY, device);
  p->maxGridSize[2] = attribute(cudaDevAttrMaxGridDimZ, device);
  p->totalConstMem = (size_t)attribute(cudaDevAttrTotalConstantMemory, device);
  p->major = attribute(cudaDevAttrComputeCapabilityMajor, device);
  p->minor = attribute(cudaDevAttrComputeCapabilityMinor, device);
  p->textureAlignment = (size_t)attribute(cudaDevAttrTextureAlignment, device);
  p->texturePitchAlignment = (size_t)attribute(cudaDevAttrTexturePitchAlignment, device);
  p->multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount, device);
  p->canMapHostMemory = attribute(cudaDevAttrCanMapHostMemory, device);
  p->concurrentKernels = attribute(cudaDevAttrConcurrentKernels, device);
  p->pciBusID = attribute(cudaDevAttrPciBusId, device);
  p->pciDeviceID = attribute(cudaDevAttrPciDeviceId, device);
  p->pciDomainID = attribute(cudaDevAttrPciDomainId, device);
  p->tccDriver = attribute(cudaDevAttrTccDriver, device);
  p->asyncEngineCount = attribute(cudaDevAttrAsyncEngineCount, device);
  p->unifiedAddressing = attribute(cudaDevAttrUnifiedAddressing, device);
  p->memoryBusWidth = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
  p->l2CacheSize = attribute(cudaDevAttrL2CacheSize, device);
  p->maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device);
  p->streamPrioritiesSupported = attribute(cudaDevAttrStreamPrioritiesSupported, device);
  p->globalL1CacheSupported = attribute(cudaDevAttrGlobalL1CacheSupported, device);
  p->localL1CacheSupported = attribute(cudaDevAttrLocalL1CacheSupported, device);
  p->sharedMemPerMultiprocessor = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  p->regsPerMultiprocessor = attribute(cudaDevAttrMaxRegistersPerMultiprocessor, device);
  p->managedMemory = attribute(cudaDevAttrManagedMemory, device);
  p->multiGpuBoardGroupID = attribute(cudaDevAttrMultiGpuBoardGroupID, device);
  p->concurrentManagedAccess = attribute(cudaDevAttrConcurrentManagedAccess, device);
  p->computePreemptionSupported = attribute(cudaDevAttrComputePreemptionSupported, device);
  p->canUseHostPointerForRegisteredMem = attribute(cudaDevAttrCanUseHostPointerForRegisteredMem, device);
  p->cooperativeLaunch = attribute(cudaDevAttrCooperativeLaunch, device);
  p->sharedMemPerBlockOptin = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  p->maxBlocksPerMultiProcessor = attribute(cudaDevAttrMaxBlocksPerMultiprocessor, device);
  p->reservedSharedMemPerBlock = (size_t)attribute(cudaDevAttrReservedSharedMemoryPerBlock, device);
  return CUDA_SUCCESS;
}

RT_FN_INIT(cudaGetDeviceProperties, (struct cudaDeviceProp * p, int device), properties(p, device))

static CUresult choose(int *ret)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = 0;
  return CUDA_SUCCESS;
}

RT_FN_INIT(cudaChooseDevice, (int *ret, const struct cudaDeviceProp *wanted), choose(ret))

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
