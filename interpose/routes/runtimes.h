/*
 * Whose cudaMalloc and cudaFree a caller of this library's means: those that the loader would have given it.
 *
 * A process may have several shared runtimes, each out of sight of some of its libraries, and other libraries
 * that define these names. A caller is known by the object in which its return address lies.
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

typedef struct gp_runtime_way {
  /* The caller's object. */
  const char *begin;
  const char *end;
  uint64_t unloads; /* how often the loader had unloaded something when this was found; later it may be
                       another object */
  bool stays;       /* neither the caller's object nor the one of its functions can be unloaded */

  void *real[GP_RUNTIME_COUNT];
  /* The runtime that they are of. NULL: they are another library's, or those of a runtime that is not known
   * to use the context that is current (cudaSetDevice binds it since CUDA 12.0). */
  const char *runtime_begin;
  const char *runtime_end;
} gp_runtime_way_t;

/*
 * Never NULL; the next call of the same thread may change what it points to. A function of the way is NULL
 * where the process has none. Any thread, without the loader's lock but where several objects define the
 * names and the caller's own needs do not tell which is meant. A caller that is known is looked up without a
 * lock if it stays, else with dl_iterate_phdr's.
 */
const gp_runtime_way_t *gp_runtime_way(const void *caller);

/* How often gp_runtime_way had to look in this thread: what was concluded from an earlier way is void. */
extern _Thread_local uint64_t gp_runtime_looks __attribute__((tls_model("initial-exec")));

/* One of runtime.def; -1: of another name. */
int gp_runtime_find(const char *name);

/*
 * For look-ups: what the loader finds of that name for the caller without this library, in the global scope
 * or among what the caller is linked to; NULL: nothing, with dlerror set. Asks the loader.
 */
void *gp_runtime_look_up(const char *name, const void *caller);

/* The caller is looked at before this library where names are looked up, as the program is. */
bool gp_runtime_is_before_us(const void *caller);

#endif
