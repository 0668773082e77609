/*
 * Decides which calls get a stack (GPUPOOL_STACKS), and captures the stack of a thread's present call.
 *
 *   off      none
 *   auto     calls that reach the driver or run out of memory, and allocations of more than
 *            GPUPOOL_SMALL_MAX; for memory from the driver's pools only the latter
 *   native   every allocation, and the other calls that reach the driver
 *   python   the same, only the frames of Python
 *   all      the same, native frames and those of Python, as with auto
 *   fp       as native, by frame pointers
 *
 * With GPUPOOL_STACKS_FREE also every free. A thread captures a stack while it holds no lock; the pool asks
 * for the number later, with a lock held (pool/observer.h, find_origin and origin).
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
  bool is_known; /* this call has looked for a stack, even if it found none */
} gp_origin_thread_t;

/* initial-exec: the general model calls a function that may allocate at a thread's first access. */
extern __thread gp_origin_thread_t gp_origin_tls
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Called at the beginning of every call of the program, so that it does not get the previous call's stack. */
static inline void gp_origin_begin_call(void)
{
  gp_origin_tls = (gp_origin_thread_t){0};
}

/* Which calls get a stack, and where stacks are kept. Zeroed: no call gets one. */
typedef struct gp_origins {
  gp_stacks_t stacks;
  int mode; /* GP_STACKS_*; off if there is no memory for stacks */
  bool has_frees;
  size_t depth;       /* frames, at most */
  uint64_t small_max; /* bytes */
} gp_origins_t;

/* Follows the options; the region must live longer. If there is no memory for stacks, mode is off,
 * after a line in the log. */
void gp_origins_init(gp_origins_t *origins, const gp_options_t *options, gp_region_t *region);
void gp_origins_fini(gp_origins_t *origins); /* zeroed memory is legal */

/* gp_observer_t find_origin: afterwards gp_origin_tls.origin is the call's. With no lock held. */
void gp_origin_find(gp_origins_t *origins, gp_occasion_t occasion, uint64_t size);

#endif
