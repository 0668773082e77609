/*
 * Memory pools: cuMemAllocAsync and friends.
 *
 * A pool hands out whole blocks. Its bytes: reserved == used + cached; each block is charged to the device
 * while the pool holds it. A freed block may serve another allocation at once in the same stream, elsewhere
 * when its free has executed. Cached bytes above the release threshold go back at the next synchronization.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct CUmemPoolHandle_st {
  bool destroyed; /* lives on until its last allocation is freed */
  sim_device_t *device;
  uint64_t threshold;
  uint64_t reserved, reserved_high, used, used_high;
  sim_block_t *cached; /* freed, by pool_next; some frees may not have executed */
  sim_pool_t *next;
  int reuse[4];
};

static sim_pool_t *pools;

static sim_pool_t *new_pool(sim_device_t *device)
{
  sim_pool_t *pool = calloc(1, sizeof *pool);
  if (!pool)
    return NULL;
  pool->device = device;
  pool->reuse[1] = pool->reuse[2] = pool->reuse[3] = 1;
  pool->next = pools;
  pools = pool;
  return pool;
}

void sim_pool_init_device(sim_device_t *device)
{
  device->default_pool = device->current_pool = new_pool(device);
  if (!device->default_pool)
    abort();
}

static uint64_t block_size(uint64_t bytes)
{
  uint64_t unit = bytes < SIM_LARGE ? SIM_GRANULE : SIM_PAGE;
  return (bytes + unit - 1) & ~(unit - 1);
}

static bool is_reusable(const sim_block_t *block, const sim_stream_t *stream)
{
  return (block->free_at.stream == stream && block->free_at.id == stream->id) ||
         sim_dep_done(&block->free_at);
}

static sim_block_t *take_cached(sim_pool_t *pool, uint64_t size, const sim_stream_t *stream)
{
  sim_block_t **best = NULL;
  for (sim_block_t **link = &pool->cached; *link; link = &(*link)->pool_next) {
    if ((*link)->size >= size && (*link)->size - size <= size / 4 &&
        (!best || (*link)->size < (*best)->size) && is_reusable(*link, stream))
      best = link;
  }
  if (!best)
    return NULL;
  sim_block_t *block = *best;
  *best = block->pool_next;
  return block;
}

static void release(sim_pool_t *pool, sim_block_t *block)
{
  pool->reserved -= block->size;
  sim_block_delete(block);
}

static void trim(sim_pool_t *pool, uint64_t keep)
{
  for (sim_block_t **link = &pool->cached; *link && pool->reserved > keep;) {
    sim_block_t *block = *link;
    if (block->released) {
      *link = block->pool_next;
      release(pool, block);
    } else {
      link = &block->pool_next;
    }
  }
}

static void reap(sim_pool_t *pool)
{
  if (!pool->destroyed || pool->used || pool->cached)
    return;
  sim_pool_t **link = &pools;
  while (*link != pool)
    link = &(*link)->next;
  *link = pool->next;
  free(pool);
}

void sim_pool_trim_all(void)
{
  for (sim_pool_t *pool = pools, *next; pool; pool = next) {
    next = pool->next;
    if (pool->cached && pool->reserved > pool->threshold)
      trim(pool, pool->threshold);
    if (pool->destroyed)
      reap(pool);
  }
}

static CUresult alloc_from(
    sim_call_t *call, CUdeviceptr *ret, size_t bytes, sim_pool_t *pool, CUstream handle)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  CUresult result;
  if (!stream)
    return call->result;
  if (!ret || bytes == 0 || !pool || pool->destroyed)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->kind == SIM_STREAM_LEGACY && stream->ctx->captures)
    return sim_capture_implicit(stream->ctx);
  if (stream->capture) {
    sim_block_t *block =
        sim_block_new(&pool->device->arena, pool->device, NULL, SIM_MEM_GRAPH, bytes, true, &result);
    if (!block)
      return result;
    if (!sim_capture_alloc_node(stream, block, false)) {
      sim_block_delete(block);
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    *ret = block->node.key;
    return CUDA_SUCCESS;
  }
  if (bytes > sim_knobs.capacity[pool->device->ordinal])
    return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t size = block_size(bytes);
  sim_block_t *block = take_cached(pool, size, stream);
  if (!block) {
    block = sim_block_new(&pool->device->arena, pool->device, NULL, SIM_MEM_POOL, size, true, &result);
    if (!block) { /* the driver's own way out: wait, give back what is idle, try again */
      sim_sched_wait_ctx(stream->ctx);
      for (sim_pool_t *other = pools; other; other = other->next)
        trim(other, 0);
      block = sim_block_new(&pool->device->arena, pool->device, NULL, SIM_MEM_POOL, size, true, &result);
    }
    if (!block)
      return result;
    pool->reserved += block->size;
    if (pool->reserved > pool->reserved_high)
      pool->reserved_high = pool->reserved;
  } else {
    block->id = sim_block_next_id();
    if (block->released)
      block->valid_from = block->id;
  }
  block->pool = pool;
  block->requested = bytes;
  block->free_called = block->released = false;
  pool->used += block->size;
  if (pool->used > pool->used_high)
    pool->used_high = pool->used;
  *ret = block->node.key;
  return sim_submit(call, stream, sim_op_new(SIM_OP_NOP));
}

SIM_FN2(cuMemAllocAsync, cuMemAllocAsync_ptsz, (CUdeviceptr * ret, size_t bytes, CUstream stream),
    alloc_from(&call, ret, bytes, call.ctx->device->current_pool, stream), "%zu %s -> %llx", bytes,
    sim_str_stream(stream), sim_str_out(ret, call.result))
SIM_FN2(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz,
    (CUdeviceptr * ret, size_t bytes, CUmemoryPool pool, CUstream stream),
    alloc_from(&call, ret, bytes, pool, stream), "%zu %s -> %llx", bytes, sim_str_stream(stream),
    sim_str_out(ret, call.result))

/* The free has its turn in the stream: from now on the memory belongs to nobody, unless it was given out
 * again before (in that stream), and then it has another id. */
void sim_pool_free_executed(uint64_t address, uint64_t id)
{
  sim_block_t *block = sim_arena_find(address);
  if (!block || id < block->valid_from || id > block->id)
    return;
  if (block->kind != SIM_MEM_POOL) {
    sim_block_delete(block);
    return;
  }
  block->valid_from = id + 1;
  block->released = block->id == id;
}

static void submit_free(sim_stream_t *stream, const sim_block_t *block)
{
  sim_op_t *op = sim_op_new(SIM_OP_FREE);
  op->dst.address = block->node.key;
  op->dst.block = block->id;
  sim_sched_submit(stream, op);
}

/* stream NULL: cuMemFree, which does not wait for anything here; the program promised that the memory is not
 * in use. */
CUresult sim_pool_free(sim_call_t *call, sim_block_t *block, sim_stream_t *stream)
{
  sim_pool_t *pool = block->pool;
  block->free_called = true;
  pool->used -= block->size;
  block->pool_next = pool->cached;
  pool->cached = block;
  if (!stream) {
    block->released = true;
    block->valid_from = block->id + 1;
    block->free_at = sim_dep_now(call->ctx->legacy);
    block->free_at.seq = 0; /* reached: usable everywhere */
    trim(pool, pool->threshold);
    return CUDA_SUCCESS;
  }
  submit_free(stream, block);
  block->free_at = sim_dep_now(stream);
  return CUDA_SUCCESS;
}

static CUresult free_async(sim_call_t *call, CUdeviceptr address, CUstream handle)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  if (stream->kind == SIM_STREAM_LEGACY && stream->ctx->captures)
    return sim_capture_implicit(stream->ctx);
  sim_block_t *block = sim_arena_find(address);
  if (!block || block->node.key != address || block->free_called)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) {
    if (block->kind != SIM_MEM_GRAPH)
      return CUDA_ERROR_INVALID_VALUE;
    return sim_capture_alloc_node(stream, block, true) ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (block->kind == SIM_MEM_POOL)
    return sim_pool_free(call, block, stream);
  if (block->kind == SIM_MEM_GRAPH)
    return CUDA_SUCCESS; /* the address stays the graph's */
  if (block->kind != SIM_MEM_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  block->free_called = true;
  submit_free(stream, block);
  return CUDA_SUCCESS;
}

SIM_FN2(cuMemFreeAsync, cuMemFreeAsync_ptsz, (CUdeviceptr address, CUstream stream),
    free_async(&call, address, stream), "%s %s", sim_str_ptr(address), sim_str_stream(stream))

/* ---- pool objects ---- */

static CUresult create(CUmemoryPool *ret, const CUmemPoolProps *props)
{
  if (!ret || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  sim_device_t *device = sim_device_get(props->location.id);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  sim_pool_t *pool = new_pool(device);
  if (!pool)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *ret = pool;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolCreate, (CUmemoryPool * ret, const CUmemPoolProps *props), create(ret, props), " ")

static CUresult destroy(sim_pool_t *pool)
{
  if (!pool || pool->destroyed || pool == pool->device->default_pool)
    return CUDA_ERROR_INVALID_VALUE;
  pool->destroyed = true;
  pool->threshold = 0;
  if (pool->device->current_pool == pool)
    pool->device->current_pool = pool->device->default_pool;
  trim(pool, 0);
  reap(pool);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolDestroy, (CUmemoryPool pool), destroy(pool), " ")

static CUresult trim_to(sim_pool_t *pool, size_t keep)
{
  if (!pool || pool->destroyed)
    return CUDA_ERROR_INVALID_VALUE;
  trim(pool, keep);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), trim_to(pool, keep), "%zu", keep)

static CUresult set_attribute(sim_pool_t *pool, CUmemPool_attribute attribute, const void *value)
{
  if (!pool || !value)
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
  case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: pool->reuse[attribute] = *(const int *)value; break;
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool->threshold = *(const cuuint64_t *)value; break;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    if (*(const cuuint64_t *)value)
      return CUDA_ERROR_INVALID_VALUE; /* "It is illegal to set this attribute to a non-zero value" (cuda.h)
                                        */
    pool->reserved_high = pool->reserved;
    break;
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    if (*(const cuuint64_t *)value)
      return CUDA_ERROR_INVALID_VALUE;
    pool->used_high = pool->used;
    break;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

static unsigned long long shown_value(CUmemPool_attribute attribute, const void *value)
{
  if (!value)
    return 0;
  return attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? *(const cuuint64_t *)value : 0;
}

SIM_FN(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
    set_attribute(pool, attribute, value), "%d %llu", (int)attribute, shown_value(attribute, value))

static CUresult get_attribute(const sim_pool_t *pool, CUmemPool_attribute attribute, void *ret)
{
  if (!pool || !ret)
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
  case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: *(int *)ret = pool->reuse[attribute]; break;
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)ret = pool->threshold; break;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)ret = pool->reserved; break;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)ret = pool->reserved_high; break;
  case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)ret = pool->used; break;
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)ret = pool->used_high; break;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *ret),
    get_attribute(pool, attribute, ret), "%d", (int)attribute)
SIM_FN(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *map, size_t count),
    pool &&map ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, "%zu", count)

static CUresult get_access(CUmemAccess_flags *ret, const sim_pool_t *pool, const CUmemLocation *location)
{
  if (!ret || !pool || !location)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = location->id == pool->device->ordinal ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                               : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolGetAccess, (CUmemAccess_flags * ret, CUmemoryPool pool, CUmemLocation *location),
    get_access(ret, pool, location), " ")

static CUresult get_pool(CUmemoryPool *ret, CUdevice dev, bool current)
{
  const sim_device_t *device = sim_device_get(dev);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = current ? device->current_pool : device->default_pool;
  return CUDA_SUCCESS;
}

SIM_FN(cuDeviceGetDefaultMemPool, (CUmemoryPool * ret, CUdevice dev), get_pool(ret, dev, false), "%d", dev)
SIM_FN(cuDeviceGetMemPool, (CUmemoryPool * ret, CUdevice dev), get_pool(ret, dev, true), "%d", dev)

static CUresult set_pool(CUdevice dev, sim_pool_t *pool)
{
  sim_device_t *device = sim_device_get(dev);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!pool || pool->destroyed || pool->device != device)
    return CUDA_ERROR_INVALID_VALUE;
  device->current_pool = pool;
  return CUDA_SUCCESS;
}

SIM_FN(cuDeviceSetMemPool, (CUdevice dev, CUmemoryPool pool), set_pool(dev, pool), "%d", dev)
SIM_FN(cuMemGetDefaultMemPool, (CUmemoryPool * ret, CUmemLocation *location, CUmemAllocationType type),
    location ? get_pool(ret, location->id, false) : CUDA_ERROR_INVALID_VALUE, "%d", (int)type)
SIM_FN(cuMemGetMemPool, (CUmemoryPool * ret, CUmemLocation *location, CUmemAllocationType type),
    location ? get_pool(ret, location->id, true) : CUDA_ERROR_INVALID_VALUE, "%d", (int)type)
SIM_FN(cuMemSetMemPool, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool),
    location ? set_pool(location->id, pool) : CUDA_ERROR_INVALID_VALUE, "%d", (int)type)

static CUresult graph_mem(CUdevice dev)
{
  return sim_device_get(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

SIM_FN(cuDeviceGraphMemTrim, (CUdevice dev), graph_mem(dev), "%d", dev)

static CUresult graph_mem_attribute(CUdevice dev, void *ret)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  if (graph_mem(dev) == CUDA_SUCCESS)
    *(cuuint64_t *)ret = 0;
  return graph_mem(dev);
}

SIM_FN(cuDeviceGetGraphMemAttribute, (CUdevice dev, CUgraphMem_attribute attribute, void *ret),
    graph_mem_attribute(dev, ret), "%d %d", dev, (int)attribute)
SIM_FN(cuDeviceSetGraphMemAttribute, (CUdevice dev, CUgraphMem_attribute attribute, void *value),
    graph_mem(dev), "%d %d", dev, (int)attribute)
