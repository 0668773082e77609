#include "interpose/hooks/current_context.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "interpose/routes/real.h"
#include "pool/space/address_map.h"
#include "base/assert.h"
#include "base/cancel.h"
#include "base/lock.h"

/*
 * The context that this thread has seen last. The driver reuses the handles of ended contexts, so a record is
 * valid only while the handle still has the id from its creation (cuCtxGetId, CUDA 12.0: unique for the life
 * of the program). Older drivers have no ids; with them the library relies on the hooks of calls that end
 * contexts.
 */
static _Thread_local struct {
  CUcontext handle;
  unsigned long long id;
  gp_context_t *context;
} seen __attribute__((tls_model("initial-exec")));

/* Records by context id, for threads that switch between contexts. Green contexts have no records. */
#define BY_ID 16
static _Atomic(gp_context_t *) by_id[BY_ID];

static gp_address_map_t user_contexts = GP_ADDRESS_MAP_INIT;

void gp_user_context_created(CUcontext handle)
{
  /* If there is no host memory for the entry, the context is treated as a primary context. A device reset
   * then removes too many blocks from the pool, and the driver serves the program's frees of those blocks. */
  (void)gp_address_map_insert(&user_contexts, (uint64_t)(uintptr_t)handle, handle);
}

void gp_user_context_destroyed(CUcontext handle)
{
  (void)gp_address_map_remove(&user_contexts, (uint64_t)(uintptr_t)handle);
}

static bool is_user_context(CUcontext handle)
{
  return gp_address_map_find(&user_contexts, (uint64_t)(uintptr_t)handle) != NULL;
}

/* A green context: the driver's handle, and the context that the program converted it to. The lock guards the
 * list and its entries; an entry that a thread has taken out of the list belongs to that thread. */
struct gp_green {
  const void *handle;
  CUcontext converted;   /* NULL: not converted yet */
  unsigned long long id; /* id of `converted`, because the driver reuses handles */
  CUdevice device;
  struct gp_green *next;
};

static gp_lock_t green_lock = GP_LOCK_INIT(GP_RANK_HOOKS);
static gp_green_t *greens;
atomic_int gp_green_contexts_count; /* converted green contexts; if 0, the list need not be searched */

static gp_context_t *primary_context(gp_engine_t *engine, CUdevice device)
{
  gp_assert(device >= 0 && device < GP_MAX_DEVICES);
  gp_driver_context_t primary = {.device = device, .is_primary = true};
  unsigned long long id;
  CUcontext handle = NULL;

  int cancel_state = gp_cancel_hold(); /* a thread that is cancelled must not leave the reference behind */
  CUresult result = GP_REAL_CALL(cuDevicePrimaryCtxRetain, &handle, device);
  /* The green context has its own reference, so the primary context stays active. */
  if (result == CUDA_SUCCESS)
    (void)GP_REAL_CALL(cuDevicePrimaryCtxRelease_v2, device);
  gp_cancel_restore(cancel_state);
  if (result != CUDA_SUCCESS)
    return NULL;
  if (GP_REAL_CALL(cuCtxGetId, handle, &id) != CUDA_SUCCESS) /* since CUDA 12.0; green contexts since 12.4 */
    return NULL;
  primary.handle = handle;
  primary.id = id;
  return gp_engine_context(engine, &primary);
}

/* Returns the list of green contexts. The caller holds green_lock. */
static gp_green_t **all_greens(void)
{
  gp_assert_internal(gp_lock_is_held(&green_lock));
  return &greens;
}

static void push_green(gp_green_t *entry)
{
  entry->next = *all_greens();
  *all_greens() = entry;
}

bool gp_green_context_created(gp_engine_t *engine, const void *green, CUdevice device)
{
  gp_green_t *entry =
      GP_REAL(cuCtxRecordEvent) && primary_context(engine, device) ? calloc(1, sizeof(*entry)) : NULL;

  if (!entry)
    return false;
  entry->handle = green;
  entry->device = device;
  gp_lock_take(&green_lock);
  push_green(entry);
  gp_lock_release(&green_lock);
  return true;
}

static gp_green_t *find_green(const void *green)
{
  gp_green_t *entry = *all_greens();
  while (entry && entry->handle != green)
    entry = entry->next;
  return entry;
}

bool gp_green_context_is_known(const void *green)
{
  gp_lock_take(&green_lock);
  bool known = find_green(green) != NULL;
  gp_lock_release(&green_lock);
  return known;
}

void gp_green_context_converted(const void *green, CUcontext handle)
{
  unsigned long long id = 0;

  if (GP_REAL_CALL(cuCtxGetId, handle, &id) != CUDA_SUCCESS)
    return; /* a context without an id cannot become current */
  gp_lock_take(&green_lock);
  gp_green_t *entry = find_green(green);
  if (entry && !entry->converted)
    atomic_fetch_add(&gp_green_contexts_count, 1);
  if (entry) {
    entry->converted = handle;
    entry->id = id;
  }
  gp_lock_release(&green_lock);
}

gp_green_t *gp_green_context_take(const void *green)
{
  gp_lock_take(&green_lock);
  gp_green_t **link = all_greens();
  while (*link && (*link)->handle != green)
    link = &(*link)->next;
  gp_green_t *entry = *link;
  if (entry) {
    *link = entry->next;
    if (entry->converted) {
      gp_assert(atomic_load(&gp_green_contexts_count) > 0); /* green_lock is held */
      atomic_fetch_sub(&gp_green_contexts_count, 1);
    }
  }
  gp_lock_release(&green_lock);
  return entry;
}

void gp_green_context_taken(gp_green_t *entry, bool destroyed)
{
  if (entry && destroyed) {
    free(entry);
  } else if (entry) {
    gp_lock_take(&green_lock);
    push_green(entry);
    if (entry->converted)
      atomic_fetch_add(&gp_green_contexts_count, 1);
    gp_lock_release(&green_lock);
  }
}

/* Returns true if the context is a converted green context, and stores its device in *ret_device. */
static bool is_green(CUcontext handle, unsigned long long id, CUdevice *ret_device)
{
  if (!gp_green_contexts_exist())
    return false;
  gp_lock_take(&green_lock);
  const gp_green_t *entry = *all_greens();
  while (entry && (entry->converted != handle || entry->id != id))
    entry = entry->next;
  if (entry)
    *ret_device = entry->device;
  gp_lock_release(&green_lock);
  return entry != NULL;
}

static gp_context_t *remember(CUcontext handle, unsigned long long id, gp_context_t *context)
{
  seen.handle = handle;
  seen.id = id;
  seen.context = context;
  return context;
}

/* Returns the current context's record if this thread has not seen the context last. With a driver that has
 * no context ids, the library always calls this function. */
static __attribute__((noinline)) gp_context_t *ask_for_current(gp_engine_t *engine)
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
  if (is_green(handle, id, &device)) {
    gp_context_t *primary = primary_context(engine, device);
    return primary ? remember(handle, id, primary) : NULL;
  }
  const gp_driver_context_t driver_context = {handle, id, device, !is_user_context(handle)};
  gp_context_t *context = gp_engine_context(engine, &driver_context);
  if (!context)
    return NULL;
  if (GP_REAL(cuCtxGetId))
    atomic_store_explicit(&by_id[id % BY_ID], context, memory_order_release);
  return remember(handle, id, context);
}

static __attribute__((noinline)) gp_context_t *find_current(gp_engine_t *engine, unsigned long long id)
{
  gp_context_t *context = atomic_load_explicit(&by_id[id % BY_ID], memory_order_acquire);

  if (!context || gp_context_id(context) != id || gp_context_is_lost(context))
    return ask_for_current(engine);
  return remember(gp_context_handle(context), id, context);
}

/* Makes one driver call: "If context is supplied as NULL and there is one current, the Id of the current
 * context is returned" (cuda.h at cuCtxGetId). The id alone identifies the context. */
gp_context_t *gp_current_context(gp_engine_t *engine)
{
  unsigned long long id = 0;

  if (!GP_REAL(cuCtxGetId) || GP_REAL(cuCtxGetId)(NULL, &id) != CUDA_SUCCESS)
    return ask_for_current(engine);
  if (seen.context && seen.id == id && !gp_context_is_lost(seen.context))
    return seen.context;
  return find_current(engine, id);
}

gp_context_t *gp_current_context_by_handle(gp_engine_t *engine)
{
  CUcontext handle = NULL;

  if (GP_REAL_CALL(cuCtxGetCurrent, &handle) != CUDA_SUCCESS || !handle)
    return NULL;
  if (seen.context && seen.handle == handle && !gp_context_is_lost(seen.context))
    return seen.context;
  return gp_current_context(engine);
}

/* Returns the record of a context that need not be current, or NULL if the library has never seen the
 * context. */
static gp_context_t *known_context(gp_engine_t *engine, CUcontext handle)
{
  unsigned long long id = 0;

  if (GP_REAL(cuCtxGetId) && GP_REAL(cuCtxGetId)(handle, &id) != CUDA_SUCCESS)
    return NULL;
  gp_context_t *context = gp_engine_find_context(engine, handle);
  return context && gp_context_id(context) == id ? context : NULL;
}

gp_context_t *gp_synchronized_context(gp_engine_t *engine, CUcontext handle)
{
  CUcontext current = NULL;

  if (handle)
    return known_context(engine, handle);
  gp_context_t *context = gp_current_context(engine);
  if (!context || !gp_green_contexts_exist())
    return context;
  if (GP_REAL_CALL(cuCtxGetCurrent, &current) != CUDA_SUCCESS || !current)
    return NULL;
  return known_context(engine, current); /* NULL for a green context, which has no record */
}

gp_context_t *gp_stream_context(gp_engine_t *engine, CUstream stream)
{
  CUcontext handle = NULL;

  if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || !GP_REAL(cuStreamGetCtx))
    return gp_current_context(
        engine); /* a default stream belongs to the current context; drivers before 9.2 lack the query */
  if (GP_REAL(cuStreamGetCtx)(stream, &handle) != CUDA_SUCCESS || !handle)
    return NULL;
  return known_context(engine, handle);
}
