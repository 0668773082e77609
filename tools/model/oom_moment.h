/*
 * The memory in use on a device when it ran out of memory. The figures come from the snapshot's own report if
 * that describes the same event, otherwise from the events.
 */
#ifndef GP_TOOLS_MODEL_OOM_MOMENT_H
#define GP_TOOLS_MODEL_OOM_MOMENT_H

#include "tools/model/moments.h"
#include "tools/model/oom_events.h"

/* An out-of-memory event with the memory in use at that moment, in bytes. */
typedef struct gp_oom_moment {
  gp_oom_event_t event;
  size_t number;        /* N of --at oom=N, from 1 on */
  gp_moments_t moments; /* valid with event.has_moment */
  /* Like the library's report, also for snapshots of PyTorch; 0: unknown. `owners` has the program's memory
   * in use by size. */
  gp_oom_t figures;
  uint64_t live_requested; /* requested bytes of the memory in figures.live; 0 without has_moment */
  bool knows_cached;       /* false: figures.cached and figures.largest_free are unknown and 0 */
  /* Part of figures.cached in segments that may serve the request, because a segment of PyTorch has one
   * stream, pool and class of sizes. figures.largest_free is in these segments, too. */
  uint64_t usable;
  bool knows_free; /* true if figures.device_free is known */
} gp_oom_moment_t;

/* Describes ooms->events[index]. Returns 0 or ENOMEM. There is nothing to free. */
int gp_oom_moment_init(
    gp_oom_moment_t *oom, const gp_lifetimes_t *lifetimes, const gp_oom_events_t *ooms, size_t index);

/* Returns false if the request exceeds the device or the limit, so that freeing memory cannot help. */
static inline bool gp_oom_could_fit(const gp_oom_moment_t *oom)
{
  return !gp_oom_is_too_large(oom->event.requested, oom->figures.device_total) &&
         !gp_oom_is_too_large(oom->event.requested, oom->figures.limit);
}

/* Returns true if the reserved memory of `device` is known at that moment. At the end it always is. Earlier
 * it is, unless the events contradict each other. */
bool gp_memory_knows_reserved(const gp_lifetimes_t *lifetimes, const gp_moments_t *moments, int device);

/* Gets the largest idle piece on `device` (0: none) and the number of segments. Returns 0 or ENOMEM. */
int gp_memory_hole(const gp_lifetimes_t *lifetimes, const gp_moments_t *moments, int device,
    uint64_t *ret_bytes, uint64_t *ret_segments);

#endif
