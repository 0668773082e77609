/*
 * Managed memory, and page-locked memory of the host: forwarded and counted.
 */
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/forward.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"

CUresult CUDAAPI hook_cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags)
{
  gp_forward_call_t call = {
      .bytes = pointer ? bytes : 0, .kind = GP_FORWARDED_MANAGED, .device = GP_CURRENT_DEVICE};
  CUresult result;
  GP_FORWARD_ALLOC(result, &call, pointer, GP_REAL_CALL(cuMemAllocManaged, pointer, bytes, flags));
  return result;
}

static gp_forward_call_t page_locked(uint64_t address, size_t bytes)
{
  return (gp_forward_call_t){.bytes = bytes,
      .counted = gp_forward_locked_bytes(address, bytes),
      .kind = GP_FORWARDED_HOST,
      .device = GP_CURRENT_DEVICE};
}

/* The program's own memory becomes page-locked. */
static gp_forward_call_t host_call(const void *memory, size_t bytes)
{
  return page_locked((uint64_t)(uintptr_t)memory, memory ? bytes : 0);
}

/* New memory, whose address the driver stores at `pointer`. */
static gp_forward_call_t new_host_call(void **pointer, size_t bytes)
{
  return page_locked(0, pointer ? bytes : 0);
}

CUresult CUDAAPI hook_cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
  gp_forward_call_t call = new_host_call(pointer, bytes);
  CUresult result;
  GP_FORWARD_ALLOC(result, &call, pointer, GP_REAL_CALL(cuMemHostAlloc, pointer, bytes, flags));
  return result;
}

CUresult CUDAAPI hook_cuMemAllocHost_v2(void **pointer, size_t bytes)
{
  gp_forward_call_t call = new_host_call(pointer, bytes);
  CUresult result;
  GP_FORWARD_ALLOC(result, &call, pointer, GP_REAL_CALL(cuMemAllocHost_v2, pointer, bytes));
  return result;
}

CUresult CUDAAPI hook_cuMemHostRegister(void *memory, size_t bytes, unsigned flags)
{
  gp_forward_call_t call = host_call(memory, bytes);
  CUresult result;
  GP_FORWARD_ALLOC(result, &call, &memory, GP_REAL_CALL(cuMemHostRegister, memory, bytes, flags));
  return result;
}

CUresult CUDAAPI hook_cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
  gp_forward_call_t call = host_call(memory, bytes);
  CUresult result;
  GP_FORWARD_ALLOC(result, &call, &memory, GP_REAL_CALL(cuMemHostRegister_v2, memory, bytes, flags));
  return result;
}

CUresult CUDAAPI hook_cuMemFreeHost(void *pointer)
{
  CUresult result;
  GP_FORWARD_FREE(result, gp_library_engine(), GP_SPACE_POINTER, (uint64_t)(uintptr_t)pointer,
      GP_REAL_CALL(cuMemFreeHost, pointer));
  return result;
}

CUresult CUDAAPI hook_cuMemHostUnregister(void *pointer)
{
  CUresult result;
  GP_FORWARD_FREE(result, gp_library_engine(), GP_SPACE_POINTER, (uint64_t)(uintptr_t)pointer,
      GP_REAL_CALL(cuMemHostUnregister, pointer));
  return result;
}
