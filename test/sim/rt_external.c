/*
 * External memory.
 */
#include "rt.h"

/* The handle is a union in both; of its members only the descriptor is of use on Linux. */
static CUresult import(cudaExternalMemory_t *ret, const struct cudaExternalMemoryHandleDesc *desc)
{
  if (!desc)
    return CUDA_ERROR_INVALID_VALUE;
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC full = {.type = (CUexternalMemoryHandleType)desc->type,
      .handle = {.fd = desc->handle.fd},
      .size = desc->size,
      .flags = desc->flags};
  return rt_driver.cuImportExternalMemory((CUexternalMemory *)ret, &full);
}

RT_FN(cudaImportExternalMemory, (cudaExternalMemory_t * ret, const struct cudaExternalMemoryHandleDesc *desc),
    import(ret, desc))

static CUresult map_buffer(
    void **ret, cudaExternalMemory_t memory, const struct cudaExternalMemoryBufferDesc *desc)
{
  CUdeviceptr address = 0;
  if (!ret || !desc)
    return CUDA_ERROR_INVALID_VALUE;
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC full = {.offset = desc->offset, .size = desc->size, .flags = desc->flags};
  CUresult code = rt_driver.cuExternalMemoryGetMappedBuffer(&address, (CUexternalMemory)memory, &full);
  if (code == CUDA_SUCCESS)
    *ret = (void *)(uintptr_t)address;
  return code;
}

RT_FN(cudaExternalMemoryGetMappedBuffer,
    (void **ret, cudaExternalMemory_t memory, const struct cudaExternalMemoryBufferDesc *desc),
    map_buffer(ret, memory, desc))
RT_FN(cudaDestroyExternalMemory, (cudaExternalMemory_t memory),
    rt_driver.cuDestroyExternalMemory((CUexternalMemory)memory))
