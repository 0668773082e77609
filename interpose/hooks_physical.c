/*
 * Virtual memory management: memory is counted from cuMemCreate until the last handle and the last mapping are gone.
 */
#include "interpose/clock.h"
#include "interpose/hooks.h"
#include "interpose/library.h"
#include "interpose/passthrough.h"
#include "interpose/physical.h"
#include "interpose/real.h"

typedef struct create_call {
  CUmemGenericAllocationHandle *handle;
  size_t bytes;
  const CUmemAllocationProp *properties;
  unsigned long long flags;
} create_call_t;

static CUresult call_create(void *arg)
{
  const create_call_t *call = arg;
  return GP_REAL_CALL(cuMemCreate, call->handle, call->bytes, call->properties, call->flags);
}

static uint64_t created_handle(void *arg)
{
  return (uint64_t)*((const create_call_t *)arg)->handle;
}

/* The memory is gone: its record ends. Nothing is done without one. */
static void end_record(gp_engine_t *engine, gp_physical_t *physical, gp_detail_t kind, uint64_t start_ns)
{
  gp_passthrough_t memory;
  if (gp_engine_passthrough_take(engine, gp_passthrough_space(kind), gp_physical_key(physical), &memory))
    gp_engine_passthrough_freed(engine, &memory, start_ns, gp_clock_now_ns() - start_ns);
}

static void end_memory(gp_engine_t *engine, gp_physical_t *physical, uint64_t start_ns)
{
  end_record(engine, physical, GP_DETAIL_PASS_PHYSICAL, start_ns);
  end_record(engine, physical, GP_DETAIL_PASS_HOST, start_ns); /* one of the two has it */
  gp_physical_end(physical);
}

CUresult CUDAAPI hook_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
    const CUmemAllocationProp *properties, unsigned long long flags)
{
  create_call_t arguments = {handle, bytes, properties, flags};
  uint64_t key = gp_physical_new_key();
  bool counted;
  bool is_device = properties && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;

  CUresult result = gp_passthrough_alloc(&(gp_passthrough_call_t){.call = call_create,
                                             .address = created_handle,
                                             .arg = &arguments,
                                             .bytes = handle && properties ? bytes : 0,
                                             .key = key,
                                             .kind = is_device ? GP_DETAIL_PASS_PHYSICAL : GP_DETAIL_PASS_HOST,
                                             .device = is_device ? properties->location.id : GP_CURRENT_DEVICE},
      &counted);
  if (counted && !gp_physical_created((uint64_t)*handle, key)) {
    gp_passthrough_t memory;
    gp_engine_t *engine = gp_library_engine();
    gp_space_t space = gp_passthrough_space(is_device ? GP_DETAIL_PASS_PHYSICAL : GP_DETAIL_PASS_HOST);
    if (engine && gp_engine_passthrough_take(engine, space, key, &memory))
      gp_engine_passthrough_freed(engine, &memory, gp_clock_now_ns(), 0);
  }
  return result;
}

CUresult CUDAAPI hook_cuMemRelease(CUmemGenericAllocationHandle handle)
{
  gp_engine_t *engine = gp_library_engine();
  gp_physical_t *physical = engine ? gp_physical_release((uint64_t)handle) : NULL;
  uint64_t start_ns = physical ? gp_clock_now_ns() : 0;
  CUresult result = GP_REAL_CALL(cuMemRelease, handle);

  gp_physical_t *over = physical ? gp_physical_released(physical, result == CUDA_SUCCESS) : NULL;
  if (over)
    end_memory(engine, over, start_ns);
  return result;
}

CUresult CUDAAPI hook_cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
    unsigned long long flags)
{
  gp_engine_t *engine = gp_library_engine();
  /* Before the call: another thread may release the handle as soon as the memory is mapped. */
  gp_mapping_t *mapping = engine ? gp_physical_map((uint64_t)handle, (uint64_t)pointer, bytes) : NULL;
  uint64_t start_ns = mapping ? gp_clock_now_ns() : 0;
  CUresult result = GP_REAL_CALL(cuMemMap, pointer, bytes, offset, handle, flags);

  if (mapping && result != CUDA_SUCCESS) {
    gp_physical_t *over = gp_physical_map_undo(mapping);
    if (over)
      end_memory(engine, over, start_ns);
  }
  return result;
}

CUresult CUDAAPI hook_cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
  gp_engine_t *engine = gp_library_engine();
  gp_mapping_t *list = engine ? gp_physical_unmap((uint64_t)pointer, bytes) : NULL;
  uint64_t start_ns = list ? gp_clock_now_ns() : 0;
  CUresult result = GP_REAL_CALL(cuMemUnmap, pointer, bytes);

  if (result != CUDA_SUCCESS) {
    gp_physical_unmap_undo(list);
    return result;
  }
  while (list) {
    gp_physical_t *over;
    list = gp_physical_unmapped(list, &over);
    if (over)
      end_memory(engine, over, start_ns);
  }
  return result;
}

CUresult CUDAAPI hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
  gp_engine_t *engine = gp_library_engine();
  CUresult result = GP_REAL_CALL(cuMemRetainAllocationHandle, handle, address);

  if (engine && result == CUDA_SUCCESS)
    gp_physical_retained((uint64_t)*handle);
  return result;
}

/* Memory of another process, whose it stays; or of this one, if the driver gives the handle that it has here. */
CUresult CUDAAPI hook_cuMemImportFromShareableHandle(
    CUmemGenericAllocationHandle *handle, void *os_handle, CUmemAllocationHandleType type)
{
  gp_engine_t *engine = gp_library_engine();
  CUresult result = GP_REAL_CALL(cuMemImportFromShareableHandle, handle, os_handle, type);

  if (engine && result == CUDA_SUCCESS)
    gp_physical_retained((uint64_t)*handle);
  return result;
}
