/*
 * Decides which calls get a stack (GPUPOOL_STACKS), and captures the stack of a thread's current call.
 *
 *   off      no calls
 *   auto     calls that reach the driver or run out of memory, and allocations of more than
 *            GPUPOOL_SMALL_MAX; for memory from the driver's pools only such large allocations.
 *            Stacks have native and Python frames.
 *   native   every allocation, and other calls that reach the driver; only native frames
 *   python   the same calls as native; only Python frames
 *   all      the same calls as native; native and Python frames
 *   fp       as native, but unwinds by frame pointers
 *
 * With GPUPOOL_STACKS_FREE every free gets a stack, too. A thread captures a stack while it holds no lock.
 * The pool reads the stack's number later, with a lock held (pool/observer.h, find_origin and origin).
 */
#ifndef GP_TRACE_ORIGIN_H
#define GP_TRACE_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/observer.h"
#include "base/options.h"
#include "trace/stacks/stacks.h"

typedef struct gp_origin_thread {
  uint32_t origin;
  bool is_known; /* a stack was searched for in this call, even if none was found */
} gp_origin_thread_t;

/* initial-exec, because the general model calls a function at a thread's first access, which may allocate. */
extern __thread gp_origin_thread_t gp_origin_tls
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Forgets the stack of the previous call. Must be called at the beginning of every call of the program. */
static inline void gp_origin_begin_call(void)
{
  gp_origin_tls = (gp_origin_thread_t){0};
}

/* The rules that decide which calls get a stack, and the table of stacks. With zeroed memory no call gets
 * one. */
typedef struct gp_origins {
  gp_stacks_t stacks;
  int mode; /* GP_STACKS_*; GP_STACKS_OFF if there is no memory for stacks */
  bool has_frees;
  size_t depth;       /* maximum number of frames of a stack */
  uint64_t small_max; /* bytes */
} gp_origins_t;

/* Initializes *origins from the options; the region must live longer. If there is no memory for stacks, logs
 * one line and sets the mode to off. */
void gp_origins_init(gp_origins_t *origins, const gp_options_t *options, gp_region_t *region);
void gp_origins_fini(gp_origins_t *origins); /* zeroed memory is legal */

/* Sets gp_origin_tls.origin to the number of the call's stack. Implements find_origin of gp_observer_t. The
 * caller holds no lock. */
void gp_origin_find(gp_origins_t *origins, gp_occasion_t occasion, uint64_t size);

#endif
