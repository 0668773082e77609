/*
 * Hooks of cuMemAlloc, cuMemFree, cuMemGetInfo and cuCtxSynchronize, which the pool serves.
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

/* Frees managed, stream-ordered, graph or imported memory; for an interior or unknown pointer the driver
 * decides. */
static GP_CANCEL_NOINLINE CUresult free_in_driver(gp_engine_t *engine, CUdeviceptr pointer)
{
  CUresult result;
  GP_FORWARD_FREE(result, engine, GP_SPACE_POINTER, (uint64_t)pointer, GP_REAL_CALL(cuMemFree_v2, pointer));
  return result;
}

/*
 * Frees memory. The driver finds the memory by its address, and frees it in any context, or with none current
 * (NVIDIA in cuda-python's pull request 2750; Numba frees this way). The hook looks up the current context so
 * that the engine knows it from now on, because that context's work may use the block.
 */
CUresult CUDAAPI hook_cuMemFree_v2(CUdeviceptr pointer)
{
  gp_engine_t *engine = gp_library_engine();
  int code;

  if (!engine)
    return GP_REAL_CALL(cuMemFree_v2, pointer);
  gp_context_t *context = gp_current_context_by_handle(engine);
  if (gp_engine_free(engine, (uint64_t)pointer, &code) == GP_FREE_DONE) {
    gp_engine_search(engine, context);
    return (CUresult)code;
  }
  return free_in_driver(engine, pointer);
}

CUresult CUDAAPI hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
  gp_engine_t *engine = gp_library_engine();
  size_t driver_free, driver_total;

  if (!engine)
    return GP_REAL_CALL(cuMemGetInfo_v2, free_bytes, total_bytes);
  gp_context_t *context = gp_current_context(engine);
  if (context)
    gp_engine_ask_pending(engine, context);
  CUresult result = GP_REAL_CALL(cuMemGetInfo_v2, &driver_free, &driver_total);
  if (result != CUDA_SUCCESS) {
    gp_engine_note_result(engine, (int)result);
    return result;
  }
  uint64_t queried_free = driver_free;
  uint64_t reported_total = driver_total;
  if (context)
    gp_engine_translate_info(engine, context, &queried_free, &reported_total);
  if (free_bytes)
    *free_bytes = (size_t)queried_free;
  if (total_bytes)
    *total_bytes = (size_t)reported_total;
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
  if (result == CUDA_SUCCESS) {
    gp_engine_sync_end(engine, context, token);
    gp_engine_search(engine, context);
  }
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
  if (result == CUDA_SUCCESS) {
    gp_engine_sync_end(engine, context, token);
    gp_engine_search(engine, context);
  }
  gp_engine_note_result(engine, (int)result);
  return result;
}
