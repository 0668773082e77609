/* Hooks of stream-ordered memory. The library serves requests to a device's default pool from its own memory.
 * Memory of other pools is forwarded and counted. */
#include "interpose/hooks/current_context.h"
#include "interpose/hooks/hooks.h"
#include "interpose/library.h"
#include "interpose/hooks/mempool_records.h"
#include "interpose/hooks/forward.h"
#include "interpose/hooks/stream_place.h"
#include "interpose/routes/real.h"
#include "pool/reuse/stream_records.h"

/*
 * Returns true if the stream is capturing. An allocation is then a node of the graph: the node has no memory
 * before a launch, which counts the memory (graph.c).
 */
static bool is_captured(gp_engine_t *engine, CUstream stream, bool per_thread)
{
  return gp_engine_is_suspended(engine) && gp_stream_is_captured(stream, per_thread);
}

/* With GPUPOOL_ASYNC=driver, makes the default pool keep freed memory if the program uses that pool. A NULL
 * `pool` is the default pool of the context's device. */
static void keep_freed(const gp_context_t *context, CUmemoryPool pool)
{
  int device;

  if (pool ? gp_mempool_is_default(pool, &device) : context != NULL)
    gp_mempool_keep_freed(pool ? device : gp_context_device(context));
}

/* Returns a forwarded call's description. A NULL `pool` is the current pool of the current device. */
static gp_forward_call_t call_of(
    const CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream, bool per_thread)
{
  gp_engine_t *engine = gp_library_engine();
  bool counted = engine && pointer && !is_captured(engine, stream, per_thread);
  gp_context_t *context = counted ? gp_current_context(engine) : NULL;
  CUmemoryPool used = context && !pool ? gp_mempool_current(gp_context_device(context)) : pool;
  if (counted && gp_engine_forwards_async(engine))
    keep_freed(context, used);
  gp_forward_call_t call = {.bytes = counted ? bytes : 0,
      .pool = (uint64_t)(uintptr_t)used,
      .kind = pool ? GP_FORWARDED_MEMPOOL : GP_FORWARDED_ASYNC,
      .device = GP_CURRENT_DEVICE,
      .stream = stream,
      .has_stream = true};

  if (counted && pool && gp_mempool_find(pool, &call.device) && call.device == GP_MEMPOOL_HOST) {
    call.kind = GP_FORWARDED_HOST;
    call.counted = gp_forward_locked_bytes(NULL, bytes); /* upper bound: the pool packs more densely */
    call.device = GP_CURRENT_DEVICE;
  }
  return call;
}

/*
 * Finds the stream that the program passed, and its context, which may differ from the current one. Returns
 * false if the driver does not know the stream, or there is no context. The primary context's record also
 * stands for green contexts, but the default streams of a green context are not the primary context's: they
 * have no stream record.
 */
static bool order_of(gp_engine_t *engine, CUstream stream, bool per_thread, gp_stream_order_t *ret_order)
{
  uint64_t handle = (uint64_t)(uintptr_t)stream;
  gp_stream_order_t order = {.stream = handle       ? handle
                                       : per_thread ? GP_STREAM_PER_THREAD
                                                    : GP_STREAM_LEGACY};

  order.stream_record = gp_stream_record_find(engine, stream, per_thread);
  order.context =
      order.stream_record ? gp_stream_record_context(order.stream_record) : gp_stream_context(engine, stream);
  *ret_order = order;
  return order.context != NULL;
}

/* Returns true if the program's request is for the default pool of the stream's device: either `pool` is that
 * pool, or `pool` is NULL and cuMemAllocAsync uses that pool. */
static bool is_of_default_pool(const gp_stream_order_t *order, CUmemoryPool pool)
{
  int device = gp_context_device(order->context);
  int own;

  return gp_mempool_is_supported(device) && !gp_mempool_is_barred(device) &&
         (pool ? gp_mempool_is_default(pool, &own) && own == device : !gp_mempool_current(device));
}

/* Allocates from the library's own memory, and stores the program's result in *result. Returns false if the
 * library does not serve the request. */
static bool serve(
    CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream, bool per_thread, CUresult *result)
{
  gp_engine_t *engine = gp_library_engine();
  gp_stream_order_t order;
  uint64_t address;
  int code;

  if (!engine || !pointer || !gp_engine_serves_async(engine) || is_captured(engine, stream, per_thread) ||
      !order_of(engine, stream, per_thread, &order) || !is_of_default_pool(&order, pool) ||
      !gp_engine_alloc_async(engine, &order, bytes, &address, &code))
    return false;
  if (code == CUDA_SUCCESS)
    *pointer = (CUdeviceptr)address;
  *result = (CUresult)code;
  return true;
}

CUresult CUDAAPI hook_cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
  CUresult result;

  if (serve(pointer, bytes, NULL, stream, false, &result))
    return result;
  gp_forward_call_t call = call_of(pointer, bytes, NULL, stream, false);
  GP_FORWARD_ALLOC(result, &call, pointer, GP_REAL_CALL(cuMemAllocAsync, pointer, bytes, stream));
  return result;
}

CUresult CUDAAPI hook_cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
  CUresult result;

  if (serve(pointer, bytes, NULL, stream, true, &result))
    return result;
  gp_forward_call_t call = call_of(pointer, bytes, NULL, stream, true);
  GP_FORWARD_ALLOC(result, &call, pointer, GP_REAL_CALL(cuMemAllocAsync_ptsz, pointer, bytes, stream));
  return result;
}

CUresult CUDAAPI hook_cuMemAllocFromPoolAsync(
    CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
  CUresult result;

  if (pool && serve(pointer, bytes, pool, stream, false, &result))
    return result;
  gp_forward_call_t call = call_of(pointer, bytes, pool, stream, false);
  GP_FORWARD_ALLOC(
      result, &call, pointer, GP_REAL_CALL(cuMemAllocFromPoolAsync, pointer, bytes, pool, stream));
  return result;
}

CUresult CUDAAPI hook_cuMemAllocFromPoolAsync_ptsz(
    CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
  CUresult result;

  if (pool && serve(pointer, bytes, pool, stream, true, &result))
    return result;
  gp_forward_call_t call = call_of(pointer, bytes, pool, stream, true);
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
 * Frees the memory in the stream. If the block stays in the pool (is_cut), the function submits a no-op to
 * the stream instead of the driver's free. But if the stream is capturing, the function calls the driver's
 * free with an address that the driver does not know, and returns the driver's error: without the library,
 * too, a capture cannot free memory that no graph allocated.
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

  gp_stream_order_t order = {.context = NULL};

  if (!engine)
    return (CUresult)call_free_async(&arguments, false);
  bool per_thread = arguments.function == GP_FN_cuMemFreeAsync_ptsz;
  bool is_async = gp_engine_serves_async(engine) && !is_captured(engine, arguments.stream, per_thread) &&
                  order_of(engine, arguments.stream, per_thread, &order);
  uint64_t address = (uint64_t)arguments.pointer;
  gp_free_result_t freed =
      is_async ? gp_engine_free_async(engine, &order, address, call_free_async, &arguments, &code)
               : gp_engine_free_with(engine, address, call_free_async, &arguments, &code);
  if (freed == GP_FREE_DONE)
    return (CUresult)code;
  GP_FORWARD_FREE_IN(result, engine, GP_SPACE_POINTER, (uint64_t)arguments.pointer, &order,
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
