#include "interpose/hooks/runtime_calls.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "interpose/hooks/current_context.h"
#include "interpose/hooks/hooks.h"
#include "interpose/library.h"
#include "interpose/routes/detour.h"
#include "interpose/routes/loaded.h"
#include "interpose/routes/runtimes.h"

#define INITIALIZATION_ERROR 3 /* cudaErrorInitializationError of driver_types.h */

/* The route of the last call that this thread forwarded to a runtime, until that runtime calls the driver. No
 * call can overwrite the route meanwhile: a call that has to look up another route is forwarded, too. */
static _Thread_local gp_runtime_route_t *asked __attribute__((tls_model("initial-exec")));

/* The library serves calls from the first confirmation until the program begins to exit. At exit, handlers of
 * the driver and the runtime make every call fail; they were registered earlier, so this library's handler
 * runs before them. */
typedef enum stage {
  STAGE_NEW,
  STAGE_STARTING,
  STAGE_SERVING,
  STAGE_OVER,
} stage_t;

static _Atomic(stage_t) stage;

/* The driver hooks that a runtime calls for functions that are not served here. */
static const void *const hooks[GP_RUNTIME_COUNT] = {
    [GP_RUNTIME_cudaMalloc] = (const void *)hook_cuMemAlloc_v2,
    [GP_RUNTIME_cudaFree] = (const void *)hook_cuMemFree_v2,
};

/* The first bytes of `hooks`, read before the first call was served. hook_bytes and share are set before the
 * stage is STAGE_SERVING. */
static uint64_t hook_bytes[GP_RUNTIME_COUNT];
static gp_runtime_share_t share;

/* Returns true if the runtime's function, or the hook that it calls, was patched after its first bytes were
 * read. The library that patched the function must see every call. */
static bool is_patched(const gp_runtime_route_t *route, gp_runtime_function_t function)
{
  return gp_detour_first_bytes(hooks[function]) != hook_bytes[function] ||
         gp_detour_first_bytes(route->real[function]) != route->first_bytes[function];
}

void gp_runtime_stop(void)
{
  atomic_store(&stage, STAGE_OVER);
}

bool gp_runtime_serves(void)
{
  return atomic_load(&stage) == STAGE_SERVING;
}

static void end(void *unused)
{
  (void)unused;
  gp_runtime_stop();
}

int __cxa_atexit(void (*fn)(void *arg), void *arg, void *library); /* Itanium C++ ABI, 3.3.6.3 */

static void begin(void)
{
  stage_t expected = STAGE_NEW;

  if (!atomic_compare_exchange_strong(&stage, &expected, STAGE_STARTING))
    return;
  bool may_serve = __cxa_atexit(end, NULL, NULL) == 0 && at_quick_exit(gp_runtime_stop) == 0;
  for (int i = 0; i < GP_RUNTIME_COUNT; i++) {
    hook_bytes[i] = gp_detour_first_bytes(hooks[i]);
    may_serve = may_serve && !gp_detour_is_likely(hook_bytes[i]);
  }
  share = *gp_library_runtime_share();
  expected = STAGE_STARTING;
  (void)atomic_compare_exchange_strong(&stage, &expected, may_serve ? STAGE_SERVING : STAGE_OVER);
}

/* Returns true, and stops serving, if CUPTI is loaded: a program that requests callbacks for runtime calls
 * must get all of them. */
static bool is_watched(void)
{
  if (!gp_loaded_look_for_cupti())
    return false;
  gp_runtime_stop();
  return true;
}

void gp_runtime_reached_driver(gp_context_t *context, const void *caller)
{
  const char *place = caller;
  gp_runtime_route_t *route = asked;

  if (!route)
    return;
  asked = NULL;
  const gp_runtime_share_t *all = gp_library_runtime_share();
  if (place < route->runtime_begin || place >= route->runtime_end || (all->most_bytes == 0 && !all->frees) ||
      is_watched())
    return;
  begin();
  route->context = context;
}

static int none(void)
{
  return INITIALIZATION_ERROR;
}

/* Returns the function to which the stub forwards the call. In a process without the runtime, only weak
 * references to these names lead to the stub; without this library such a program would not call them. */
static void *go_on(gp_runtime_route_t *route, gp_runtime_function_t function)
{
  asked = route->runtime_begin ? route : NULL;
  return route->real[function] ? route->real[function] : (void *)(uintptr_t)none;
}

/* Returns the engine if calls of this runtime may be served, else NULL. */
static gp_engine_t *engine_for(const gp_runtime_route_t *route, gp_runtime_function_t function)
{
  if (!route->runtime_begin || atomic_load_explicit(&stage, memory_order_acquire) != STAGE_SERVING ||
      is_patched(route, function) || gp_green_contexts_exist())
    return NULL;
  return gp_library_engine();
}

/* Returns true if the context, which is current in the driver, is the one that the runtime uses in this
 * thread: the runtime has called the driver with it. */
static bool is_confirmed(const gp_runtime_route_t *route, const gp_context_t *context)
{
  return context && context == route->context;
}

void *gp_runtime_cudaMalloc(void **ret, size_t bytes, void *unused, const void *caller)
{
  gp_runtime_route_t *route = gp_runtime_route(caller);
  gp_engine_t *engine = ret ? engine_for(route, GP_RUNTIME_cudaMalloc) : NULL;
  uint64_t address;

  (void)unused;
  if (!engine || bytes > share.most_bytes)
    return go_on(route, GP_RUNTIME_cudaMalloc);
  gp_context_t *context = gp_current_context(engine);
  if (!is_confirmed(route, context) || !gp_engine_alloc_kept(engine, context, bytes, &address))
    return go_on(route, GP_RUNTIME_cudaMalloc);
  *ret = (void *)(uintptr_t)address;
  return NULL;
}

void *gp_runtime_cudaFree(void *pointer, size_t unused, void *unused_too, const void *caller)
{
  gp_runtime_route_t *route = gp_runtime_route(caller);
  gp_engine_t *engine = pointer ? engine_for(route, GP_RUNTIME_cudaFree) : NULL;

  (void)unused;
  (void)unused_too;
  if (!engine || !share.frees || !is_confirmed(route, gp_current_context_by_handle(engine)) ||
      !gp_engine_free_kept(engine, (uint64_t)(uintptr_t)pointer))
    return go_on(route, GP_RUNTIME_cudaFree);
  return NULL;
}
