/*
 * Calls that make memory visible outside the process, or that set driver attributes which stay with the
 * memory. The pool must not hand such a block to another owner. So after the driver's success, before the
 * program gets the result, the hook taints the block, which then goes to the driver on free. Also calls
 * that tell which memory is at an address.
 */
#include "interpose/hooks/export.h"

#include "interpose/hooks/hooks.h"
#include "interpose/library.h"
#include "interpose/routes/loaded.h"
#include "interpose/routes/real.h"
#include "pool/reuse/single.h"
#include "base/log.h"

/*
 * Before the call. Those who reach the memory by it ignore the program's stream order, so that no work of the
 * block's earlier owners may be pending (pool/reuse/single.h).
 */
static void settle(void)
{
  gp_engine_t *engine = gp_library_engine(); /* binds */
  if (engine)
    (void)gp_single_end(engine, "memory is shared with others"); /* the driver's call will return errors */
}

/* The engine, before a question about memory, with which libraries prepare to give the memory to another
 * device. */
static gp_engine_t *look(void)
{
  gp_engine_t *engine = gp_library_engine();
  if (engine)
    gp_loaded_look_for_rdma(engine);
  return engine;
}

/* For the program, kept memory that it has freed does not exist. No allocation has this address, so the
 * driver answers about it as about freed memory. */
#define NO_MEMORY ((CUdeviceptr)1)

/* True if the pool keeps the block that pointer lies in as freed memory. This asks the driver where the
 * block begins, in vain for memory outside the pool. */
static bool is_kept(gp_engine_t *engine, CUdeviceptr pointer)
{
  gp_owner_t owner = engine ? gp_engine_owner(engine, (uint64_t)pointer) : GP_OWNER_PROGRAM;
  CUdeviceptr base = pointer;

  if (owner == GP_OWNER_UNKNOWN &&
      GP_REAL_CALL(cuMemGetAddressRange_v2, &base, NULL, pointer) == CUDA_SUCCESS && base != pointer)
    owner = gp_engine_owner(engine, (uint64_t)base);
  return owner == GP_OWNER_POOL;
}

/* The address to pass to the driver for the program's pointer, since the call's
 * effects cannot be undone. */
static CUdeviceptr visible(gp_engine_t *engine, CUdeviceptr pointer)
{
  return is_kept(engine, pointer) ? NO_MEMORY : pointer;
}

/* Refuses to export mapped memory: it moves, and may get another owner. The next
 * attempt finds other memory. */
static CUdeviceptr refuse_mapped(gp_engine_t *engine)
{
  gp_log(GP_LOG_ERROR,
      "memory of type vmm cannot be shared with other processes or devices of other makers, nor can its attributes be set; set GPUPOOL_TYPE=round");
  gp_engine_expect_exports(engine);
  return NO_MEMORY;
}

/*
 * The same for an export. A library may have asked for the memory's range, and export from its
 * beginning. In cut memory that is the segment's, whose first block the program need not own. This
 * exports the whole segment.
 */
static CUdeviceptr exported(CUdeviceptr pointer)
{
  gp_engine_t *engine = gp_library_engine();
  if (engine && gp_engine_is_mapped(engine, (uint64_t)pointer))
    return refuse_mapped(engine);
  bool is_allowed = !is_kept(engine, pointer) || gp_engine_begins_use(engine, (uint64_t)pointer);
  return is_allowed ? pointer : NO_MEMORY;
}

void gp_taint_pointer(gp_engine_t *engine, CUdeviceptr pointer)
{
  CUdeviceptr base = pointer;
  uint64_t block, segment;

  if (gp_engine_cut_block(engine, (uint64_t)pointer, &block, &segment))
    base = (CUdeviceptr)block; /* the driver knows the segment only */
  else if (GP_REAL_CALL(cuMemGetAddressRange_v2, &base, NULL, pointer) != CUDA_SUCCESS)
    base = pointer;
  gp_engine_taint(engine, (uint64_t)base);
}

static CUresult tainted(CUresult result, CUdeviceptr pointer)
{
  gp_engine_t *engine = result == CUDA_SUCCESS ? gp_library_engine() : NULL;
  if (engine)
    gp_taint_pointer(engine, pointer);
  return result;
}

/* The other process gets the driver's allocation from the beginning: a handle for a later block
 * would show it another block. */
static bool is_inside_segment(CUdeviceptr pointer)
{
  gp_engine_t *engine = gp_library_engine();
  uint64_t block, segment;

  if (!engine || gp_engine_is_mapped(engine, (uint64_t)pointer) ||
      !gp_engine_cut_block(engine, (uint64_t)pointer, &block, &segment) || block == segment)
    return false;
  gp_log(GP_LOG_ERROR,
      "cuIpcGetMemHandle: a part of a larger allocation of the driver cannot be shared with other processes; set %s",
      gp_engine_uncut_setting(engine));
  return true;
}

CUresult CUDAAPI hook_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
  settle();
  if (is_inside_segment(pointer)) {
    gp_engine_expect_exports(gp_library_engine());
    return CUDA_ERROR_INVALID_VALUE;
  }
  return tainted(GP_REAL_CALL(cuIpcGetMemHandle, handle, exported(pointer)), pointer);
}

CUresult CUDAAPI hook_cuMemGetHandleForAddressRange(
    void *handle, CUdeviceptr pointer, size_t size, int type, unsigned long long flags)
{
  settle();
  return tainted(
      GP_REAL_CALL(cuMemGetHandleForAddressRange, handle, exported(pointer), size, type, flags), pointer);
}

CUresult CUDAAPI hook_cuMulticastBindAddr(
    unsigned long long multicast, size_t offset, CUdeviceptr pointer, size_t size, unsigned long long flags)
{
  settle();
  return tainted(
      GP_REAL_CALL(cuMulticastBindAddr, multicast, offset, exported(pointer), size, flags), pointer);
}

CUresult CUDAAPI hook_cuMulticastBindAddr_v2(unsigned long long multicast, CUdevice device, size_t offset,
    CUdeviceptr pointer, size_t size, unsigned long long flags)
{
  settle();
  return tainted(
      GP_REAL_CALL(cuMulticastBindAddr_v2, multicast, device, offset, exported(pointer), size, flags),
      pointer);
}

/* From now on peers reach the memory through the endpoint, unordered with all streams here. */
CUresult CUDAAPI hook_cuLogicalEndpointBindAddr(unsigned endpoint, CUdevice device, cuuint64_t offset,
    void *pointer, cuuint64_t size, unsigned long long flags)
{
  settle();
  void *seen = (void *)(uintptr_t)exported((CUdeviceptr)(uintptr_t)pointer);
  return tainted(GP_REAL_CALL(cuLogicalEndpointBindAddr, endpoint, device, offset, seen, size, flags),
      (CUdeviceptr)(uintptr_t)pointer);
}

CUresult CUDAAPI hook_cuPointerSetAttribute(
    const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
  settle();
  return tainted(GP_REAL_CALL(cuPointerSetAttribute, value, attribute, exported(pointer)), pointer);
}

/* For the driver mapped memory belongs to no context, and begins and ends where its pieces do. */
static void correct_mapped(
    gp_engine_t *engine, void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
  bool differs = attribute == CU_POINTER_ATTRIBUTE_CONTEXT ||
                 attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
                 attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
  gp_mapped_block_t block;

  if (!data || !differs || !engine || !gp_engine_mapped_block(engine, (uint64_t)pointer, &block))
    return;
  if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
    *(CUcontext *)data = block.context;
  else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
    *(CUdeviceptr *)data = (CUdeviceptr)block.address;
  else
    *(size_t *)data = (size_t)block.size;
}

/* Asking for peer-to-peer tokens sets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS and gives a third
 * party access to the memory. */
CUresult CUDAAPI hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
  bool exports = attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS;

  gp_engine_t *engine = look();
  if (exports)
    settle();
  CUdeviceptr seen = exports ? exported(pointer) : visible(engine, pointer);
  CUresult result = GP_REAL_CALL(cuPointerGetAttribute, data, attribute, seen);
  if (result == CUDA_SUCCESS)
    correct_mapped(engine, data, attribute, pointer);
  return exports ? tainted(result, pointer) : result;
}

CUresult CUDAAPI hook_cuPointerGetAttributes(
    unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
  gp_engine_t *engine = look();
  bool exports = false;

  for (unsigned i = 0; attributes && i < count; i++)
    exports |= attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS;
  if (exports)
    settle();
  CUdeviceptr seen = exports ? exported(pointer) : visible(engine, pointer);
  CUresult result = GP_REAL_CALL(cuPointerGetAttributes, count, attributes, data, seen);
  for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++)
    correct_mapped(engine, data[i], attributes[i], pointer);
  return exports ? tainted(result, pointer) : result;
}

/* The size is the driver's, for the whole block: see doc/interception.md. For mapped memory the driver
 * knows only pieces, which may be smaller than the block. */
CUresult CUDAAPI hook_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
  gp_engine_t *engine = look();
  gp_mapped_block_t block;

  if (engine && gp_engine_mapped_block(engine, (uint64_t)pointer, &block)) {
    CUresult result = GP_REAL_CALL(cuMemGetAddressRange_v2, base, size, pointer);
    if (result == CUDA_SUCCESS && base)
      *base = (CUdeviceptr)block.address;
    if (result == CUDA_SUCCESS && size)
      *size = (size_t)block.size;
    return result;
  }
  return GP_REAL_CALL(cuMemGetAddressRange_v2, base, size, visible(engine, pointer));
}
