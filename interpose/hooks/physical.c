/*
 * Virtual memory management. Memory is counted from cuMemCreate until its last handle and its last mapping
 * are gone. Memory that was exported is counted until the process ends. Its descriptors also keep the memory
 * alive (the "shareable counterparts" of cuda.h, cuMemRelease), and the library does not see when the last
 * descriptor is closed.
 */
#include "interpose/clock.h"
#include "interpose/hooks/export.h"
#include "interpose/hooks/hooks.h"
#include "interpose/library.h"
#include "interpose/hooks/forward.h"
#include "interpose/hooks/physical_records.h"
#include "interpose/routes/real.h"

/* Ends the record of memory that the program no longer has, if there is such a record. */
static void end_record(
    gp_engine_t *engine, gp_physical_t *physical, gp_forwarded_kind_t kind, uint64_t start_ns)
{
  gp_forwarded_t memory;
  if (!gp_engine_forwarded_take(engine, gp_forwarded_space(kind), gp_physical_key(physical), &memory))
    return;
  memory.is_exported = gp_physical_is_exported(physical);
  gp_engine_forwarded_freed(engine, &memory, start_ns, gp_clock_now_ns() - start_ns);
}

static void end_memory(gp_engine_t *engine, gp_physical_t *physical, uint64_t start_ns)
{
  end_record(engine, physical, GP_FORWARDED_PHYSICAL, start_ns);
  end_record(engine, physical, GP_FORWARDED_HOST, start_ns); /* only one of the two spaces has the record */
  gp_physical_end(physical);
}

/* State of a release, map or unmap during the driver's call. Only the member of that operation is set; the
 * other two are NULL. */
typedef struct change {
  gp_engine_t *engine;
  gp_physical_t *released;
  gp_mapping_t *mapped;
  gp_mapping_t *unmapped; /* a list of mappings */
  uint64_t start_ns;
} change_t;

static void finish_release(const change_t *change, bool done)
{
  gp_physical_t *over = change->released ? gp_physical_released(change->released, done) : NULL;
  if (over)
    end_memory(change->engine, over, change->start_ns);
}

static void undo_map(const change_t *change)
{
  gp_physical_t *over = change->mapped ? gp_physical_map_undo(change->mapped) : NULL;
  if (over)
    end_memory(change->engine, over, change->start_ns);
}

static void finish_unmap(const change_t *change)
{
  for (gp_mapping_t *list = change->unmapped; list;) {
    gp_physical_t *over;
    list = gp_physical_unmapped(list, &over);
    if (over)
      end_memory(change->engine, over, change->start_ns);
  }
}

/* Completes the change after the thread was cancelled in the driver's call. The library cannot know whether
 * the driver performed the call, so the call counts as done. */
static void give_up(void *arg)
{
  const change_t *change = arg;
  finish_release(change, true);
  undo_map(change);
  finish_unmap(change);
}

CUresult CUDAAPI hook_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
    const CUmemAllocationProp *properties, unsigned long long flags)
{
  bool is_device = properties && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  gp_forward_call_t call = {.bytes = handle && properties ? bytes : 0,
      .key = gp_physical_new_key(),
      .kind = is_device ? GP_FORWARDED_PHYSICAL : GP_FORWARDED_HOST,
      .device = is_device ? properties->location.id : GP_CURRENT_DEVICE};
  CUresult result;

  GP_FORWARD_ALLOC(result, &call, handle, GP_REAL_CALL(cuMemCreate, handle, bytes, properties, flags));
  if (call.is_counted && !gp_physical_created((uint64_t)*handle, call.key)) {
    gp_forwarded_t memory;
    if (gp_engine_forwarded_take(call.engine, gp_forwarded_space(call.kind), call.key, &memory))
      gp_engine_forwarded_freed(call.engine, &memory, gp_clock_now_ns(), 0);
  }
  return result;
}

CUresult CUDAAPI hook_cuMemRelease(CUmemGenericAllocationHandle handle)
{
  gp_engine_t *engine = gp_library_engine();
  change_t change = {.engine = engine, .released = engine ? gp_physical_release((uint64_t)handle) : NULL};
  CUresult result;

  change.start_ns = change.released ? gp_clock_now_ns() : 0;
  GP_CANCEL_UNDO(result, GP_REAL_CALL(cuMemRelease, handle), give_up, &change);
  finish_release(&change, result == CUDA_SUCCESS);
  return result;
}

CUresult CUDAAPI hook_cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
  gp_engine_t *engine = gp_library_engine();
  /* Recorded before the call, because another thread may release the handle once the memory is mapped. */
  change_t change = {.engine = engine,
      .mapped = engine ? gp_physical_map((uint64_t)handle, (uint64_t)pointer, bytes) : NULL};
  CUresult result;

  change.start_ns = change.mapped ? gp_clock_now_ns() : 0;
  GP_CANCEL_UNDO(result, GP_REAL_CALL(cuMemMap, pointer, bytes, offset, handle, flags), give_up, &change);
  if (result != CUDA_SUCCESS)
    undo_map(&change);
  return result;
}

/* Returns true if the address is in a mapping of the pool. From the program's view cuMemMap did not map that
 * memory, so cuMemUnmap must fail. */
static bool is_pools(gp_engine_t *engine, CUdeviceptr pointer)
{
  return engine && gp_engine_is_mapped(engine, (uint64_t)pointer);
}

CUresult CUDAAPI hook_cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
  gp_engine_t *engine = gp_library_engine();
  if (is_pools(engine, pointer))
    return CUDA_ERROR_INVALID_VALUE;
  change_t change = {
      .engine = engine, .unmapped = engine ? gp_physical_unmap((uint64_t)pointer, bytes) : NULL};
  CUresult result;

  change.start_ns = change.unmapped ? gp_clock_now_ns() : 0;
  GP_CANCEL_UNDO(result, GP_REAL_CALL(cuMemUnmap, pointer, bytes), give_up, &change);
  if (result == CUDA_SUCCESS)
    finish_unmap(&change);
  else
    gp_physical_unmap_undo(change.unmapped);
  return result;
}

CUresult CUDAAPI hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
  gp_engine_t *engine = gp_library_engine();
  if (gp_refuse_mapped(engine, (CUdeviceptr)(uintptr_t)address))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = GP_REAL_CALL(cuMemRetainAllocationHandle, handle, address);

  if (engine && result == CUDA_SUCCESS)
    gp_physical_retained((uint64_t)*handle);
  return result;
}

CUresult CUDAAPI hook_cuMemExportToShareableHandle(void *os_handle, CUmemGenericAllocationHandle handle,
    CUmemAllocationHandleType type, unsigned long long flags)
{
  gp_engine_t *engine = gp_library_engine();
  CUresult result = GP_REAL_CALL(cuMemExportToShareableHandle, os_handle, handle, type, flags);

  if (engine && result == CUDA_SUCCESS)
    gp_physical_exported((uint64_t)handle);
  return result;
}

/* Imports memory, and does not count it. The memory belongs to another process, which counts it; or to this
 * process, if the driver returns a handle that this process already has. */
CUresult CUDAAPI hook_cuMemImportFromShareableHandle(
    CUmemGenericAllocationHandle *handle, void *os_handle, CUmemAllocationHandleType type)
{
  gp_engine_t *engine = gp_library_engine();
  CUresult result = GP_REAL_CALL(cuMemImportFromShareableHandle, handle, os_handle, type);

  if (engine && result == CUDA_SUCCESS)
    gp_physical_retained((uint64_t)*handle);
  return result;
}
