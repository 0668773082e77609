#include "interpose/current.h"

#include <pthread.h>

#include "interpose/real.h"
#include "pool/address_map.h"

/*
 * Handles of contexts are used again after a context has ended, so a record is trusted only while the driver's id of
 * the handle is the one that it was made with (cuCtxGetId, CUDA 12.0: unique for the life of the program). Drivers
 * before that have no id; there the hooks on the calls that end contexts must do.
 */
static _Thread_local struct {
  CUcontext handle;
  unsigned long long id;
  gp_context_t *context;
} seen __attribute__((tls_model("initial-exec")));

static pthread_once_t user_once = PTHREAD_ONCE_INIT;
static gp_address_map_t user_contexts;

static void init_user_contexts(void)
{
  gp_address_map_init(&user_contexts);
}

void gp_user_context_created(CUcontext handle)
{
  pthread_once(&user_once, init_user_contexts);
  /* Without memory for it the context passes for a primary one, and a device reset would forget too much: then its
   * blocks are freed by the driver when the program frees them. */
  (void)gp_address_map_insert(&user_contexts, (uint64_t)(uintptr_t)handle, handle);
}

void gp_user_context_destroyed(CUcontext handle)
{
  pthread_once(&user_once, init_user_contexts);
  (void)gp_address_map_remove(&user_contexts, (uint64_t)(uintptr_t)handle);
}

static bool is_user_context(CUcontext handle)
{
  pthread_once(&user_once, init_user_contexts);
  return gp_address_map_find(&user_contexts, (uint64_t)(uintptr_t)handle) != NULL;
}

gp_context_t *gp_current_context(gp_engine_t *engine)
{
  CUcontext handle = NULL;
  unsigned long long id = 0;
  CUdevice device;

  if (GP_REAL_CALL(cuCtxGetCurrent, &handle) != CUDA_SUCCESS || !handle)
    return NULL;
  if (GP_REAL(cuCtxGetId) && GP_REAL(cuCtxGetId)(handle, &id) != CUDA_SUCCESS)
    return NULL;
  if (seen.context && seen.handle == handle && seen.id == id && !gp_context_is_lost(seen.context))
    return seen.context;

  if (GP_REAL_CALL(cuCtxGetDevice, &device) != CUDA_SUCCESS || device < 0 || device >= GP_MAX_DEVICES)
    return NULL;
  const gp_driver_context_t driver_context = {handle, id, device, !is_user_context(handle)};
  gp_context_t *context = gp_engine_context(engine, &driver_context);
  if (context) {
    seen.handle = handle;
    seen.id = id;
    seen.context = context;
  }
  return context;
}

bool gp_has_current_context(gp_engine_t *engine)
{
  CUcontext handle = NULL;

  if (GP_REAL_CALL(cuCtxGetCurrent, &handle) != CUDA_SUCCESS || !handle)
    return false;
  return (seen.context && seen.handle == handle && !gp_context_is_lost(seen.context)) || gp_current_context(engine);
}

gp_context_t *gp_known_context(gp_engine_t *engine, CUcontext handle)
{
  unsigned long long id = 0;

  if (!handle)
    return gp_current_context(engine);
  if (GP_REAL(cuCtxGetId) && GP_REAL(cuCtxGetId)(handle, &id) != CUDA_SUCCESS)
    return NULL;
  gp_context_t *context = gp_engine_find_context(engine, handle);
  return context && gp_context_id(context) == id ? context : NULL;
}

gp_context_t *gp_stream_context(gp_engine_t *engine, CUstream stream)
{
  CUcontext handle = NULL;

  if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || !GP_REAL(cuStreamGetCtx))
    return gp_current_context(engine); /* streams of that kind are in each context; the driver is older than 9.2 */
  if (GP_REAL(cuStreamGetCtx)(stream, &handle) != CUDA_SUCCESS || !handle)
    return NULL;
  return gp_known_context(engine, handle);
}
