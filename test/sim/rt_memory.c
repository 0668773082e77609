/*
 * Allocations, and what is known about pointers.
 */
#include "rt.h"

#include <string.h>

/* "If size is 0" nothing is allocated and the pointer is NULL. */
static CUresult malloc_device(void **ret, size_t bytes)
{
  CUdeviceptr address = 0;
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult code = bytes ? rt_driver.cuMemAlloc(&address, bytes) : CUDA_SUCCESS;
  if (code == CUDA_SUCCESS)
    *ret = (void *)(uintptr_t)address;
  return code;
}

RT_FN(cudaMalloc, (void **ret, size_t bytes), malloc_device(ret, bytes))
RT_FN(cudaFree, (void *p), p ? rt_driver.cuMemFree(rt_address(p)) : CUDA_SUCCESS)

static CUresult malloc_managed(void **ret, size_t bytes, unsigned flags)
{
  CUdeviceptr address = 0;
  if (!ret || bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult code = rt_driver.cuMemAllocManaged(&address, bytes, flags);
  if (code == CUDA_SUCCESS)
    *ret = (void *)(uintptr_t)address;
  return code;
}

RT_FN(cudaMallocManaged, (void **ret, size_t bytes, unsigned int flags), malloc_managed(ret, bytes, flags))

static CUresult malloc_pitch(void **ret, size_t *ret_pitch, size_t width, size_t height)
{
  CUdeviceptr address = 0;
  if (!ret || !ret_pitch)
    return CUDA_ERROR_INVALID_VALUE;
  if (width == 0 || height == 0) {
    *ret = NULL;
    *ret_pitch = 0;
    return CUDA_SUCCESS;
  }
  CUresult code = rt_driver.cuMemAllocPitch(&address, ret_pitch, width, height, 4);
  if (code == CUDA_SUCCESS)
    *ret = (void *)(uintptr_t)address;
  return code;
}

RT_FN(cudaMallocPitch, (void **ret, size_t *pitch, size_t width, size_t height),
    malloc_pitch(ret, pitch, width, height))

static CUresult malloc_3d(struct cudaPitchedPtr *ret, struct cudaExtent extent)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  ret->xsize = extent.width;
  ret->ysize = extent.height;
  return malloc_pitch(&ret->ptr, &ret->pitch, extent.width, extent.height * extent.depth);
}

RT_FN(cudaMalloc3D, (struct cudaPitchedPtr * ret, struct cudaExtent extent), malloc_3d(ret, extent))

static CUresult host_alloc(void **ret, size_t bytes, unsigned flags)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {
    *ret = NULL;
    return CUDA_SUCCESS;
  }
  return rt_driver.cuMemHostAlloc(ret, bytes, flags);
}

RT_FN(cudaMallocHost, (void **ret, size_t bytes), host_alloc(ret, bytes, 0))
RT_FN(cudaHostAlloc, (void **ret, size_t bytes, unsigned int flags), host_alloc(ret, bytes, flags))
RT_FN(cudaFreeHost, (void *p), p ? rt_driver.cuMemFreeHost(p) : CUDA_SUCCESS)
RT_FN(cudaHostRegister, (void *p, size_t bytes, unsigned int flags),
    rt_driver.cuMemHostRegister(p, bytes, flags))
RT_FN(cudaHostUnregister, (void *p), rt_driver.cuMemHostUnregister(p))
RT_FN(cudaHostGetDevicePointer, (void **ret, void *p, unsigned int flags),
    rt_driver.cuMemHostGetDevicePointer((CUdeviceptr *)ret, p, flags))
RT_FN(cudaHostGetFlags, (unsigned int *ret, void *p), rt_driver.cuMemHostGetFlags(ret, p))
RT_FN(cudaMemGetInfo, (size_t * ret_free, size_t *ret_total), rt_driver.cuMemGetInfo(ret_free, ret_total))

/* ---- stream-ordered ---- */

static CUresult malloc_async(void **ret, size_t bytes, cudaStream_t stream, bool per_thread)
{
  CUdeviceptr address = 0;
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult code = bytes ? PICK(cuMemAllocAsync)(&address, bytes, stream) : CUDA_SUCCESS;
  if (code == CUDA_SUCCESS)
    *ret = (void *)(uintptr_t)address;
  return code;
}

static CUresult malloc_from_pool(
    void **ret, size_t bytes, cudaMemPool_t pool, cudaStream_t stream, bool per_thread)
{
  CUdeviceptr address = 0;
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult code = bytes ? PICK(cuMemAllocFromPoolAsync)(&address, bytes, pool, stream) : CUDA_SUCCESS;
  if (code == CUDA_SUCCESS)
    *ret = (void *)(uintptr_t)address;
  return code;
}

RT_FN2(cudaMallocAsync, cudaMallocAsync_ptsz, (void **ret, size_t bytes, cudaStream_t stream),
    malloc_async(ret, bytes, stream, per_thread))
RT_FN2(cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz,
    (void **ret, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
    malloc_from_pool(ret, bytes, pool, stream, per_thread))
RT_FN2(cudaFreeAsync, cudaFreeAsync_ptsz, (void *p, cudaStream_t stream),
    p ? PICK(cuMemFreeAsync)(rt_address(p), stream) : CUDA_SUCCESS)

RT_FN_INIT(cudaMemPoolCreate, (cudaMemPool_t * ret, const struct cudaMemPoolProps *props),
    rt_driver.cuMemPoolCreate(ret, (const CUmemPoolProps *)props))
RT_FN_INIT(cudaMemPoolDestroy, (cudaMemPool_t pool), rt_driver.cuMemPoolDestroy(pool))
RT_FN_INIT(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep), rt_driver.cuMemPoolTrimTo(pool, keep))
RT_FN_INIT(cudaMemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
    rt_driver.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value))
RT_FN_INIT(cudaMemPoolGetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
    rt_driver.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value))
RT_FN_INIT(cudaMemPoolSetAccess, (cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count),
    rt_driver.cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)list, count))
RT_FN_INIT(cudaMemPoolGetAccess,
    (enum cudaMemAccessFlags * ret, cudaMemPool_t pool, struct cudaMemLocation *location),
    rt_driver.cuMemPoolGetAccess((CUmemAccess_flags *)ret, pool, (CUmemLocation *)location))
RT_FN_INIT(cudaMemPoolExportToShareableHandle,
    (void *ret, cudaMemPool_t pool, enum cudaMemAllocationHandleType type, unsigned int flags),
    rt_driver.cuMemPoolExportToShareableHandle(ret, pool, (CUmemAllocationHandleType)type, flags))
RT_FN_INIT(cudaMemPoolImportFromShareableHandle,
    (cudaMemPool_t * ret, void *handle, enum cudaMemAllocationHandleType type, unsigned int flags),
    rt_driver.cuMemPoolImportFromShareableHandle(ret, handle, (CUmemAllocationHandleType)type, flags))
RT_FN_INIT(cudaMemPoolExportPointer, (struct cudaMemPoolPtrExportData * ret, void *p),
    rt_driver.cuMemPoolExportPointer((CUmemPoolPtrExportData *)ret, rt_address(p)))
RT_FN_INIT(cudaMemPoolImportPointer, (void **ret, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data),
    rt_driver.cuMemPoolImportPointer((CUdeviceptr *)ret, pool, (CUmemPoolPtrExportData *)data))
RT_FN_INIT(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * ret, int device),
    rt_driver.cuDeviceGetDefaultMemPool(ret, device))
RT_FN_INIT(cudaDeviceGetMemPool, (cudaMemPool_t * ret, int device), rt_driver.cuDeviceGetMemPool(ret, device))
RT_FN_INIT(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), rt_driver.cuDeviceSetMemPool(device, pool))

/* ---- pointers ---- */

/* What 13 has behind it is not the program's to lose where it was built with an older structure. */
#define BYTES_BEFORE_13 (offsetof(struct cudaPointerAttributes, hostPointer) + sizeof(void *))

static CUresult pointer_attributes(struct cudaPointerAttributes *ret, const void *p)
{
  unsigned type = 0, managed = 0;
  int device = -1;
  void *device_pointer = NULL, *host_pointer = NULL;
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
      CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void *data[] = {&type, &managed, &device, &device_pointer, &host_pointer};
  CUresult code = rt_driver.cuPointerGetAttributes(5, wanted, data, rt_address(p));
  if (code != CUDA_SUCCESS)
    return code;
  memset(ret, 0, RT_MAJOR >= 13 ? sizeof *ret : BYTES_BEFORE_13);
  ret->type = managed                        ? cudaMemoryTypeManaged
              : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
              : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                                             : cudaMemoryTypeUnregistered;
  ret->device = device;
  ret->devicePointer = device_pointer;
  ret->hostPointer = ret->type == cudaMemoryTypeUnregistered ? (void *)(uintptr_t)p : host_pointer;
  return CUDA_SUCCESS;
}

RT_FN(
    cudaPointerGetAttributes, (struct cudaPointerAttributes * ret, const void *p), pointer_attributes(ret, p))

RT_FN(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * ret, void *p),
    rt_driver.cuIpcGetMemHandle((CUipcMemHandle *)ret, rt_address(p)))

static CUresult ipc_open(void **ret, cudaIpcMemHandle_t handle, unsigned flags)
{
  CUipcMemHandle copy;
  CUdeviceptr address = 0;
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(&copy, &handle, sizeof copy);
  CUresult code = rt_driver.cuIpcOpenMemHandle_11000(&address, copy, flags);
  if (code == CUDA_SUCCESS)
    *ret = (void *)(uintptr_t)address;
  return code;
}

RT_FN(cudaIpcOpenMemHandle, (void **ret, cudaIpcMemHandle_t handle, unsigned int flags),
    ipc_open(ret, handle, flags))
RT_FN(cudaIpcCloseMemHandle, (void *p), rt_driver.cuIpcCloseMemHandle(rt_address(p)))
