/*
 * External memory: memory of another interface that a descriptor stands for. What the descriptor names is not
 * looked at; importing charges the size that the program states, mapped buffers are empty ranges of their
 * own.
 */
#include "sim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct CUextMemory_st {
  sim_ctx_t *ctx;
  uint64_t size, charged;
  int fd; /* owned */
  struct CUextMemory_st *next;
};

static struct CUextMemory_st *objects;

static struct CUextMemory_st **find(CUexternalMemory handle)
{
  struct CUextMemory_st **link = &objects;
  while (*link && *link != handle)
    link = &(*link)->next;
  return link;
}

static void drop(struct CUextMemory_st **link)
{
  struct CUextMemory_st *object = *link;
  *link = object->next;
  sim_device_credit(object->ctx->device, object->charged);
  close(object->fd);
  free(object);
}

void sim_external_drop_context(const sim_ctx_t *ctx)
{
  for (struct CUextMemory_st **link = &objects; *link;) {
    if ((*link)->ctx == ctx)
      drop(link);
    else
      link = &(*link)->next;
  }
}

/* "Ownership of the file descriptor is transferred to the CUDA driver when the handle is imported
 * successfully" (cuda.h). */
static CUresult import(sim_call_t *call, CUexternalMemory *ret, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
  if (!ret || !desc || desc->size == 0 || (desc->flags & ~(unsigned)CUDA_EXTERNAL_MEMORY_DEDICATED))
    return CUDA_ERROR_INVALID_VALUE;
  if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (fcntl(desc->handle.fd, F_GETFD) < 0)
    return CUDA_ERROR_INVALID_HANDLE;
  uint64_t charged = sim_device_bytes_taken(desc->size);
  if (charged < desc->size || !sim_device_charge(call->ctx->device, charged))
    return CUDA_ERROR_OUT_OF_MEMORY;
  struct CUextMemory_st *object = calloc(1, sizeof *object);
  if (!object)
    abort();
  *object = (struct CUextMemory_st){call->ctx, desc->size, charged, desc->handle.fd, objects};
  objects = object;
  *ret = object;
  return CUDA_SUCCESS;
}

SIM_FN(cuImportExternalMemory, (CUexternalMemory * ret, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc),
    import(&call, ret, desc), "%d %llu", desc ? (int)desc->type : 0, desc ? desc->size : 0)

static CUresult map_buffer(
    sim_call_t *call, CUdeviceptr *ret, CUexternalMemory handle, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
  const struct CUextMemory_st *object = *find(handle);
  CUresult result;
  if (!object)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!ret || !desc || desc->flags || desc->size == 0 || desc->offset > object->size ||
      desc->size > object->size - desc->offset)
    return CUDA_ERROR_INVALID_VALUE;
  sim_device_t *device = object->ctx->device;
  sim_block_t *block =
      sim_block_new(&device->arena, device, object->ctx, SIM_MEM_EXTERNAL, desc->size, false, &result);
  if (block)
    *ret = block->node.key;
  return result;
}

SIM_FN(cuExternalMemoryGetMappedBuffer,
    (CUdeviceptr * ret, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc),
    map_buffer(&call, ret, memory, desc), "%llu %llu -> %llx", desc ? desc->offset : 0, desc ? desc->size : 0,
    sim_str_out(ret, call.result))

/* Buffers "must be explicitly freed" and stay until they are (cuda.h). */
static CUresult destroy(CUexternalMemory handle)
{
  struct CUextMemory_st **link = find(handle);
  if (!*link)
    return CUDA_ERROR_INVALID_HANDLE;
  drop(link);
  return CUDA_SUCCESS;
}

SIM_FN(cuDestroyExternalMemory, (CUexternalMemory memory), destroy(memory), " ")
