/*
 * Hooks of calls that export memory, or set driver attributes that persist while the memory exists. The pool
 * must not reuse such a block. So after the driver's success, and before the program gets the result, the
 * hook taints the block, which is then released to the driver when it is freed. This file also has the hooks
 * of queries about the memory at an address.
 */
#include "interpose/hooks/export.h"

#include "interpose/hooks/hooks.h"
#include "interpose/hooks/mempool_records.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "base/log.h"

/* An address that no allocation has. The hooks pass it to the driver in place of an address in memory that
 * the program has freed and the pool keeps. The driver then returns what it returns for freed memory. */
#define NO_MEMORY ((CUdeviceptr)1)

/* Returns true if the program has freed the block that contains `pointer`, and the pool keeps it. Queries the
 * driver for the beginning of the block; that query fails for memory outside the pool. */
static bool is_kept(gp_engine_t *engine, CUdeviceptr pointer)
{
  gp_owner_t owner = engine ? gp_engine_owner(engine, (uint64_t)pointer) : GP_OWNER_PROGRAM;
  CUdeviceptr base = pointer;

  if (owner == GP_OWNER_UNKNOWN &&
      GP_REAL_CALL(cuMemGetAddressRange_v2, &base, NULL, pointer) == CUDA_SUCCESS && base != pointer)
    owner = gp_engine_owner(engine, (uint64_t)base);
  return owner == GP_OWNER_POOL;
}

/* Returns the address to pass to the driver for the program's `pointer`: NO_MEMORY if the pool keeps the
 * block. The check comes before the driver's call, because the call's effects cannot be undone. */
static CUdeviceptr visible(gp_engine_t *engine, CUdeviceptr pointer)
{
  return is_kept(engine, pointer) ? NO_MEMORY : pointer;
}

/* Refuses an export, and makes the memory that the program allocates from now on exportable. Logs one line
 * for all refusals. */
static void refuse(gp_engine_t *engine, bool is_mapped)
{
  static atomic_flag has_reported = ATOMIC_FLAG_INIT;

  gp_engine_expect_exports(engine);
  if (!atomic_flag_test_and_set(&has_reported))
    gp_log(GP_LOG_ERROR, "%s. New allocations can; to export older ones, set GPUPOOL_TYPE=round",
        is_mapped ? "memory of type vmm cannot be exported"
                  : "memory cut from a larger driver allocation cannot be shared with other processes");
}

/* Returns true for memory that would come from a device's default pool without the library. Such memory
 * cannot be exported, with or without the library. */
static bool is_async(const gp_part_t *part)
{
  return part->is_mapped && !part->context;
}

bool gp_refuse_mapped(gp_engine_t *engine, CUdeviceptr pointer)
{
  gp_part_t part;
  bool is_mapped = engine && gp_engine_part(engine, (uint64_t)pointer, &part) && part.is_mapped;

  if (is_mapped && !is_async(&part))
    refuse(engine, true);
  return is_mapped;
}

/*
 * Returns the address to pass to the driver for an export of `size` bytes. Mapped memory is not exported,
 * because the pool moves it and may give it to another owner. A library that exports whole pages may begin
 * before the program's block, in an idle part of the driver allocation: that is allowed.
 */
static CUdeviceptr exported(CUdeviceptr pointer, size_t size)
{
  gp_engine_t *engine = gp_library_engine();

  if (gp_refuse_mapped(engine, pointer))
    return NO_MEMORY;
  bool is_allowed = !is_kept(engine, pointer) || gp_engine_uses_part(engine, (uint64_t)pointer, size);
  return is_allowed ? pointer : NO_MEMORY;
}

void gp_taint_pointer(gp_engine_t *engine, CUdeviceptr pointer)
{
  CUdeviceptr base = pointer;
  gp_part_t part;

  if (gp_engine_part(engine, (uint64_t)pointer, &part))
    base = (CUdeviceptr)part.address; /* the driver knows only the larger allocation */
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

/* Returns true if the block is in a segment (a larger driver allocation), but is not the first block there.
 * An exported handle gives another process the driver's whole allocation from its beginning, so a handle for
 * a later block would refer to the first one. */
static bool is_inside_segment(const gp_part_t *part)
{
  return !part->is_mapped && part->address != part->driver_address;
}

CUresult CUDAAPI hook_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
  gp_engine_t *engine = gp_library_engine();
  gp_part_t part;

  if (engine && gp_engine_part(engine, (uint64_t)pointer, &part) && is_inside_segment(&part)) {
    refuse(engine, false);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return tainted(GP_REAL_CALL(cuIpcGetMemHandle, handle, exported(pointer, 1)), pointer);
}

/* Returns true for mapped memory that the driver can export by its address range, because the range lies
 * within one mapping. */
static bool is_mapped_as_one(gp_engine_t *engine, CUdeviceptr pointer, size_t size)
{
  gp_part_t part;
  return engine && gp_engine_part(engine, (uint64_t)pointer, &part) && part.is_mapped &&
         size <= part.driver_end - (uint64_t)pointer && gp_engine_uses_part(engine, (uint64_t)pointer, size);
}

CUresult CUDAAPI hook_cuMemGetHandleForAddressRange(
    void *handle, CUdeviceptr pointer, size_t size, int type, unsigned long long flags)
{
  gp_engine_t *engine = gp_library_engine();
  bool is_one = is_mapped_as_one(engine, pointer, size);
  CUdeviceptr seen = is_one ? pointer : exported(pointer, size);
  CUresult result = GP_REAL_CALL(cuMemGetHandleForAddressRange, handle, seen, size, type, flags);
  if (!is_one)
    return tainted(result, pointer);
  /* From now on cudaMalloc gets no mapped memory, and free mapped memory is released to the driver. */
  if (result == CUDA_SUCCESS)
    gp_engine_expect_exports(engine);
  return result;
}

CUresult CUDAAPI hook_cuMulticastBindAddr(
    unsigned long long multicast, size_t offset, CUdeviceptr pointer, size_t size, unsigned long long flags)
{
  (void)gp_library_engine(); /* binds the driver */
  return tainted(
      GP_REAL_CALL(cuMulticastBindAddr, multicast, offset, exported(pointer, size), size, flags), pointer);
}

CUresult CUDAAPI hook_cuMulticastBindAddr_v2(unsigned long long multicast, CUdevice device, size_t offset,
    CUdeviceptr pointer, size_t size, unsigned long long flags)
{
  (void)gp_library_engine(); /* binds the driver */
  return tainted(
      GP_REAL_CALL(cuMulticastBindAddr_v2, multicast, device, offset, exported(pointer, size), size, flags),
      pointer);
}

/* Binds memory to an endpoint. Peers then access the memory unordered with all streams of this process. */
CUresult CUDAAPI hook_cuLogicalEndpointBindAddr(unsigned endpoint, CUdevice device, cuuint64_t offset,
    void *pointer, cuuint64_t size, unsigned long long flags)
{
  (void)gp_library_engine(); /* binds the driver */
  void *seen = (void *)(uintptr_t)exported((CUdeviceptr)(uintptr_t)pointer, (size_t)size);
  return tainted(GP_REAL_CALL(cuLogicalEndpointBindAddr, endpoint, device, offset, seen, size, flags),
      (CUdeviceptr)(uintptr_t)pointer);
}

CUresult CUDAAPI hook_cuPointerSetAttribute(
    const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
  (void)gp_library_engine(); /* binds the driver */
  return tainted(GP_REAL_CALL(cuPointerSetAttribute, value, attribute, exported(pointer, 1)), pointer);
}

/* Finds the program's block that contains the pointer, if the block is a part of larger driver memory.
 * Returns false if there is none. The driver knows only the larger memory: a segment, or mapped pieces, which
 * belong to no context and may be smaller than the block. */
static bool find_part(gp_engine_t *engine, CUdeviceptr pointer, gp_part_t *ret_part)
{
  return engine && gp_engine_part(engine, (uint64_t)pointer, ret_part) && ret_part->is_used;
}

/*
 * Returns the value of IS_LEGACY_CUDA_IPC_CAPABLE, which libraries query for two reasons. UCX queries it
 * together with the handle types, to choose how to share the memory. For a block that cannot be shared the
 * value is 0, and UCX copies instead. NCCL queries it alone, to distinguish memory of cudaMalloc from memory
 * of cuMemCreate: a part of larger memory counts as memory of cudaMalloc.
 */
static unsigned answer_sharing(gp_engine_t *engine, const gp_part_t *part, bool is_to_share)
{
  if (is_async(part))
    return 0;
  bool is_refused = is_to_share && (part->is_mapped || is_inside_segment(part));
  if (is_refused)
    refuse(engine, part->is_mapped);
  return !is_refused;
}

/* Returns the size that the program requested of a whole driver allocation, if it ends in a red zone
 * (pool/serve/damage.h), so that a program that writes up to the reported size does not write there. */
static size_t without_red_zone(gp_engine_t *engine, CUdeviceptr pointer, size_t size)
{
  CUdeviceptr base;
  uint64_t requested = 0;

  if (engine && GP_REAL_CALL(cuMemGetAddressRange_v2, &base, NULL, pointer) == CUDA_SUCCESS)
    requested = gp_engine_checked_size(engine, (uint64_t)base);
  return requested ? (size_t)requested : size;
}

static void correct_part(
    gp_engine_t *engine, void *data, CUpointer_attribute attribute, CUdeviceptr pointer, bool is_to_share)
{
  bool differs = attribute == CU_POINTER_ATTRIBUTE_CONTEXT ||
                 attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE ||
                 attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
                 attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
                 attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
  gp_part_t part;

  if (data && attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
    *(size_t *)data = without_red_zone(engine, pointer, *(size_t *)data);
  if (!data || !differs || !find_part(engine, pointer, &part))
    return;
  if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
    *(CUcontext *)data = part.context;
  else if (attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)
    *(unsigned *)data = answer_sharing(engine, &part, is_to_share);
  else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
    *(CUdeviceptr *)data = (CUdeviceptr)part.address;
  else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
    *(size_t *)data = (size_t)part.size;
  else if (is_async(&part))
    *(CUmemoryPool *)data = gp_mempool_default(part.device);
}

/* Treats a query of peer-to-peer tokens as an export: it sets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS and gives a
 * third party access to the memory. */
CUresult CUDAAPI hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
  bool exports = attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS;

  gp_engine_t *engine = gp_library_engine();
  CUdeviceptr seen = exports ? exported(pointer, 1) : visible(engine, pointer);
  CUresult result = GP_REAL_CALL(cuPointerGetAttribute, data, attribute, seen);
  if (result == CUDA_SUCCESS)
    correct_part(engine, data, attribute, pointer, false);
  return exports ? tainted(result, pointer) : result;
}

CUresult CUDAAPI hook_cuPointerGetAttributes(
    unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
  gp_engine_t *engine = gp_library_engine();
  bool exports = false, is_to_share = false;

  for (unsigned i = 0; attributes && i < count; i++) {
    exports |= attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS;
    is_to_share |= attributes[i] == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES;
  }
  CUdeviceptr seen = exports ? exported(pointer, 1) : visible(engine, pointer);
  CUresult result = GP_REAL_CALL(cuPointerGetAttributes, count, attributes, data, seen);
  for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++)
    correct_part(engine, data[i], attributes[i], pointer, is_to_share);
  return exports ? tainted(result, pointer) : result;
}

/* Returns the block's own range if the block is a part of larger driver memory. For a whole driver allocation
 * the size is the driver's (doc/interception.md). */
CUresult CUDAAPI hook_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
  gp_engine_t *engine = gp_library_engine();
  gp_part_t part;
  bool is_part = find_part(engine, pointer, &part);

  CUresult result =
      GP_REAL_CALL(cuMemGetAddressRange_v2, base, size, is_part ? pointer : visible(engine, pointer));
  if (is_part && result == CUDA_SUCCESS && base)
    *base = (CUdeviceptr)part.address;
  if (result == CUDA_SUCCESS && size)
    *size = is_part ? (size_t)part.size : without_red_zone(engine, pointer, *size);
  return result;
}
