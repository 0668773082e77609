/*
 * Device memory that is not pooled: pitch, managed, stream-ordered.
 */
#include "interpose/hooks.h"
#include "interpose/library.h"
#include "interpose/passthrough.h"
#include "interpose/real.h"

/* Pitches are multiples of 512 on the devices of today (CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT divides it). */
#define PITCH_STEP 512

typedef struct pitch_call {
  CUdeviceptr *pointer;
  size_t *pitch;
  size_t width;
  size_t height;
  unsigned element;
} pitch_call_t;

static CUresult call_pitch(void *arg)
{
  const pitch_call_t *call = arg;
  return GP_REAL_CALL(cuMemAllocPitch_v2, call->pointer, call->pitch, call->width, call->height, call->element);
}

CUresult CUDAAPI hook_cuMemAllocPitch_v2(
    CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
  pitch_call_t arguments = {pointer, pitch, width, height, element};
  size_t least;
  /* The pitch is the driver's secret until it answers: rows are counted with the largest that it is known to use. */
  size_t row = width > SIZE_MAX - (PITCH_STEP - 1) ? width : (width + PITCH_STEP - 1) / PITCH_STEP * PITCH_STEP;
  bool overflow = __builtin_mul_overflow(row, height, &least);
  return gp_passthrough_alloc(&(gp_passthrough_call_t){.call = call_pitch,
      .arg = &arguments,
      .pointer = pointer,
      .bytes = overflow ? 0 : least,
      .kind = GP_DETAIL_PASS_PITCH});
}

typedef struct managed_call {
  CUdeviceptr *pointer;
  size_t bytes;
  unsigned flags;
} managed_call_t;

static CUresult call_managed(void *arg)
{
  const managed_call_t *call = arg;
  return GP_REAL_CALL(cuMemAllocManaged, call->pointer, call->bytes, call->flags);
}

CUresult CUDAAPI hook_cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags)
{
  managed_call_t arguments = {pointer, bytes, flags};
  return gp_passthrough_alloc(&(gp_passthrough_call_t){.call = call_managed,
      .arg = &arguments,
      .pointer = pointer,
      .bytes = bytes,
      .kind = GP_DETAIL_PASS_MANAGED});
}

/* The four stream-ordered allocations: function is the driver's, with or without a memory pool. */
typedef struct async_call {
  gp_function_t function;
  CUdeviceptr *pointer;
  size_t bytes;
  CUmemoryPool pool;
  CUstream stream;
} async_call_t;

static CUresult call_async(void *arg)
{
  const async_call_t *call = arg;
  void *function = gp_real_get(call->function);

  if (!function)
    return CUDA_ERROR_NOT_FOUND;
  if (call->function == GP_FN_cuMemAllocAsync || call->function == GP_FN_cuMemAllocAsync_ptsz)
    return ((gp_fn_cuMemAllocAsync)function)(call->pointer, call->bytes, call->stream);
  return ((gp_fn_cuMemAllocFromPoolAsync)function)(call->pointer, call->bytes, call->pool, call->stream);
}

static CUresult alloc_async(async_call_t arguments, gp_detail_t kind)
{
  return gp_passthrough_alloc(&(gp_passthrough_call_t){.call = call_async,
      .arg = &arguments,
      .pointer = arguments.pointer,
      .bytes = arguments.bytes,
      .kind = kind,
      .stream = arguments.stream,
      .has_stream = true});
}

CUresult CUDAAPI hook_cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
  return alloc_async(
      (async_call_t){GP_FN_cuMemAllocAsync, pointer, bytes, NULL, stream}, GP_DETAIL_PASS_ASYNC);
}

CUresult CUDAAPI hook_cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
  return alloc_async(
      (async_call_t){GP_FN_cuMemAllocAsync_ptsz, pointer, bytes, NULL, stream}, GP_DETAIL_PASS_ASYNC);
}

CUresult CUDAAPI hook_cuMemAllocFromPoolAsync(
    CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
  return alloc_async(
      (async_call_t){GP_FN_cuMemAllocFromPoolAsync, pointer, bytes, pool, stream}, GP_DETAIL_PASS_MEMPOOL);
}

CUresult CUDAAPI hook_cuMemAllocFromPoolAsync_ptsz(
    CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
  return alloc_async(
      (async_call_t){GP_FN_cuMemAllocFromPoolAsync_ptsz, pointer, bytes, pool, stream}, GP_DETAIL_PASS_MEMPOOL);
}

typedef struct free_async_call {
  gp_function_t function;
  CUdeviceptr pointer;
  CUstream stream;
} free_async_call_t;

static int call_free_async(void *arg)
{
  const free_async_call_t *call = arg;
  void *function = gp_real_get(call->function);
  return function ? (int)((gp_fn_cuMemFreeAsync)function)(call->pointer, call->stream) : CUDA_ERROR_NOT_FOUND;
}

static CUresult free_async(free_async_call_t arguments)
{
  gp_engine_t *engine = gp_library_engine();
  int code;

  if (!engine)
    return (CUresult)call_free_async(&arguments);
  /* Memory of cuMemAlloc may be freed in stream order too; then the block leaves the pool. */
  if (gp_engine_free_with(engine, (uint64_t)arguments.pointer, call_free_async, &arguments, &code) == GP_FREE_DONE)
    return (CUresult)code;
  return gp_passthrough_free(engine, arguments.pointer, call_free_async, &arguments);
}

CUresult CUDAAPI hook_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
  return free_async((free_async_call_t){GP_FN_cuMemFreeAsync, pointer, stream});
}

CUresult CUDAAPI hook_cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
  return free_async((free_async_call_t){GP_FN_cuMemFreeAsync_ptsz, pointer, stream});
}
