/*
 * Which cudaMalloc and cudaFree a caller of this library's exports means: those that the
 * loader would have given it.
 *
 * A process may have several shared runtimes, each out of sight of some of its libraries, and other
 * libraries that define these names. The object that contains the return address identifies a caller.
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

#define GP_RUNTIME_STAYS UINT64_MAX
#define GP_RUNTIME_WAYS  4 /* for objects of the program that call in turn */

/* Each thread keeps GP_RUNTIME_WAYS in its static memory, which is part of its stack. */
typedef struct gp_runtime_way {
  /* The caller's object. */
  const char *begin;
  const char *end;
  /* The loader's count of unloads then; after another it may be another object. GP_RUNTIME_STAYS: neither the
   * caller's object nor the one of its functions can be unloaded. */
  uint64_t unloads;

  void *real[GP_RUNTIME_COUNT];
  /* The runtime that has these functions. NULL: they are another library's, or patched, or of a runtime that
   * may not use the current context (cudaSetDevice binds it since CUDA 12.0). */
  const char *runtime_begin;
  const char *runtime_end;
  uint64_t first_bytes[GP_RUNTIME_COUNT]; /* of the runtime's functions then */

  /* The context with which that runtime has called the driver in this thread, for hooks/runtime_calls.c; NULL
   * after a look. */
  const void *context;
} gp_runtime_way_t;

/* Private: the calling thread's ways, and gp_runtime_way for callers other than the first way's. */
extern _Thread_local gp_runtime_way_t gp_runtime_ways[GP_RUNTIME_WAYS]
    __attribute__((tls_model("initial-exec")));
gp_runtime_way_t *gp_runtime_find_way(const void *caller);

/*
 * Never NULL; the next call in the same thread may change the result. A function of the way is NULL if
 * the process has none. Any thread. Takes the loader's lock only if several objects define the names and
 * the caller's own needs do not decide. For a known caller it takes no lock if the caller stays loaded,
 * else that of dl_iterate_phdr.
 */
static inline gp_runtime_way_t *gp_runtime_way(const void *caller)
{
  gp_runtime_way_t *way = &gp_runtime_ways[0];
  const char *place = caller;
  bool is_of_first = place >= way->begin && place < way->end && way->unloads == GP_RUNTIME_STAYS;
  return __builtin_expect(is_of_first, 1) ? way : gp_runtime_find_way(caller);
}

/* The function's index in runtime.def; -1: it is not there. */
int gp_runtime_find(const char *name);

/* For look-ups: what the loader would find for the caller without this library, in the global scope or in
 * the libraries that the caller is linked to. NULL: nothing, with dlerror set. Calls the loader. */
void *gp_runtime_look_up(const char *name, const void *caller);

/* The caller precedes this library in the order of look-up, as the program does. */
bool gp_runtime_is_before_us(const void *caller);

#endif
