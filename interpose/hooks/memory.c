/*
 * cuMemAlloc, cuMemFree, cuMemGetInfo and cuCtxSynchronize: the pool itself.
 */
#include "interpose/hooks/current_context.h"
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/runtime_calls.h"
#include "interpose/library.h"
#include "interpose/hooks/forward.h"
#include "interpose/routes/real.h"

CUresult CUDAAPI hook_cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
  gp_engine_t *engine = gp_library_engine();
  gp_context_t *context = engine && pointer ? gp_current_context(engine) : NULL;
  uint64_t address;

  if (!context)
    return GP_REAL_CALL(cuMemAlloc_v2, pointer, bytes);
  int code = gp_engine_alloc(engine, context, bytes, &address);
  if (code == CUDA_SUCCESS) {
    *pointer = (CUdeviceptr)address;
    gp_runtime_reached_driver(context, __builtin_return_address(0));
  }
  return (CUresult)code;
}

static int call_free(void *arg, bool is_cut)
{
  const CUdeviceptr *pointer = arg;
  return is_cut ? CUDA_SUCCESS : (int)GP_REAL_CALL(cuMemFree_v2, *pointer);
}

/* Managed, stream-ordered, graph or imported memory, an interior or an unknown
 * pointer: the driver decides. */
static GP_CANCEL_NOINLINE CUresult free_in_driver(gp_engine_t *engine, CUdeviceptr pointer)
{
  CUresult result;
  GP_FORWARD_FREE(result, engine, GP_SPACE_POINTER, (uint64_t)pointer, GP_REAL_CALL(cuMemFree_v2, pointer));
  return result;
}

/*
 * cuda.h has CUDA_ERROR_INVALID_CONTEXT among the results of cuMemFree, and leaves open whether a free
 * needs a current context. So the driver decides; if it refuses, the program still has the block. The
 * driver must not see the address of a block that the pool keeps, or has cut from a larger allocation. For
 * such an address another call that needs a context gives the answer.
 */
static CUresult free_without_context(gp_engine_t *engine, CUdeviceptr pointer)
{
  CUdevice device;
  uint64_t block, segment;
  int code;

  bool is_cut = gp_engine_cut_block(engine, (uint64_t)pointer, &block, &segment);
  if (is_cut || gp_engine_owner(engine, (uint64_t)pointer) == GP_OWNER_POOL) {
    CUresult result = GP_REAL_CALL(cuCtxGetDevice, &device);
    if (result != CUDA_SUCCESS || !is_cut)
      return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
  }
  if (gp_engine_free_with(engine, (uint64_t)pointer, call_free, &pointer, &code) == GP_FREE_DONE)
    return (CUresult)code;
  return free_in_driver(engine, pointer);
}

CUresult CUDAAPI hook_cuMemFree_v2(CUdeviceptr pointer)
{
  gp_engine_t *engine = gp_library_engine();
  int code;

  if (!engine)
    return GP_REAL_CALL(cuMemFree_v2, pointer);
  if (!gp_has_current_context(engine))
    return free_without_context(engine, pointer);
  if (gp_engine_free(engine, (uint64_t)pointer, &code) == GP_FREE_DONE)
    return (CUresult)code;
  return free_in_driver(engine, pointer);
}

CUresult CUDAAPI hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
  gp_engine_t *engine = gp_library_engine();
  size_t driver_free, driver_total;

  if (!engine)
    return GP_REAL_CALL(cuMemGetInfo_v2, free_bytes, total_bytes);
  CUresult result = GP_REAL_CALL(cuMemGetInfo_v2, &driver_free, &driver_total);
  if (result != CUDA_SUCCESS) {
    gp_engine_note_result(engine, (int)result);
    return result;
  }
  uint64_t told_free = driver_free;
  uint64_t told_total = driver_total;
  gp_context_t *context = gp_current_context(engine);
  if (context)
    gp_engine_translate_info(engine, context, &told_free, &told_total);
  if (free_bytes)
    *free_bytes = (size_t)told_free;
  if (total_bytes)
    *total_bytes = (size_t)told_total;
  return result;
}

CUresult CUDAAPI hook_cuCtxSynchronize(void)
{
  gp_engine_t *engine = gp_library_engine();
  gp_context_t *context = engine ? gp_synchronized_context(engine, NULL) : NULL;

  if (!context)
    return GP_REAL_CALL(cuCtxSynchronize);
  uint64_t token = gp_engine_sync_begin(engine);
  CUresult result = GP_REAL_CALL(cuCtxSynchronize);
  if (result == CUDA_SUCCESS)
    gp_engine_sync_end(engine, context, token);
  gp_engine_note_result(engine, (int)result);
  return result;
}

CUresult CUDAAPI hook_cuCtxSynchronize_v2(CUcontext handle)
{
  gp_engine_t *engine = gp_library_engine();
  gp_context_t *context = engine ? gp_synchronized_context(engine, handle) : NULL;

  if (!context)
    return GP_REAL_CALL(cuCtxSynchronize_v2, handle);
  uint64_t token = gp_engine_sync_begin(engine);
  CUresult result = GP_REAL_CALL(cuCtxSynchronize_v2, handle);
  if (result == CUDA_SUCCESS)
    gp_engine_sync_end(engine, context, token);
  gp_engine_note_result(engine, (int)result);
  return result;
}
