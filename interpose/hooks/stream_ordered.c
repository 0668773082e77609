/*
 * Stream-ordered memory and the driver's pools that it comes from. Forwarded and counted.
 */
#include "interpose/hooks/current_context.h"
#include "interpose/hooks/hooks.h"
#include "interpose/library.h"
#include "interpose/hooks/mempools.h"
#include "interpose/hooks/forward.h"
#include "interpose/hooks/stream_place.h"
#include "interpose/routes/real.h"

/*
 * In a stream that is being captured an allocation is a node of the graph: it holds no memory before a
 * launch, and counts then (graph.c). The question is legal during a capture (cuda.h,
 * cuStreamIsCapturing).
 */
static bool is_captured(CUstream stream, bool per_thread)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = per_thread ? GP_REAL_CALL(cuStreamIsCapturing_ptsz, stream, &status)
                               : GP_REAL_CALL(cuStreamIsCapturing, stream, &status);
  return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* pool NULL: that of the current device. */
static gp_forward_call_t call_of(
    const CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream, bool per_thread)
{
  gp_engine_t *engine = gp_library_engine();
  bool counted = engine && pointer && !(gp_engine_is_suspended(engine) && is_captured(stream, per_thread));
  gp_context_t *context = counted ? gp_current_context(engine) : NULL;
  CUmemoryPool used = context && !pool ? gp_mempool_current(gp_context_device(context)) : pool;
  gp_forward_call_t call = {.bytes = counted ? bytes : 0,
      .pool = (uint64_t)(uintptr_t)used,
      .kind = pool ? GP_FORWARDED_MEMPOOL : GP_FORWARDED_ASYNC,
      .device = GP_CURRENT_DEVICE,
      .stream = stream,
      .has_stream = true};

  if (counted && pool && gp_mempool_find(pool, &call.device) && call.device == GP_MEMPOOL_HOST) {
    call.kind = GP_FORWARDED_HOST;
    call.device = GP_CURRENT_DEVICE;
  }
  return call;
}

CUresult CUDAAPI hook_cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
  gp_forward_call_t call = call_of(pointer, bytes, NULL, stream, false);
  CUresult result;
  GP_FORWARD_ALLOC(result, &call, pointer, GP_REAL_CALL(cuMemAllocAsync, pointer, bytes, stream));
  return result;
}

CUresult CUDAAPI hook_cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
  gp_forward_call_t call = call_of(pointer, bytes, NULL, stream, true);
  CUresult result;
  GP_FORWARD_ALLOC(result, &call, pointer, GP_REAL_CALL(cuMemAllocAsync_ptsz, pointer, bytes, stream));
  return result;
}

CUresult CUDAAPI hook_cuMemAllocFromPoolAsync(
    CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
  gp_forward_call_t call = call_of(pointer, bytes, pool, stream, false);
  CUresult result;
  GP_FORWARD_ALLOC(
      result, &call, pointer, GP_REAL_CALL(cuMemAllocFromPoolAsync, pointer, bytes, pool, stream));
  return result;
}

CUresult CUDAAPI hook_cuMemAllocFromPoolAsync_ptsz(
    CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
  gp_forward_call_t call = call_of(pointer, bytes, pool, stream, true);
  CUresult result;
  GP_FORWARD_ALLOC(
      result, &call, pointer, GP_REAL_CALL(cuMemAllocFromPoolAsync_ptsz, pointer, bytes, pool, stream));
  return result;
}

typedef struct free_async_call {
  gp_function_t function;
  CUdeviceptr pointer;
  CUstream stream;
} free_async_call_t;

/*
 * The stream of a block that is cut from a segment gets an operation in the place of the free. Where it is
 * being captured, the driver answers for an address that is none of its own: natively memory that no graph
 * allocated is none that the capture could free.
 */
static int call_free_async(void *arg, bool is_cut)
{
  static const char nowhere;
  free_async_call_t own = *(const free_async_call_t *)arg;
  const free_async_call_t *call = &own;

  if (is_cut) {
    CUresult result = gp_stream_take_place(own.stream, own.function == GP_FN_cuMemFreeAsync_ptsz);
    if (result != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
      return (int)result;
    own.pointer = (CUdeviceptr)(uintptr_t)&nowhere;
  }
  void *function = gp_real_get(call->function);
  return function ? (int)((gp_fn_cuMemFreeAsync)function)(call->pointer, call->stream) : CUDA_ERROR_NOT_FOUND;
}

static CUresult free_async(free_async_call_t arguments)
{
  gp_engine_t *engine = gp_library_engine();
  CUresult result;
  int code;

  if (!engine)
    return (CUresult)call_free_async(&arguments, false);
  /* The program may free memory of cuMemAlloc in stream order, too; then the block leaves the pool. */
  if (gp_engine_free_with(engine, (uint64_t)arguments.pointer, call_free_async, &arguments, &code) ==
      GP_FREE_DONE)
    return (CUresult)code;
  GP_FORWARD_FREE(result, engine, GP_SPACE_POINTER, (uint64_t)arguments.pointer,
      (CUresult)call_free_async(&arguments, false));
  return result;
}

CUresult CUDAAPI hook_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
  return free_async((free_async_call_t){GP_FN_cuMemFreeAsync, pointer, stream});
}

CUresult CUDAAPI hook_cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
  return free_async((free_async_call_t){GP_FN_cuMemFreeAsync_ptsz, pointer, stream});
}

/* Where a pool's memory is. Managed pools (13.0) may name no place: then it counts like managed memory.
 */
static int device_of(const CUmemLocation *location)
{
  CUdevice current = 0;

  if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
    return location->id;
  if (location->type != CU_MEM_LOCATION_TYPE_INVALID)
    return GP_MEMPOOL_HOST;
  (void)GP_REAL_CALL(cuCtxGetDevice, &current);
  return current;
}

CUresult CUDAAPI hook_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
  gp_engine_t *engine = gp_library_engine();
  CUresult result = GP_REAL_CALL(cuMemPoolCreate, pool, properties);

  if (engine && result == CUDA_SUCCESS)
    gp_mempool_created(*pool, device_of(&properties->location));
  return result;
}

/* The driver's own pools of host memory and of managed memory: the library learns of them when the program
 * asks for them. */
static CUresult named(CUresult result, const CUmemoryPool *pool, const CUmemLocation *location)
{
  gp_engine_t *engine = gp_library_engine();
  int device;

  if (engine && result == CUDA_SUCCESS && !gp_mempool_find(*pool, &device))
    gp_mempool_created(*pool, device_of(location));
  return result;
}

CUresult CUDAAPI hook_cuMemGetDefaultMemPool(
    CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
  (void)gp_library_engine(); /* binds */
  return named(GP_REAL_CALL(cuMemGetDefaultMemPool, pool, location, type), pool, location);
}

CUresult CUDAAPI hook_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
  (void)gp_library_engine();
  return named(GP_REAL_CALL(cuMemGetMemPool, pool, location, type), pool, location);
}

CUresult CUDAAPI hook_cuMemPoolDestroy(CUmemoryPool pool)
{
  gp_engine_t *engine = gp_library_engine();
  int device;
  bool known = engine && gp_mempool_forget(pool, &device);

  /* Before the call, since the driver may then give the handle to another thread. If it refuses, this memory
   * counts twice. */
  if (known)
    gp_engine_mempool_gone(engine, (uint64_t)(uintptr_t)pool);
  CUresult result = GP_REAL_CALL(cuMemPoolDestroy, pool);
  if (known && result != CUDA_SUCCESS)
    gp_mempool_created(pool, device);
  return result;
}
