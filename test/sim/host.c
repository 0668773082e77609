/*
 * Pinned host memory. It has an arena of its own, so its addresses are the same in every run.
 */
#include "sim.h"

#include <stdlib.h>

static CUresult alloc(sim_call_t *call, void **ret, size_t bytes, unsigned flags)
{
  CUresult result;
  if (!ret || bytes == 0 || (flags & ~7u))
    return CUDA_ERROR_INVALID_VALUE;
  sim_block_t *block =
      sim_block_new(&sim_host_arena, call->ctx->device, call->ctx, SIM_MEM_HOST, bytes, false, &result);
  if (block) {
    block->flags = flags;
    sim_block_dirty_all(block);
    *ret = (void *)(uintptr_t)block->node.key;
  }
  return result;
}

SIM_FN(cuMemAllocHost, (void **ret, unsigned int bytes), alloc(&call, ret, bytes, 0), "%u", bytes)
SIM_FN(cuMemAllocHost_v2, (void **ret, size_t bytes), alloc(&call, ret, bytes, 0), "%zu", bytes)
SIM_FN(cuMemHostAlloc, (void **ret, size_t bytes, unsigned int flags), alloc(&call, ret, bytes, flags),
    "%zu %u", bytes, flags)

static sim_block_t *find(const void *p, sim_mem_kind_t kind)
{
  sim_block_t *block = sim_arena_find((uintptr_t)p);
  return block && block->kind == kind ? block : NULL;
}

static CUresult free_host(void *p)
{
  sim_block_t *block = find(p, SIM_MEM_HOST);
  if (!p)
    return CUDA_SUCCESS;
  if (!block || block->node.key != (uintptr_t)p)
    return CUDA_ERROR_INVALID_VALUE;
  sim_sched_wait_ctx(block->ctx);
  block = find(p, SIM_MEM_HOST);
  if (block)
    sim_block_delete(block);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemFreeHost, (void *p), free_host(p), "%s", sim_str_ptr((uintptr_t)p))

static bool overlaps_registered(uint64_t address, uint64_t bytes)
{
  const sim_node_t *next = sim_tree_ceil(&sim_host_arena.blocks, address, 0);
  return sim_arena_find(address) || (next && next->key - address < bytes);
}

static CUresult host_register(sim_call_t *call, void *p, size_t bytes, unsigned flags)
{
  uint64_t address = (uintptr_t)p;
  if (!p || bytes == 0 || address + bytes < address || (flags & ~15u))
    return CUDA_ERROR_INVALID_VALUE;
  if (overlaps_registered(address, bytes))
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  sim_block_t *block = calloc(1, sizeof *block);
  if (!block)
    return CUDA_ERROR_OUT_OF_MEMORY;
  block->node.key = address;
  block->size = block->requested = bytes;
  block->kind = SIM_MEM_REGISTERED;
  block->device = call->ctx->device;
  block->ctx = call->ctx;
  block->arena = &sim_host_arena;
  block->flags = flags;
  sim_block_enter(block);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemHostRegister, (void *p, size_t bytes, unsigned int flags), host_register(&call, p, bytes, flags),
    "host %zu %u", bytes, flags)
SIM_FN(cuMemHostRegister_v2, (void *p, size_t bytes, unsigned int flags),
    host_register(&call, p, bytes, flags), "host %zu %u", bytes, flags)

static CUresult host_unregister(void *p)
{
  sim_block_t *block = find(p, SIM_MEM_REGISTERED);
  if (!block || block->node.key != (uintptr_t)p)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  sim_sched_wait_ctx(block->ctx);
  block = find(p, SIM_MEM_REGISTERED);
  if (block)
    sim_block_delete(block);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemHostUnregister, (void *p), host_unregister(p), "host")

static CUresult device_pointer(CUdeviceptr *ret, void *p, unsigned flags)
{
  const sim_block_t *block = sim_arena_find((uintptr_t)p);
  if (!ret || flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (!block || (block->kind != SIM_MEM_HOST && block->kind != SIM_MEM_REGISTERED))
    return CUDA_ERROR_INVALID_VALUE;
  *ret = (uintptr_t)p;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemHostGetDevicePointer_v2, (CUdeviceptr * ret, void *p, unsigned int flags),
    device_pointer(ret, p, flags), "%s %u", sim_str_ptr((uintptr_t)p), flags)

static CUresult get_flags(unsigned *ret, void *p)
{
  const sim_block_t *block = sim_arena_find((uintptr_t)p);
  if (!ret || !block || (block->kind != SIM_MEM_HOST && block->kind != SIM_MEM_REGISTERED))
    return CUDA_ERROR_INVALID_VALUE;
  *ret = block->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemHostGetFlags, (unsigned int *ret, void *p), get_flags(ret, p), "%s", sim_str_ptr((uintptr_t)p))
