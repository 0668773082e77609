/*
 * Allocations from memory pools: cuMemAllocAsync and friends.
 */
#include "ipc.h"
#include "mempool.h"

static uint64_t block_size(uint64_t bytes)
{
  uint64_t unit = bytes < SIM_LARGE ? SIM_GRANULE : SIM_PAGE;
  return (bytes + unit - 1) & ~(unit - 1);
}

/* In another stream: what the host has synchronized with, and what happens to be complete if the pool may
 * look for that. It follows no events, and inserts no dependencies. */
static bool is_reusable(const sim_pool_t *pool, const sim_block_t *block, const sim_stream_t *stream)
{
  if (block->free_at.stream == stream && block->free_at.id == stream->id)
    return true;
  return block->seen ||
         (pool->reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC] && sim_dep_done(&block->free_at));
}

static sim_block_t *take_cached(sim_pool_t *pool, uint64_t size, const sim_stream_t *stream)
{
  sim_block_t **best = NULL;
  for (sim_block_t **link = &pool->cached; *link; link = &(*link)->pool_next) {
    if ((*link)->size >= size && (*link)->size - size <= size / 4 &&
        (!best || (*link)->size < (*best)->size) && is_reusable(pool, *link, stream))
      best = link;
  }
  if (!best)
    return NULL;
  sim_block_t *block = *best;
  *best = block->pool_next;
  return block;
}

static sim_block_t *new_block(sim_pool_t *pool, const sim_stream_t *stream, uint64_t size)
{
  CUresult result;
  if (sim_pool_has_pieces(pool))
    return sim_pool_grow(pool, size)
               ? sim_block_new(&pool->device->arena, pool->device, NULL, SIM_MEM_POOL, size, false, &result)
               : NULL;
  if (size > pool->max - pool->reserved)
    return NULL;
  if (pool->device)
    return sim_block_new(&pool->device->arena, pool->device, NULL, SIM_MEM_POOL, size, true, &result);
  sim_block_t *block =
      sim_block_new(&sim_host_arena, stream->ctx->device, NULL, SIM_MEM_POOL, size, false, &result);
  if (block) {
    block->on_host = true;
    sim_block_dirty_all(block); /* the host writes it unseen */
  }
  return block;
}

static sim_block_t *new_block_of_idle(sim_pool_t *pool, const sim_stream_t *stream, uint64_t size)
{
  for (sim_pool_t *other = sim_pools; other; other = other->next)
    sim_pool_trim(other, 0);
  return new_block(pool, stream, size);
}

static CUresult capture_alloc(CUdeviceptr *ret, size_t bytes, const sim_pool_t *pool, sim_stream_t *stream)
{
  CUresult result;
  if (stream->capture->invalidated)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!pool->device)
    return CUDA_ERROR_NOT_SUPPORTED;
  sim_block_t *block = sim_graph_mem_new(pool->device, bytes, &result);
  if (!block)
    return result;
  CUDA_MEM_ALLOC_NODE_PARAMS params = {
      .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = pool->location},
      .bytesize = bytes};
  sim_graph_mem_set_alloc(sim_capture_memory_node(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC), block, &params);
  *ret = block->node.key;
  return CUDA_SUCCESS;
}

static CUresult alloc_from(CUdeviceptr *ret, size_t bytes, sim_pool_t *pool, sim_stream_t *stream)
{
  if (!ret || bytes == 0 || !sim_pool_is_usable(pool) || sim_pool_is_imported(pool))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult refused = sim_capture_legacy(stream);
  if (refused != CUDA_SUCCESS)
    return refused;
  if (stream->capture)
    return capture_alloc(ret, bytes, pool, stream);
  if (bytes > (pool->device ? sim_knobs.capacity[pool->device->ordinal] : sim_host_arena.size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t size = block_size(bytes);
  sim_block_t *block = take_cached(pool, size, stream);
  bool is_new = !block;
  if (is_new) {
    block = new_block(pool, stream, size);
    if (!block) /* what is idle need not be in blocks of that size */
      block = new_block_of_idle(pool, stream, size);
    if (!block) { /* the driver's own way out: wait, and try again */
      sim_sched_wait_ctx(stream->ctx);
      block = new_block_of_idle(pool, stream, size);
    }
    if (!block)
      return CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    if (sim_oracle_on)
      sim_oracle_forget(block->node.key, block->size); /* the driver's own reuse */
    block->id = sim_block_next_id();
    if (block->released)
      block->valid_from = block->id;
  }
  block->pool = pool;
  block->requested = bytes;
  block->free_called = block->released = block->seen = false;
  sim_pool_count(pool, block, is_new);
  *ret = block->node.key;
  sim_op_t *op = sim_op_new(SIM_OP_NOP);
  op->is_pool = true;
  sim_sched_submit(stream, op);
  block->alloc_at = sim_dep_now(stream);
  sim_ordered_allocated(block, stream);
  return CUDA_SUCCESS;
}

/* "The allocation comes from the memory pool current to the stream's device" (cuda.h, cuMemAllocAsync). */
static CUresult alloc_async(sim_call_t *call, CUdeviceptr *ret, size_t bytes, CUstream handle)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  return sim_knobs.pools ? alloc_from(ret, bytes, stream->ctx->device->current_pool, stream)
                         : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult alloc_from_pool(
    sim_call_t *call, CUdeviceptr *ret, size_t bytes, sim_pool_t *pool, CUstream handle)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  return stream ? alloc_from(ret, bytes, pool, stream) : call->result;
}

SIM_FN2(cuMemAllocAsync, cuMemAllocAsync_ptsz, (CUdeviceptr * ret, size_t bytes, CUstream stream),
    alloc_async(&call, ret, bytes, stream), "%zu %s -> %llx", bytes, sim_str_stream(stream),
    sim_str_out(ret, call.result))
SIM_FN2(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz,
    (CUdeviceptr * ret, size_t bytes, CUmemoryPool pool, CUstream stream),
    alloc_from_pool(&call, ret, bytes, pool, stream), "%zu %s -> %llx", bytes, sim_str_stream(stream),
    sim_str_out(ret, call.result))

/* The free has its turn in the stream: from now on the memory has no owner, unless it was given out
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
  if (block->released)
    sim_pool_end_destroyed(block->pool);
}

static void submit_free(sim_stream_t *stream, const sim_block_t *block)
{
  sim_op_t *op = sim_op_new(SIM_OP_FREE);
  op->dst.address = block->node.key;
  op->dst.block = block->id;
  op->is_pool = true;
  sim_sched_submit(stream, op);
}

/* stream NULL: cuMemFree, which does not wait for anything here; the program promised that the memory is not
 * in use. */
CUresult sim_pool_free(sim_block_t *block, sim_stream_t *stream)
{
  sim_pool_t *pool = block->pool;
  if (!stream)
    sim_ordered_freed_by_host(block);
  block->free_called = true;
  if (block->shared)
    sim_ipc_forget(block);
  pool->used -= block->size;
  block->pool_next = pool->cached;
  pool->cached = block;
  if (!stream) {
    block->released = block->seen = true;
    block->valid_from = block->id + 1;
    block->free_at = block->alloc_at;
    block->free_at.seq = 0; /* reached: usable everywhere */
    sim_pool_trim(pool, pool->threshold);
    sim_pool_end_destroyed(pool);
    return CUDA_SUCCESS;
  }
  submit_free(stream, block);
  block->free_at = sim_dep_now(stream);
  return CUDA_SUCCESS;
}

static CUresult capture_free(CUdeviceptr address, sim_stream_t *stream)
{
  if (stream->capture->invalidated)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  CUresult result = sim_graph_mem_may_free(stream->capture->graph, address);
  if (result == CUDA_SUCCESS)
    sim_graph_mem_set_free(sim_capture_memory_node(stream, CU_GRAPH_NODE_TYPE_MEM_FREE), address);
  return result;
}

static CUresult free_async(sim_call_t *call, CUdeviceptr address, CUstream handle)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  CUresult refused = sim_capture_legacy(stream);
  if (refused != CUDA_SUCCESS)
    return refused;
  if (stream->capture)
    return capture_free(address, stream);
  sim_block_t *block = sim_arena_find(address);
  if (!block || block->node.key != address || block->free_called)
    return CUDA_ERROR_INVALID_VALUE;
  sim_memory_check_free(address);
  if (block->kind == SIM_MEM_POOL)
    return sim_pool_free(block, stream);
  if (block->kind == SIM_MEM_GRAPH)
    return sim_graph_mem_free(block, stream);
  if (block->kind != SIM_MEM_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  block->free_called = true;
  submit_free(stream, block);
  return CUDA_SUCCESS;
}

SIM_FN2(cuMemFreeAsync, cuMemFreeAsync_ptsz, (CUdeviceptr address, CUstream stream),
    free_async(&call, address, stream), "%s %s", sim_str_ptr(address), sim_str_stream(stream))
