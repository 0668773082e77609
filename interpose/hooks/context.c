/* Hooks of contexts. The pool must know each context before work is submitted to it, because reuse needs a
 * completion proof for every context. When a context ends, the driver frees its memory. */
#include <stdatomic.h>

#include "interpose/hooks/current_context.h"
#include "interpose/hooks/forward.h"
#include "interpose/hooks/hooks.h"
#include "interpose/library.h"
#include "interpose/routes/real.h"
#include "base/cancel.h"
#include "base/log.h"

static CUresult created(CUresult result, CUcontext *context)
{
  if (result == CUDA_SUCCESS && context) {
    gp_engine_t *engine = gp_library_engine();
    gp_user_context_created(*context);
    if (engine)
      (void)gp_current_context(engine); /* creates the record of the new context, which is current */
  }
  return result;
}

/* Creates a context. The driver allocates device memory for the context, so the call must not fail because of
 * memory that the pool keeps. */
#define CREATE_CONTEXT(symbol, context, device, ...)                                                         \
  CUresult result;                                                                                           \
  GP_FORWARD_HIDDEN_ON(result, device, GP_REAL_CALL(symbol, context, __VA_ARGS__));                          \
  return created(result, context)

CUresult CUDAAPI hook_cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
  CREATE_CONTEXT(cuCtxCreate, context, device, flags, device);
}

CUresult CUDAAPI hook_cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
  CREATE_CONTEXT(cuCtxCreate_v2, context, device, flags, device);
}

CUresult CUDAAPI hook_cuCtxCreate_v3(
    CUcontext *context, void *affinity, int affinity_count, unsigned flags, CUdevice device)
{
  CREATE_CONTEXT(cuCtxCreate_v3, context, device, affinity, affinity_count, flags, device);
}

CUresult CUDAAPI hook_cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned flags, CUdevice device)
{
  CREATE_CONTEXT(cuCtxCreate_v4, context, device, parameters, flags, device);
}

static CUresult made_current(gp_engine_t *engine, CUresult result, CUcontext context)
{
  if (engine && result == CUDA_SUCCESS && context)
    (void)gp_current_context(engine);
  return result;
}

CUresult CUDAAPI hook_cuCtxSetCurrent(CUcontext context)
{
  gp_engine_t *engine = gp_library_engine();
  return made_current(engine, GP_REAL_CALL(cuCtxSetCurrent, context), context);
}

CUresult CUDAAPI hook_cuCtxPushCurrent(CUcontext context)
{
  gp_engine_t *engine = gp_library_engine();
  return made_current(engine, GP_REAL_CALL(cuCtxPushCurrent, context), context);
}

CUresult CUDAAPI hook_cuCtxPushCurrent_v2(CUcontext context)
{
  gp_engine_t *engine = gp_library_engine();
  return made_current(engine, GP_REAL_CALL(cuCtxPushCurrent_v2, context), context);
}

/* Creates the record of the context that is current after a pop. The library may see two contexts here for
 * the first time. The popped context is new if a function that is missing from the tables made it current;
 * the entry into the library has then recorded it (after_unknown.h). The context below it may be new, too. */
static CUresult popped(gp_engine_t *engine, CUresult result)
{
  if (engine && result == CUDA_SUCCESS)
    (void)gp_current_context(engine);
  return result;
}

CUresult CUDAAPI hook_cuCtxPopCurrent(CUcontext *context)
{
  gp_engine_t *engine = gp_library_engine();
  return popped(engine, GP_REAL_CALL(cuCtxPopCurrent, context));
}

CUresult CUDAAPI hook_cuCtxPopCurrent_v2(CUcontext *context)
{
  gp_engine_t *engine = gp_library_engine();
  return popped(engine, GP_REAL_CALL(cuCtxPopCurrent_v2, context));
}

/* Notes that the current context's device can access the peer's memory. In the driver this covers only memory
 * of cuMemAlloc: access to mapped memory is set for each range. */
static void note_peer(gp_engine_t *engine, CUcontext peer)
{
  CUdevice device;
  gp_context_t *context = gp_synchronized_context(engine, peer);

  if (context && GP_REAL_CALL(cuCtxGetDevice, &device) == CUDA_SUCCESS && device >= 0 &&
      device < GP_MAX_DEVICES)
    gp_engine_peer_enabled(engine, context, device);
}

CUresult CUDAAPI hook_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
  gp_engine_t *engine = gp_library_engine();
  if (engine) /* creates the record of the context that will access the peer's memory */
    (void)gp_current_context(engine);
  CUresult result = GP_REAL_CALL(cuCtxEnablePeerAccess, peer, flags);
  if (engine && result == CUDA_SUCCESS)
    note_peer(engine, peer);
  return result;
}

/*
 * Stops pooling because of a green context whose work the completion proofs of the primary context do not
 * cover (current_context.h). Called before the driver's call that lets the program use the green context, so
 * that the pool reuses no block in between.
 */
static void forward_for_green(void)
{
  static atomic_flag has_reported = ATOMIC_FLAG_INIT;

  if (!atomic_flag_test_and_set(&has_reported)) {
    gp_log(GP_LOG_ERROR,
        "the program uses green contexts that gpupool cannot follow: it needs driver 12.5, and has to see their creation; nothing is pooled");
    gp_library_stop_pooling();
  }
}

CUresult CUDAAPI hook_cuGreenCtxCreate(void **green, void *description, CUdevice device, unsigned flags)
{
  gp_engine_t *engine = gp_library_engine(); /* binds the driver */
  CUresult result = GP_REAL_CALL(cuGreenCtxCreate, green, description, device, flags);
  if (engine && result == CUDA_SUCCESS && !gp_green_context_created(engine, *green, device))
    forward_for_green();
  return result;
}

CUresult CUDAAPI hook_cuGreenCtxStreamCreate(CUstream *stream, void *green, unsigned flags, int priority)
{
  if (gp_library_engine() && !gp_green_context_is_known(green))
    forward_for_green();
  return GP_REAL_CALL(cuGreenCtxStreamCreate, stream, green, flags, priority);
}

CUresult CUDAAPI hook_cuCtxFromGreenCtx(CUcontext *context, void *green)
{
  gp_engine_t *engine = gp_library_engine(); /* binds the driver */
  if (engine && !gp_green_context_is_known(green))
    forward_for_green();
  CUresult result = GP_REAL_CALL(cuCtxFromGreenCtx, context, green);
  if (engine && result == CUDA_SUCCESS)
    gp_green_context_converted(green, *context);
  return result;
}

/*
 * State for the destruction of a context. During the driver's call the pool is suspended, because no other
 * thread may wait for the context or query its fences for the pool. The pool forgets the context's memory
 * only after the driver's success: if the driver refuses, nothing has changed.
 */
typedef struct ending {
  gp_engine_t *engine; /* NULL: there is nothing to do */
  gp_context_t *context;
  CUcontext handle;
} ending_t;

static ending_t begin_destroy(CUcontext handle)
{
  ending_t ending = {gp_library_engine(), NULL, handle};
  if (ending.engine) {
    /* Finds the context by its handle alone, because every record with that handle is invalid afterwards. */
    ending.context = handle ? gp_engine_find_context(ending.engine, handle) : NULL;
    gp_engine_search_ending(ending.engine, ending.context);
    gp_engine_async_leave(ending.engine, ending.context);
    gp_engine_suspend(ending.engine);
  }
  return ending;
}

/* Resumes the pool after the thread was cancelled in the driver's call. If the context has ended, the next
 * driver call about the context reveals that. */
static void leave_ending(void *arg)
{
  const ending_t *ending = arg;
  if (ending->engine)
    gp_engine_resume(ending->engine);
}

static CUresult end_destroy(const ending_t *ending, CUresult result)
{
  if (result == CUDA_SUCCESS) {
    gp_user_context_destroyed(ending->handle);
    if (ending->engine)
      gp_engine_context_lost(ending->engine, ending->context);
  }
  if (ending->engine)
    gp_engine_resume(ending->engine);
  return result;
}

CUresult CUDAAPI hook_cuCtxDestroy(CUcontext handle)
{
  ending_t ending = begin_destroy(handle);
  CUresult result;
  GP_CANCEL_UNDO(result, GP_REAL_CALL(cuCtxDestroy, handle), leave_ending, &ending);
  return end_destroy(&ending, result);
}

CUresult CUDAAPI hook_cuCtxDestroy_v2(CUcontext handle)
{
  ending_t ending = begin_destroy(handle);
  CUresult result;
  GP_CANCEL_UNDO(result, GP_REAL_CALL(cuCtxDestroy_v2, handle), leave_ending, &ending);
  return end_destroy(&ending, result);
}

/* Deprecated counterpart of cuCtxAttach: releases a reference, and destroys the context if it was the last
 * one. A destroyed context no longer has an id. */
CUresult CUDAAPI hook_cuCtxDetach(CUcontext handle)
{
  ending_t ending = begin_destroy(handle);
  unsigned long long id;
  CUresult result;

  GP_CANCEL_UNDO(result, GP_REAL_CALL(cuCtxDetach, handle), leave_ending, &ending);
  if (result != CUDA_SUCCESS || !GP_REAL(cuCtxGetId) || GP_REAL(cuCtxGetId)(handle, &id) != CUDA_SUCCESS)
    return end_destroy(&ending, result);
  if (ending.engine)
    gp_engine_resume(ending.engine); /* other references exist */
  return result;
}

static ending_t begin_reset(void)
{
  ending_t ending = {gp_library_engine(), NULL, NULL};
  if (ending.engine)
    gp_engine_suspend(ending.engine);
  return ending;
}

static CUresult end_reset(const ending_t *ending, CUdevice device, CUresult result)
{
  if (ending->engine && result == CUDA_SUCCESS && device >= 0 && device < GP_MAX_DEVICES)
    gp_engine_primary_lost(ending->engine, device);
  if (ending->engine)
    gp_engine_resume(ending->engine);
  return result;
}

/* Releases memory before the primary context ends; releases nothing if the device has other contexts. */
static void leave_device(CUdevice device)
{
  gp_engine_t *engine = gp_library_engine();
  gp_context_t *context = engine ? gp_engine_device_context(engine, device) : NULL;

  if (engine) {
    gp_engine_search_ending(engine, context);
    gp_engine_async_leave(engine, context);
  }
}

CUresult CUDAAPI hook_cuDevicePrimaryCtxReset(CUdevice device)
{
  leave_device(device);
  ending_t ending = begin_reset();
  CUresult result;
  GP_CANCEL_UNDO(result, GP_REAL_CALL(cuDevicePrimaryCtxReset, device), leave_ending, &ending);
  return end_reset(&ending, device, result);
}

CUresult CUDAAPI hook_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
  leave_device(device);
  ending_t ending = begin_reset();
  CUresult result;
  GP_CANCEL_UNDO(result, GP_REAL_CALL(cuDevicePrimaryCtxReset_v2, device), leave_ending, &ending);
  return end_reset(&ending, device, result);
}

/* Returns true if the device's primary context is active. The last release resets the context, and only the
 * driver knows which release was the last. A single failed query proves nothing, and the pool might forget a
 * live context, so the function queries up to three times. A driver that has ended fails each time. */
static bool primary_is_active(CUdevice device)
{
  unsigned flags;
  int active;

  for (int i = 0; i < 3; i++) {
    if (GP_REAL_CALL(cuDevicePrimaryCtxGetState, device, &flags, &active) == CUDA_SUCCESS)
      return active;
  }
  return false;
}

static CUresult end_release(const ending_t *ending, CUdevice device, CUresult result)
{
  if (!ending->engine || result != CUDA_SUCCESS || !primary_is_active(device))
    return end_reset(ending, device, result);
  gp_engine_resume(ending->engine);
  return result;
}

CUresult CUDAAPI hook_cuDevicePrimaryCtxRelease(CUdevice device)
{
  ending_t ending = begin_reset();
  CUresult result;
  GP_CANCEL_UNDO(result, GP_REAL_CALL(cuDevicePrimaryCtxRelease, device), leave_ending, &ending);
  return end_release(&ending, device, result);
}

CUresult CUDAAPI hook_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
  ending_t ending = begin_reset();
  CUresult result;
  GP_CANCEL_UNDO(result, GP_REAL_CALL(cuDevicePrimaryCtxRelease_v2, device), leave_ending, &ending);
  return end_release(&ending, device, result);
}

/* Destroys a green context. A green context has a reference to its device's primary context, perhaps the last
 * one. Its handle does not reveal the device, so the hook checks the primary contexts of all devices. */
CUresult CUDAAPI hook_cuGreenCtxDestroy(void *green)
{
  ending_t ending = begin_reset();
  CUcontext converted = NULL;
  CUresult result;

  if (ending.engine &&
      (!GP_REAL(cuCtxFromGreenCtx) || GP_REAL(cuCtxFromGreenCtx)(&converted, green) != CUDA_SUCCESS))
    converted = NULL;
  if (converted)
    ending.context = gp_engine_find_context(ending.engine, converted);
  gp_green_t *known = gp_green_context_take(green);
  GP_CANCEL_UNDO(result, GP_REAL_CALL(cuGreenCtxDestroy, green), leave_ending, &ending);
  gp_green_context_taken(known, result == CUDA_SUCCESS);
  if (ending.engine && result == CUDA_SUCCESS) {
    gp_engine_context_lost(ending.engine, ending.context);
    for (uint64_t devices = gp_engine_devices(ending.engine); devices; devices &= devices - 1)
      if (!primary_is_active(__builtin_ctzll(devices)))
        gp_engine_primary_lost(ending.engine, __builtin_ctzll(devices));
  }
  if (ending.engine)
    gp_engine_resume(ending.engine);
  return result;
}
