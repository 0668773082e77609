/*
 * Calls that make memory visible outside the process, or that set driver attributes which stay with it. A block that
 * went through one must not be handed to another owner later: it is tainted, and goes to the driver when it is freed.
 * Tainted after success only, but before the program can see the result.
 */
#include "interpose/hooks.h"
#include "interpose/library.h"
#include "interpose/real.h"

/* pointer may lie inside a block; the driver knows where that begins. */
static CUresult tainted(CUresult result, CUdeviceptr pointer)
{
  gp_engine_t *engine = result == CUDA_SUCCESS ? gp_library_engine() : NULL;
  CUdeviceptr base = pointer;

  if (engine) {
    if (GP_REAL_CALL(cuMemGetAddressRange_v2, &base, NULL, pointer) != CUDA_SUCCESS)
      base = pointer;
    gp_engine_taint(engine, (uint64_t)base);
  }
  return result;
}

CUresult CUDAAPI hook_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
  (void)gp_library_engine(); /* binds */
  return tainted(GP_REAL_CALL(cuIpcGetMemHandle, handle, pointer), pointer);
}

CUresult CUDAAPI hook_cuMemGetHandleForAddressRange(
    void *handle, CUdeviceptr pointer, size_t size, int type, unsigned long long flags)
{
  (void)gp_library_engine();
  return tainted(GP_REAL_CALL(cuMemGetHandleForAddressRange, handle, pointer, size, type, flags), pointer);
}

CUresult CUDAAPI hook_cuMulticastBindAddr(
    unsigned long long multicast, size_t offset, CUdeviceptr pointer, size_t size, unsigned long long flags)
{
  (void)gp_library_engine();
  return tainted(GP_REAL_CALL(cuMulticastBindAddr, multicast, offset, pointer, size, flags), pointer);
}

CUresult CUDAAPI hook_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
  (void)gp_library_engine();
  return tainted(GP_REAL_CALL(cuPointerSetAttribute, value, attribute, pointer), pointer);
}

/* Asking for peer-to-peer tokens sets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS and gives the memory to a third party. */
CUresult CUDAAPI hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
  (void)gp_library_engine();
  CUresult result = GP_REAL_CALL(cuPointerGetAttribute, data, attribute, pointer);
  return attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS ? tainted(result, pointer) : result;
}

CUresult CUDAAPI hook_cuPointerGetAttributes(
    unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
  (void)gp_library_engine();
  CUresult result = GP_REAL_CALL(cuPointerGetAttributes, count, attributes, data, pointer);
  for (unsigned i = 0; attributes && i < count; i++)
    if (attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
      return tainted(result, pointer);
  return result;
}
