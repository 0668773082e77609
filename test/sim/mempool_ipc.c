/*
 * Pools of another process. The handle of a pool is a file that says which it is. Its memory is opened as
 * that of cuMemAlloc is (ipc.c), and freed as what was allocated here: the imported pool holds no other.
 */
#include "ipc.h"
#include "mempool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKEN_MAGIC 0x706f6f6c21212121u

typedef struct {
  uint64_t magic, process, id;
  CUmemLocation location;
} token_t;

typedef struct {
  sim_ipc_handle_t memory; /* whose process has the pool */
  uint64_t pool;
} pointer_t;

_Static_assert(sizeof(pointer_t) <= sizeof(CUmemPoolPtrExportData), "fits");

static CUresult export_pool(
    void *ret, const sim_pool_t *pool, CUmemAllocationHandleType type, unsigned long long flags)
{
  sim_file_t file;
  if (!ret || flags || !sim_pool_is_usable(pool) || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      !(pool->handle_types & (unsigned)type))
    return CUDA_ERROR_INVALID_VALUE;
  if (!pool->device)
    return CUDA_ERROR_NOT_SUPPORTED;
  token_t token = {TOKEN_MAGIC, pool->process, pool->id, pool->location};
  if (!sim_file_new(&file, "simulated-pool", 0))
    return CUDA_ERROR_OPERATING_SYSTEM;
  if (pwrite(file.descriptor, &token, sizeof token, 0) != (ssize_t)sizeof token) {
    sim_file_close(&file);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *(int *)ret = file.descriptor;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolExportToShareableHandle,
    (void *ret, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags),
    export_pool(ret, pool, type, flags), "%d", (int)type)

static CUresult import_pool(
    CUmemoryPool *ret, int descriptor, CUmemAllocationHandleType type, unsigned long long flags)
{
  token_t token;
  if (!ret || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      pread(descriptor, &token, sizeof token, 0) != (ssize_t)sizeof token || token.magic != TOKEN_MAGIC ||
      token.process == (uint64_t)getpid() || sim_pool_check_location(token.location) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  sim_pool_t *pool = sim_pool_new(token.location);
  pool->process = token.process;
  pool->id = token.id;
  *ret = pool;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolImportFromShareableHandle,
    (CUmemoryPool * ret, void *handle, CUmemAllocationHandleType type, unsigned long long flags),
    import_pool(ret, (int)(intptr_t)handle, type, flags), "%d", (int)type)

static CUresult export_pointer(CUmemPoolPtrExportData *ret, CUdeviceptr address)
{
  sim_block_t *block = sim_arena_find(address);
  if (!ret || !block || block->node.key != address || block->kind != SIM_MEM_POOL || block->free_called ||
      !block->pool->handle_types)
    return CUDA_ERROR_INVALID_VALUE;
  pointer_t pointer = {.pool = block->pool->id};
  if (!sim_ipc_export(&pointer.memory, block))
    return CUDA_ERROR_MAP_FAILED;
  memset(ret, 0, sizeof *ret);
  memcpy(ret, &pointer, sizeof pointer);
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolExportPointer, (CUmemPoolPtrExportData * ret, CUdeviceptr address),
    export_pointer(ret, address), "%s", sim_str_ptr(address))

/* "The imported memory must not be accessed before the allocation operation completes in the exporting
 * process" (cuda.h), which is not checked. */
static CUresult import_pointer(CUdeviceptr *ret, sim_pool_t *pool, const CUmemPoolPtrExportData *data)
{
  pointer_t pointer;
  if (!ret || !data || !sim_pool_is_usable(pool) || !sim_pool_is_imported(pool))
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(&pointer, data, sizeof pointer);
  if (pointer.memory.process != pool->process || pointer.pool != pool->id)
    return CUDA_ERROR_INVALID_VALUE;
  sim_block_t *block = calloc(1, sizeof *block);
  if (!block)
    abort();
  *block = (sim_block_t){.kind = SIM_MEM_POOL, .device = pool->device, .pool = pool};
  if (sim_ipc_open(block, &pointer.memory) != CUDA_SUCCESS) {
    free(block);
    return CUDA_ERROR_INVALID_VALUE;
  }
  sim_pool_count(pool, block, true);
  *ret = block->node.key;
  return CUDA_SUCCESS;
}

SIM_FN(cuMemPoolImportPointer, (CUdeviceptr * ret, CUmemoryPool pool, CUmemPoolPtrExportData *data),
    import_pointer(ret, pool, data), "-> %llx", sim_str_out(ret, call.result))
