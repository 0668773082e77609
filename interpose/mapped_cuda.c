/*
 * Physical memory of cuMemCreate. None of these calls needs a current context (cuda.h does not mention one),
 * and none waits for kernels (measured, doc/waits.md).
 */
#include "interpose/mapped_cuda.h"

#include "interpose/routes/real.h"

#define STEP (UINT64_C(2) << 20) /* pool/driver.h guarantees multiples of this */

static bool has_attribute(const gp_driver_context_t *context, CUdevice_attribute attribute)
{
  int value = 0;
  return GP_REAL_CALL(cuDeviceGetAttribute, &value, attribute, context->device) == CUDA_SUCCESS && value != 0;
}

/* Returns the properties of the pool's physical memory. They have no handle types, because the pool's memory
 * is never shared. They request access for network devices, which costs nothing. */
static CUmemAllocationProp properties_of(const gp_driver_context_t *context)
{
  CUmemAllocationProp properties = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = context->device},
  };
  if (has_attribute(context, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
    properties.allocFlags.gpuDirectRDMACapable = 1;
  return properties;
}

/* Returns true if the driver is 10.2 or later and the device can map memory with a granularity that divides
 * STEP. */
static bool can_map(const gp_driver_context_t *context)
{
  size_t granularity = 0;

  if (!GP_REAL(cuMemAddressReserve) || !GP_REAL(cuMemAddressFree) || !GP_REAL(cuMemCreate) ||
      !GP_REAL(cuMemRelease) || !GP_REAL(cuMemMap) || !GP_REAL(cuMemUnmap) || !GP_REAL(cuMemSetAccess) ||
      !GP_REAL(cuMemGetAllocationGranularity) ||
      !has_attribute(context, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
    return false;
  const CUmemAllocationProp properties = properties_of(context);
  CUresult result = GP_REAL_CALL(
      cuMemGetAllocationGranularity, &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  return result == CUDA_SUCCESS && granularity > 0 && STEP % granularity == 0;
}

int gp_mapped_cuda_reserve(
    void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  CUdeviceptr pointer = 0;

  (void)self;
  if (!can_map(context))
    return CUDA_ERROR_NOT_SUPPORTED;
  CUresult result = GP_REAL_CALL(cuMemAddressReserve, &pointer, (size_t)bytes, (size_t)STEP, 0, 0);
  if (result == CUDA_SUCCESS)
    *ret_address = (uint64_t)pointer;
  return (int)result;
}

int gp_mapped_cuda_unreserve(void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes)
{
  (void)self;
  (void)context;
  return (int)GP_REAL_CALL(cuMemAddressFree, (CUdeviceptr)address, (size_t)bytes);
}

int gp_mapped_cuda_create(
    void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_handle)
{
  const CUmemAllocationProp properties = properties_of(context);
  CUmemGenericAllocationHandle handle;

  (void)self;
  CUresult result = GP_REAL_CALL(cuMemCreate, &handle, (size_t)bytes, &properties, 0);
  if (result == CUDA_SUCCESS)
    *ret_handle = (uint64_t)handle;
  return (int)result;
}

int gp_mapped_cuda_destroy(void *self, const gp_driver_context_t *context, uint64_t handle)
{
  (void)self;
  (void)context;
  return (int)GP_REAL_CALL(cuMemRelease, (CUmemGenericAllocationHandle)handle);
}

int gp_mapped_cuda_map(
    void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, uint64_t handle)
{
  (void)self;
  (void)context;
  return (int)GP_REAL_CALL(
      cuMemMap, (CUdeviceptr)address, (size_t)bytes, 0, (CUmemGenericAllocationHandle)handle, 0);
}

int gp_mapped_cuda_unmap(void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes)
{
  (void)self;
  (void)context;
  return (int)GP_REAL_CALL(cuMemUnmap, (CUdeviceptr)address, (size_t)bytes);
}

/* Some drivers (WSL2) return CUDA_ERROR_NOT_READY while another thread submits work: the call is repeated. */
#define ALLOW_TRIES 3

int gp_mapped_cuda_allow(
    void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, int device)
{
  const CUmemAccessDesc access = {
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
  };

  (void)self;
  (void)context;
  CUresult result = CUDA_ERROR_NOT_READY;
  for (int i = 0; i < ALLOW_TRIES && result == CUDA_ERROR_NOT_READY; i++)
    result = GP_REAL_CALL(cuMemSetAccess, (CUdeviceptr)address, (size_t)bytes, &access, 1);
  return (int)result;
}
