/*
 * Allocations: device, pitched and managed memory, and the blocks behind all kinds of memory.
 */
#include "ipc.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t last_id;

uint64_t sim_block_next_id(void)
{
  return ++last_id;
}

bool sim_memory_is_plain(const sim_block_t *block)
{
  return block->kind != SIM_MEM_MANAGED && block->kind != SIM_MEM_HOST && block->kind != SIM_MEM_REGISTERED &&
         !block->on_host;
}

/*
 * Takes the memory of a block from its device. Small blocks of cuMemAlloc share pages, which the device has
 * back when the last of them is gone, as on an H100 (doc/gpu-results.md, G17). Whether those of other kinds
 * do is not known: they take their size.
 */
static bool charge_block(sim_block_t *block)
{
  if (block->kind != SIM_MEM_DEVICE || block->size > SIM_SHARED_MAX) {
    uint64_t bytes = sim_device_bytes_taken(block->size);
    if (!sim_device_charge(block->device, bytes))
      return false;
    block->charged = bytes;
    return true;
  }
  block->shares_page = true;
  if (!sim_arena_page_enter(block->arena, block->node.key) || sim_device_charge(block->device, SIM_PAGE))
    return true;
  (void)sim_arena_page_leave(block->arena, block->node.key);
  return false;
}

static void credit_block(const sim_block_t *block)
{
  if (block->charged)
    sim_device_credit(block->device, block->charged);
  if (block->shares_page && sim_arena_page_leave(block->arena, block->node.key))
    sim_device_credit(block->device, SIM_PAGE);
}

void sim_block_enter(sim_block_t *block)
{
  sim_ctx_t *ctx = block->ctx;
  block->id = block->valid_from = sim_block_next_id();
  sim_tree_insert(&block->arena->blocks, &block->node);
  if (!ctx)
    return;
  block->next = ctx->blocks;
  if (ctx->blocks)
    ctx->blocks->prev = block;
  ctx->blocks = block;
}

/* Owned by `ctx` if that is not NULL. The size is rounded up to SIM_GRANULE, what it takes of the device is
 * accounted when `charge`. */
sim_block_t *sim_block_new(sim_arena_t *arena, sim_device_t *device, sim_ctx_t *ctx, sim_mem_kind_t kind,
    uint64_t bytes, bool charge, CUresult *ret_result)
{
  uint64_t size = (bytes + SIM_GRANULE - 1) & ~(uint64_t)(SIM_GRANULE - 1);
  *ret_result = CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t address = size < bytes ? 0 : sim_arena_take(arena, size);
  sim_block_t *block = address ? calloc(1, sizeof *block) : NULL;
  if (block)
    *block = (sim_block_t){.node.key = address, .size = size, .kind = kind, .device = device, .arena = arena};
  if (!block || (charge && !charge_block(block))) {
    if (address)
      sim_arena_give(arena, address, size, &(sim_dirty_t){0});
    free(block);
    return NULL;
  }
  block->requested = bytes;
  block->ctx = ctx;
  sim_block_enter(block);
  *ret_result = CUDA_SUCCESS;
  return block;
}

void sim_block_delete(sim_block_t *block)
{
  if (sim_oracle_on)
    sim_oracle_forget(block->node.key, block->size);
  sim_ordered_forget(block);
  sim_arena_remove(block->arena, block);
  if (block->ctx) {
    if (block->prev)
      block->prev->next = block->next;
    else
      block->ctx->blocks = block->next;
    if (block->next)
      block->next->prev = block->prev;
  }
  credit_block(block);
  if (block->opened)
    sim_ipc_unmap(block);
  else if (block->shared)
    sim_ipc_forget(block);
  if (block->kind != SIM_MEM_REGISTERED && !block->opened)
    sim_arena_give(block->arena, block->node.key, block->size, &block->dirty);
  free(block);
}

static uint64_t end_of(const sim_grid_t *grid)
{
  return grid->from + (grid->rows - 1) * grid->pitch + grid->width;
}

static bool covers(const sim_grid_t *a, const sim_grid_t *b)
{
  return (a->from == b->from && a->pitch == b->pitch && a->width == b->width && a->rows >= b->rows) ||
         (a->rows == 1 && a->from <= b->from && end_of(b) <= end_of(a));
}

void sim_block_dirty(sim_block_t *block, const sim_grid_t *grid)
{
  sim_dirty_t *dirty = &block->dirty;
  for (unsigned i = 0; i < dirty->count; i++) {
    if (covers(&dirty->grids[i], grid))
      return;
  }
  if (dirty->count < sizeof dirty->grids / sizeof *dirty->grids) {
    dirty->grids[dirty->count++] = *grid;
    return;
  }
  uint64_t from = grid->from, to = end_of(grid);
  for (unsigned i = 0; i < dirty->count; i++) {
    from = dirty->grids[i].from < from ? dirty->grids[i].from : from;
    to = end_of(&dirty->grids[i]) > to ? end_of(&dirty->grids[i]) : to;
  }
  dirty->grids[0] = (sim_grid_t){.from = from, .pitch = to - from, .width = to - from, .rows = 1};
  dirty->count = 1;
}

void sim_block_dirty_all(sim_block_t *block)
{
  sim_block_dirty(block, &(sim_grid_t){.pitch = block->size, .width = block->size, .rows = 1});
}

void sim_memory_move(sim_ctx_t *from, sim_ctx_t *to)
{
  while (from->blocks) {
    sim_block_t *block = from->blocks;
    from->blocks = block->next;
    block->ctx = to;
    block->prev = NULL;
    block->next = to->blocks;
    if (to->blocks)
      to->blocks->prev = block;
    to->blocks = block;
  }
}

void sim_memory_drop_context(sim_ctx_t *ctx)
{
  while (ctx->blocks)
    sim_block_delete(ctx->blocks);
  sim_array_drop_context(ctx);
  sim_external_drop_context(ctx);
}

static CUresult alloc(sim_call_t *call, CUdeviceptr *ret, size_t bytes, sim_mem_kind_t kind)
{
  CUresult result;
  if (!ret || bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  sim_device_t *device = call->ctx->device;
  sim_block_t *block = sim_block_new(&device->arena, device, call->ctx, kind, bytes, true, &result);
  if (block) {
    if (kind == SIM_MEM_MANAGED) /* the host writes it unseen */
      sim_block_dirty_all(block);
    *ret = block->node.key;
  }
  return result;
}

SIM_FN(cuMemAlloc_v2, (CUdeviceptr * ret, size_t bytes), alloc(&call, ret, bytes, SIM_MEM_DEVICE),
    "%zu -> %llx", bytes, sim_str_out(ret, call.result))
SIM_FN(cuMemAllocManaged, (CUdeviceptr * ret, size_t bytes, unsigned int flags),
    flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ? alloc(&call, ret, bytes, SIM_MEM_MANAGED)
                                                                 : CUDA_ERROR_INVALID_VALUE,
    "%zu %u -> %llx", bytes, flags, sim_str_out(ret, call.result))

static CUresult alloc_pitch(
    sim_call_t *call, CUdeviceptr *ret, size_t *ret_pitch, size_t width, size_t height, unsigned element)
{
  if (!ret || !ret_pitch || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  size_t pitch = (width + 511) & ~(size_t)511;
  if (height > sim_knobs.pitch_rows)
    pitch += 512;
  if (pitch < width || pitch > SIZE_MAX / height)
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = alloc(call, ret, pitch * height, SIM_MEM_DEVICE);
  if (result == CUDA_SUCCESS)
    *ret_pitch = pitch;
  return result;
}

SIM_FN(cuMemAllocPitch_v2,
    (CUdeviceptr * ret, size_t *pitch, size_t width, size_t height, unsigned int element),
    alloc_pitch(&call, ret, pitch, width, height, element), "%zu %zu %u -> %llx", width, height, element,
    sim_str_out(ret, call.result))

/* The last operation of the stream that reads or writes the block; a position that is
 * reached: there is none */
static sim_dep_t last_use(sim_stream_t *stream, uint64_t id)
{
  sim_dep_t last = {stream, stream->id, 0};
  uint64_t seq = stream->completed;
  for (const sim_op_t *op = stream->head; op; op = op->next) {
    seq++;
    if (op->dst.block == id || op->src.block == id)
      last.seq = seq;
  }
  return last;
}

static void wait_for_uses(uint64_t id)
{
  for (sim_stream_t *stream = sim_streams; stream;) {
    sim_dep_t last = last_use(stream, id);
    if (sim_dep_done(&last)) {
      stream = stream->next;
      continue;
    }
    sim_sched_wait(last);
    stream = sim_streams; /* the wait may have changed the list */
  }
}

/* A program that is checked may have work on the block in other contexts, too: this driver is then one that
 * waits for all of them. One that waits for no other work still never frees memory in use. */
static void wait_before_free(const sim_block_t *block)
{
  if (!sim_knobs.free_waits)
    wait_for_uses(block->id);
  else if (sim_oracle_on)
    sim_sched_wait_ctx(NULL);
  else if (!sim_ctx_is_idle(block->ctx))
    sim_sched_wait_ctx(block->ctx);
}

/* Of a debug build of the library (interpose/library.c); NULL: there is none in the process. */
extern bool gpupool_debug_holds(uint64_t address) __attribute__((weak));

void sim_memory_check_free(CUdeviceptr address)
{
  if (sim_knobs.unseen_frees || !gpupool_debug_holds || !gpupool_debug_holds(address))
    return;
  fprintf(stderr, "simcuda: the driver was asked to free %llx, which the pool holds\n",
      (unsigned long long)address);
  abort();
}

/* Waits for all work of the context that owns the memory, or with SIMCUDA_FREE_WAITS=0 only for what uses it:
 * the header leaves both to drivers. Memory of cuMemAllocAsync excepted: there the program promises that it
 * is not in use (cuda.h, cuMemFree). */
static CUresult free_memory(CUdeviceptr address)
{
  if (address == 0)
    return CUDA_SUCCESS;
  sim_block_t *block = sim_arena_find(address);
  if (!block || block->node.key != address || block->free_called)
    return CUDA_ERROR_INVALID_VALUE;
  sim_memory_check_free(address);
  switch (block->kind) {
  case SIM_MEM_DEVICE:
  case SIM_MEM_MANAGED:
  case SIM_MEM_EXTERNAL: break;
  case SIM_MEM_POOL: return sim_pool_free(block, NULL);
  case SIM_MEM_GRAPH: return sim_graph_mem_free(block, NULL);
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t id = block->id;
  wait_before_free(block);
  block = sim_arena_find(address); /* a wait may have let another thread in */
  if (!block || block->id != id)
    return CUDA_ERROR_INVALID_VALUE;
  sim_block_delete(block);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemFree_v2, (CUdeviceptr address), free_memory(address), "%s", sim_str_ptr(address))

/* An integrated device calls free what the host has free; page cache is not, and is dropped for who asks. */
static size_t queried_free(uint64_t bytes)
{
  uint64_t cache = sim_knobs.page_cache == UINT64_MAX ? 0 : sim_knobs.page_cache;
  return bytes > cache ? bytes - cache : 0;
}

static CUresult get_info(const sim_call_t *call, size_t *ret_free, size_t *ret_total)
{
  const sim_device_t *device = call->ctx->device;
  uint64_t capacity = sim_knobs.capacity[device->ordinal];
  sim_vmm_reap();
  if (ret_free)
    *ret_free = queried_free(capacity - device->used_bytes - sim_shared_others(device->ordinal));
  if (ret_total)
    *ret_total = capacity;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemGetInfo_v2, (size_t * ret_free, size_t *ret_total), get_info(&call, ret_free, ret_total), " ")

static CUresult address_range(CUdeviceptr *ret_base, size_t *ret_size, CUdeviceptr address)
{
  const sim_block_t *block = sim_arena_find(address);
  if (!block || block->free_called || !sim_arena_of(address))
    return CUDA_ERROR_NOT_FOUND;
  if (ret_base)
    *ret_base = block->node.key;
  if (ret_size)
    *ret_size = block->requested;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t *size, CUdeviceptr address),
    address_range(base, size, address), "%s", sim_str_ptr(address))

/* Hints have no effect. */
SIM_FN(cuMemAdvise, (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice dev),
    sim_arena_find(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, "%s %zu", sim_str_ptr(address), bytes)
SIM_FN(cuMemAdvise_v2, (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location),
    sim_arena_find(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, "%s %zu", sim_str_ptr(address), bytes)

static CUresult prefetch(sim_call_t *call, CUdeviceptr address, CUstream handle)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  return sim_arena_find(address) ? sim_submit(call, stream, sim_op_new(SIM_OP_NOP))
                                 : CUDA_ERROR_INVALID_VALUE;
}

SIM_FN2(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz,
    (CUdeviceptr address, size_t bytes, CUdevice dev, CUstream stream), prefetch(&call, address, stream),
    "%s %zu %s", sim_str_ptr(address), bytes, sim_str_stream(stream))
SIM_FN2(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz,
    (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags, CUstream stream),
    prefetch(&call, address, stream), "%s %zu %s", sim_str_ptr(address), bytes, sim_str_stream(stream))
