/*
 * Calls that make memory visible outside the process, or that set driver attributes which stay with it. A block that
 * went through one must not be handed to another owner later: it is tainted, and goes to the driver when it is freed.
 * Tainted after success only, but before the program can see the result.
 */
#include "interpose/hooks.h"
#include "interpose/library.h"
#include "interpose/rdma.h"
#include "interpose/real.h"
#include "pool/mono.h"

/*
 * Before the call. Whoever gets at the memory by it keeps to no stream of ours, so that work of the block's earlier
 * owners must not be pending any more (pool/mono.h).
 */
static void settle(void)
{
  gp_engine_t *engine = gp_library_engine(); /* binds */
  if (engine && gp_mono_bar(engine, GP_DETAIL_MODE_EPOCH_EXPORT))
    (void)gp_mono_settle(engine); /* what went wrong the call will say */
}

/* Before a look at memory: with such a look libraries prepare to give it to a device. */
static void look(void)
{
  gp_engine_t *engine = gp_library_engine();
  if (engine)
    gp_rdma_look(engine);
}

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
  settle();
  return tainted(GP_REAL_CALL(cuIpcGetMemHandle, handle, pointer), pointer);
}

CUresult CUDAAPI hook_cuMemGetHandleForAddressRange(
    void *handle, CUdeviceptr pointer, size_t size, int type, unsigned long long flags)
{
  settle();
  return tainted(GP_REAL_CALL(cuMemGetHandleForAddressRange, handle, pointer, size, type, flags), pointer);
}

CUresult CUDAAPI hook_cuMulticastBindAddr(
    unsigned long long multicast, size_t offset, CUdeviceptr pointer, size_t size, unsigned long long flags)
{
  settle();
  return tainted(GP_REAL_CALL(cuMulticastBindAddr, multicast, offset, pointer, size, flags), pointer);
}

CUresult CUDAAPI hook_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
  settle();
  return tainted(GP_REAL_CALL(cuPointerSetAttribute, value, attribute, pointer), pointer);
}

/* Asking for peer-to-peer tokens sets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS and gives the memory to a third party. */
CUresult CUDAAPI hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
  look();
  if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
    settle();
  CUresult result = GP_REAL_CALL(cuPointerGetAttribute, data, attribute, pointer);
  return attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS ? tainted(result, pointer) : result;
}

CUresult CUDAAPI hook_cuPointerGetAttributes(
    unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
  bool exports = false;
  look();
  for (unsigned i = 0; attributes && i < count; i++)
    exports |= attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS;
  if (exports)
    settle();
  CUresult result = GP_REAL_CALL(cuPointerGetAttributes, count, attributes, data, pointer);
  return exports ? tainted(result, pointer) : result;
}
