/*
 * Finds the cudaMalloc and cudaFree that a call of this library's exports is meant for: the functions to
 * which the loader would have bound the caller without this library.
 *
 * A process may have several shared runtimes, each of them visible only to some of its libraries, and other
 * libraries that define these names. The object that contains the return address identifies the caller.
 */
#ifndef GP_INTERPOSE_ROUTES_RUNTIMES_H
#define GP_INTERPOSE_ROUTES_RUNTIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gp_runtime_function {
#define RUNTIME(symbol) GP_RUNTIME_##symbol,
#include "interpose/routes/runtime.def"
  GP_RUNTIME_COUNT
} gp_runtime_function_t;

#define GP_RUNTIME_STAYS  UINT64_MAX
#define GP_RUNTIME_ROUTES 4 /* per thread, for several objects of the program that call alternately */

/* The functions found for one calling object. Each thread has GP_RUNTIME_ROUTES of these routes in its static
 * TLS, which is part of its stack. */
typedef struct gp_runtime_route {
  /* Address range of the caller's object. */
  const char *begin;
  const char *end;
  /* The loader's count of unloads when the route was stored; if the count has changed, the addresses may
   * belong to another object. GP_RUNTIME_STAYS: neither the caller's object nor the object of the functions
   * can be unloaded. */
  uint64_t unloads;

  void *real[GP_RUNTIME_COUNT];
  /* Address range of the runtime that contains the functions. NULL if they are another library's, are
   * patched, or belong to a runtime that may not use the current context (cudaSetDevice binds it since CUDA
   * 12.0). */
  const char *runtime_begin;
  const char *runtime_end;
  uint64_t first_bytes[GP_RUNTIME_COUNT]; /* those of the functions when the route was stored */

  /* For hooks/runtime_calls.c: the context in which that runtime last called the driver in this thread; NULL
   * right after the look-up. */
  const void *context;
} gp_runtime_route_t;

/* Private: the calling thread's routes, and the slow path of gp_runtime_route for callers other than the
 * first route's. */
extern _Thread_local gp_runtime_route_t gp_runtime_routes[GP_RUNTIME_ROUTES]
    __attribute__((tls_model("initial-exec")));
gp_runtime_route_t *gp_runtime_find_route(const void *caller);

/*
 * Returns the route of the caller's object, never NULL; a later call in the same thread may change the route.
 * A function in the route is NULL if the process has none. Any thread. Takes the loader's lock only if
 * several objects define the names, and the libraries that the caller is linked to do not decide between
 * them. For a known caller it takes no lock if the caller cannot be unloaded, else that of dl_iterate_phdr.
 */
static inline gp_runtime_route_t *gp_runtime_route(const void *caller)
{
  gp_runtime_route_t *route = &gp_runtime_routes[0];
  const char *place = caller;
  bool is_of_first = place >= route->begin && place < route->end && route->unloads == GP_RUNTIME_STAYS;
  return __builtin_expect(is_of_first, 1) ? route : gp_runtime_find_route(caller);
}

/* Returns the function's index in runtime.def, or -1. */
int gp_runtime_find(const char *name);

/* Returns the function that the loader would find for a look-up by the caller without this library, in the
 * global scope or in the libraries that the caller is linked to. Returns NULL, with dlerror set, if there is
 * none. Calls the loader. */
void *gp_runtime_look_up(const char *name, const void *caller);

/* Returns true if the caller precedes this library in symbol look-up order, as the program does. */
bool gp_runtime_is_before_us(const void *caller);

#endif
