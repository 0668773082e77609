/*
 * Memory that processes share. The memory of a device is a file (arena.c), of which the process that opens a
 * handle maps the allocation: so both see one memory. Behind the memory the file says which allocation begins
 * where, so that the handle of one that was freed opens nothing.
 */
#include "ipc.h"
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(sim_ipc_handle_t) <= sizeof(CUipcMemHandle), "fits");

typedef struct {
  sim_block_t block;  /* first: sim_block_delete frees all */
  uint64_t inode, id; /* the file, and the allocation in it */
  unsigned times;     /* that it was opened */
} opened_t;

static opened_t *opened_of(sim_block_t *block)
{
  return SIM_CONTAINER(block, opened_t, block);
}

static off_t place_of_id(uint64_t arena_bytes, uint64_t offset)
{
  return (off_t)(arena_bytes + offset / SIM_GRANULE * sizeof(uint64_t));
}

/* False: there is no file. */
static bool write_id(const sim_block_t *block, uint64_t id)
{
  const sim_arena_t *arena = block->arena;
  off_t place = place_of_id(arena->size, block->node.key - arena->base);
  return sim_file_is_there(&arena->file) &&
         pwrite(arena->file.descriptor, &id, sizeof id, place) == (ssize_t)sizeof id;
}

static sim_block_t *find(CUdeviceptr address, sim_mem_kind_t kind)
{
  sim_block_t *block = sim_arena_find(address);
  return block && block->kind == kind && !block->free_called ? block : NULL;
}

bool sim_ipc_export(sim_ipc_handle_t *ret, sim_block_t *block)
{
  const sim_arena_t *arena = block->arena;
  if (!write_id(block, block->id))
    return false;
  block->shared = true;
  sim_block_dirty_all(block); /* others write it unseen */
  *ret = (sim_ipc_handle_t){(uint64_t)getpid(), (uint64_t)arena->file.descriptor, arena->file.inode,
      arena->size, block->node.key - arena->base, block->requested, block->id};
  return true;
}

/* The handle of an interior pointer is the handle of its base. */
static CUresult get(CUipcMemHandle *ret, CUdeviceptr address)
{
  sim_ipc_handle_t handle;
  sim_block_t *block = find(address, SIM_MEM_DEVICE);
  if (!ret || !block)
    return CUDA_ERROR_INVALID_VALUE;
  if (!sim_ipc_export(&handle, block))
    return CUDA_ERROR_MAP_FAILED;
  memset(ret, 0, sizeof *ret);
  memcpy(ret, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

SIM_FN(cuIpcGetMemHandle, (CUipcMemHandle * ret, CUdeviceptr address), get(ret, address), "%s",
    sim_str_ptr(address))

void sim_ipc_forget(const sim_block_t *block)
{
  (void)write_id(block, 0);
}

/* The exporter's file; false: the exporter has ended, or freed the memory. */
static bool open_file(sim_file_t *ret, const sim_ipc_handle_t *handle)
{
  char path[64];
  uint64_t id;
  snprintf(path, sizeof path, "/proc/%llu/fd/%llu", (unsigned long long)handle->process,
      (unsigned long long)handle->file);
  int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0)
    return false;
  if (sim_file_look_at(ret, descriptor) && ret->inode == handle->inode &&
      pread(descriptor, &id, sizeof id, place_of_id(handle->arena_bytes, handle->offset)) ==
          (ssize_t)sizeof id &&
      id == handle->id)
    return true;
  close(descriptor);
  return false;
}

/* Whole pages, in the arena that has neither a file nor a shadow */
static uint64_t range_of(const sim_block_t *block, uint64_t *ret_bytes)
{
  uint64_t mask = SIM_PAGE - 1, base = block->node.key & ~mask;
  *ret_bytes = (block->node.key + block->size - base + mask) & ~mask;
  return base;
}

/* Pages are mapped, so the memory begins somewhere in the first: where it does in the exporter's. */
static bool map(sim_block_t *block, const sim_ipc_handle_t *handle, const sim_file_t *file)
{
  uint64_t inside = handle->offset & (SIM_PAGE - 1), bytes;
  block->node.key = inside; /* as if the range began at 0 */
  (void)range_of(block, &bytes);
  uint64_t base = sim_arena_take(block->arena, bytes);
  block->node.key = base + inside;
  if (base && sim_arena_map_file(base, inside + block->size, file, handle->offset - inside))
    return true;
  if (base)
    sim_arena_give(block->arena, base, bytes, &(sim_dirty_t){0});
  return false;
}

void sim_ipc_unmap(const sim_block_t *block)
{
  uint64_t bytes, base = range_of(block, &bytes);
  sim_arena_unmap_file(base, bytes);
  sim_arena_give(block->arena, base, bytes, &(sim_dirty_t){0});
}

CUresult sim_ipc_open(sim_block_t *block, const sim_ipc_handle_t *handle)
{
  sim_file_t file;
  if (!open_file(&file, handle))
    return CUDA_ERROR_INVALID_HANDLE;
  block->size = (handle->bytes + SIM_GRANULE - 1) & ~(uint64_t)(SIM_GRANULE - 1);
  block->requested = handle->bytes;
  block->arena = &sim_host_arena;
  block->opened = block->shared = true;
  bool is_mapped = map(block, handle, &file);
  sim_file_close(&file);
  if (!is_mapped)
    return CUDA_ERROR_MAP_FAILED;
  sim_block_enter(block);
  return CUDA_SUCCESS;
}

static CUresult open_new(sim_call_t *call, CUdeviceptr *ret, const sim_ipc_handle_t *handle)
{
  opened_t *opened = calloc(1, sizeof *opened);
  if (!opened)
    abort();
  *opened = (opened_t){.inode = handle->inode, .id = handle->id, .times = 1};
  sim_block_t *block = &opened->block;
  *block = (sim_block_t){.kind = SIM_MEM_IPC, .device = call->ctx->device, .ctx = call->ctx};
  CUresult result = sim_ipc_open(block, handle);
  if (result == CUDA_SUCCESS)
    *ret = block->node.key;
  else
    free(opened);
  return result;
}

/* "If the memory handle has already been opened by the current context, the reference count on the handle is
 * incremented by 1 and the existing device pointer is returned" (cuda.h). */
static CUresult open_handle(sim_call_t *call, CUdeviceptr *ret, const CUipcMemHandle *bytes, unsigned flags)
{
  sim_ipc_handle_t handle;
  memcpy(&handle, bytes, sizeof handle);
  if (!ret || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (handle.process == (uint64_t)getpid())
    return CUDA_ERROR_INVALID_CONTEXT; /* a handle cannot be opened where it was made */
  for (sim_block_t *block = call->ctx->blocks; block; block = block->next) {
    if (block->kind != SIM_MEM_IPC)
      continue;
    opened_t *opened = opened_of(block);
    if (opened->inode == handle.inode && opened->id == handle.id) {
      opened->times++;
      *ret = block->node.key;
      return CUDA_SUCCESS;
    }
  }
  return open_new(call, ret, &handle);
}

SIM_FN(cuIpcOpenMemHandle, (CUdeviceptr * ret, CUipcMemHandle handle, unsigned int flags),
    open_handle(&call, ret, &handle, flags), "%u -> %llx", flags, sim_str_out(ret, call.result))
SIM_FN(cuIpcOpenMemHandle_v2, (CUdeviceptr * ret, CUipcMemHandle handle, unsigned int flags),
    open_handle(&call, ret, &handle, flags), "%u -> %llx", flags, sim_str_out(ret, call.result))

static CUresult close_handle(CUdeviceptr address)
{
  sim_block_t *block = find(address, SIM_MEM_IPC);
  if (!block || block->node.key != address)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t id = block->id;
  sim_sched_wait_ctx(block->ctx);
  block = find(address, SIM_MEM_IPC); /* a wait may have let another thread in */
  if (!block || block->id != id)
    return CUDA_ERROR_INVALID_VALUE;
  if (--opened_of(block)->times == 0)
    sim_block_delete(block);
  return CUDA_SUCCESS;
}

SIM_FN(cuIpcCloseMemHandle, (CUdeviceptr address), close_handle(address), "%s", sim_str_ptr(address))
