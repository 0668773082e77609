/*
 * Contexts: that they exist must be known before they submit work (the reuse rules ask all of them), and when they end
 * their memory is gone.
 */
#include "interpose/current.h"
#include "interpose/hooks.h"
#include "interpose/library.h"
#include "interpose/real.h"

static CUresult created(CUresult result, CUcontext *context)
{
  if (result == CUDA_SUCCESS && context) {
    gp_engine_t *engine = gp_library_engine();
    gp_user_context_created(*context);
    if (engine)
      (void)gp_current_context(engine); /* the new context is current: this files it */
  }
  return result;
}

CUresult CUDAAPI hook_cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
  (void)gp_library_engine(); /* binds */
  return created(GP_REAL_CALL(cuCtxCreate, context, flags, device), context);
}

CUresult CUDAAPI hook_cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
  (void)gp_library_engine();
  return created(GP_REAL_CALL(cuCtxCreate_v2, context, flags, device), context);
}

CUresult CUDAAPI hook_cuCtxCreate_v3(
    CUcontext *context, void *affinity, int affinity_count, unsigned flags, CUdevice device)
{
  (void)gp_library_engine();
  return created(GP_REAL_CALL(cuCtxCreate_v3, context, affinity, affinity_count, flags, device), context);
}

CUresult CUDAAPI hook_cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned flags, CUdevice device)
{
  (void)gp_library_engine();
  return created(GP_REAL_CALL(cuCtxCreate_v4, context, parameters, flags, device), context);
}

static CUresult made_current(CUresult result, CUcontext context)
{
  gp_engine_t *engine = result == CUDA_SUCCESS && context ? gp_library_engine() : NULL;
  if (engine)
    (void)gp_current_context(engine);
  return result;
}

CUresult CUDAAPI hook_cuCtxSetCurrent(CUcontext context)
{
  (void)gp_library_engine();
  return made_current(GP_REAL_CALL(cuCtxSetCurrent, context), context);
}

CUresult CUDAAPI hook_cuCtxPushCurrent(CUcontext context)
{
  (void)gp_library_engine();
  return made_current(GP_REAL_CALL(cuCtxPushCurrent, context), context);
}

CUresult CUDAAPI hook_cuCtxPushCurrent_v2(CUcontext context)
{
  (void)gp_library_engine();
  return made_current(GP_REAL_CALL(cuCtxPushCurrent_v2, context), context);
}

/* Forgets the context's memory after the driver has destroyed it. */
static CUresult destroyed(CUresult result, CUcontext handle, gp_engine_t *engine, gp_context_t *context)
{
  if (result == CUDA_SUCCESS) {
    gp_user_context_destroyed(handle);
    if (engine)
      gp_engine_context_lost(engine, context);
  }
  return result;
}

CUresult CUDAAPI hook_cuCtxDestroy(CUcontext handle)
{
  gp_engine_t *engine = gp_library_engine();
  gp_context_t *context = engine && handle ? gp_known_context(engine, handle) : NULL;
  return destroyed(GP_REAL_CALL(cuCtxDestroy, handle), handle, engine, context);
}

CUresult CUDAAPI hook_cuCtxDestroy_v2(CUcontext handle)
{
  gp_engine_t *engine = gp_library_engine();
  gp_context_t *context = engine && handle ? gp_known_context(engine, handle) : NULL;
  return destroyed(GP_REAL_CALL(cuCtxDestroy_v2, handle), handle, engine, context);
}

/* Deprecated counterpart of cuCtxAttach: destroys with the last reference. Whether it did, the driver's id tells. */
CUresult CUDAAPI hook_cuCtxDetach(CUcontext handle)
{
  gp_engine_t *engine = gp_library_engine();
  gp_context_t *context = engine && handle ? gp_known_context(engine, handle) : NULL;
  unsigned long long id;

  CUresult result = GP_REAL_CALL(cuCtxDetach, handle);
  if (result == CUDA_SUCCESS && GP_REAL(cuCtxGetId) && GP_REAL(cuCtxGetId)(handle, &id) == CUDA_SUCCESS)
    return result; /* lives on */
  return destroyed(result, handle, engine, context);
}

static CUresult primary_reset(CUresult result, gp_engine_t *engine, CUdevice device)
{
  if (result == CUDA_SUCCESS && engine && device >= 0 && device < GP_MAX_DEVICES)
    gp_engine_primary_lost(engine, device);
  return result;
}

CUresult CUDAAPI hook_cuDevicePrimaryCtxReset(CUdevice device)
{
  gp_engine_t *engine = gp_library_engine();
  return primary_reset(GP_REAL_CALL(cuDevicePrimaryCtxReset, device), engine, device);
}

CUresult CUDAAPI hook_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
  gp_engine_t *engine = gp_library_engine();
  return primary_reset(GP_REAL_CALL(cuDevicePrimaryCtxReset_v2, device), engine, device);
}

/* The last release resets the context; the driver says whether it was the last. */
static CUresult primary_released(CUresult result, gp_engine_t *engine, CUdevice device)
{
  unsigned flags;
  int active = 0;

  if (result != CUDA_SUCCESS || !engine ||
      (GP_REAL_CALL(cuDevicePrimaryCtxGetState, device, &flags, &active) == CUDA_SUCCESS && active))
    return result;
  return primary_reset(result, engine, device);
}

CUresult CUDAAPI hook_cuDevicePrimaryCtxRelease(CUdevice device)
{
  gp_engine_t *engine = gp_library_engine();
  return primary_released(GP_REAL_CALL(cuDevicePrimaryCtxRelease, device), engine, device);
}

CUresult CUDAAPI hook_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
  gp_engine_t *engine = gp_library_engine();
  return primary_released(GP_REAL_CALL(cuDevicePrimaryCtxRelease_v2, device), engine, device);
}
