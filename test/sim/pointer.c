/*
 * What the driver knows about an address.
 */
#include "sim.h"

#include <string.h>
#include <sys/mman.h>

static CUresult attribute(
    void *data, CUpointer_attribute attribute, const sim_block_t *block, CUdeviceptr address)
{
  bool host = block->kind == SIM_MEM_HOST || block->kind == SIM_MEM_REGISTERED || block->on_host;
  bool managed = block->kind == SIM_MEM_MANAGED;
  switch ((int)attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = block->ctx; break;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = address; break;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    if (!host && !managed)
      return CUDA_ERROR_INVALID_VALUE;
    *(void **)data = (void *)(uintptr_t)address;
    break;
  case CU_POINTER_ATTRIBUTE_P2P_TOKENS: memset(data, 0, 16); break;
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)data = block->sync_memops; break;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)data = block->id; break;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = managed; break;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = block->device->ordinal; break;
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    *(unsigned *)data = block->kind == SIM_MEM_DEVICE;
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = block->node.key; break;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = block->requested; break;
  case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)data = 1; break;
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(unsigned long long *)data = 0; break;
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *(unsigned *)data = !host; break;
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    *(unsigned *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    break;
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)data = block->pool; break;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

static sim_block_t *find(CUdeviceptr address)
{
  sim_block_t *block = sim_arena_find(address);
  return block && !block->free_called ? block : NULL;
}

static CUresult get(void *data, CUpointer_attribute attrib, CUdeviceptr address)
{
  const sim_block_t *block = find(address);
  if (!data || !block)
    return CUDA_ERROR_INVALID_VALUE;
  return attribute(data, attrib, block, address);
}

SIM_FN(cuPointerGetAttribute, (void *data, CUpointer_attribute attrib, CUdeviceptr address),
    get(data, attrib, address), "%d %s", (int)attrib, sim_str_ptr(address))

/* "Unlike cuPointerGetAttribute, this function will not return an error" for an unknown pointer: the
 * attributes get defaults (cuda.h). */
static CUresult get_many(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
  const sim_block_t *block = find(address);
  if (count == 0 || !attributes || !data)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++) {
    if (!data[i])
      continue;
    if (block && attribute(data[i], attributes[i], block, address) == CUDA_SUCCESS)
      continue;
    switch ((int)attributes[i]) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: memset(data[i], 0, 8); break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS: memset(data[i], 0, 16); break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data[i] = -2; break;
    default: memset(data[i], 0, 4);
    }
  }
  return CUDA_SUCCESS;
}

SIM_FN(cuPointerGetAttributes,
    (unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr address),
    get_many(count, attributes, data, address), "%u %s", count, sim_str_ptr(address))

static CUresult set(const void *value, CUpointer_attribute attrib, CUdeviceptr address)
{
  sim_block_t *block = find(address);
  if (!value || !block || attrib != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    return CUDA_ERROR_INVALID_VALUE;
  block->sync_memops = *(const unsigned *)value != 0;
  return CUDA_SUCCESS;
}

SIM_FN(cuPointerSetAttribute, (const void *value, CUpointer_attribute attrib, CUdeviceptr address),
    set(value, attrib, address), "%d %s", (int)attrib, sim_str_ptr(address))

static CUresult dma_buf(void *ret, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type)
{
  const sim_block_t *block = find(address);
  if (!ret || !block || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || bytes == 0 ||
      bytes > block->node.key + block->size - address)
    return CUDA_ERROR_INVALID_VALUE;
  int fd = memfd_create("simulated-dma-buf", MFD_CLOEXEC);
  if (fd < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  *(int *)ret = fd;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemGetHandleForAddressRange,
    (void *ret, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type, unsigned long long flags),
    dma_buf(ret, address, bytes, type), "%s %zu %d", sim_str_ptr(address), bytes, (int)type)
