/*
 * What was in use when memory ran out, on the device that ran out. The figures come from the snapshot's own
 * report if it is about that moment, else from the events.
 */
#ifndef GP_TOOLS_MODEL_OOM_MOMENT_H
#define GP_TOOLS_MODEL_OOM_MOMENT_H

#include "tools/model/moments.h"
#include "tools/model/oom_events.h"

/* Sizes in bytes. */
typedef struct gp_oom_moment {
  gp_oom_event_t event;
  size_t number;        /* N of --at oom=N, from 1 */
  gp_moments_t moments; /* valid with event.has_moment */
  gp_oom_t figures;     /* like the library's report, also for snapshots of PyTorch; 0: unknown. `owners` has
                           what the program had in use, by size */
  uint64_t live_requested; /* requested bytes of figures.live; 0 without has_moment */
  bool knows_cached;       /* else figures.cached and figures.largest_free are 0 */
  uint64_t usable; /* part of figures.cached in segments that may serve the request: PyTorch's segments have
                      one stream, pool and class of sizes. figures.largest_free is in these segments */
  bool knows_free; /* figures.device_free is known */
} gp_oom_moment_t;

/* Describes ooms->events[index]. Returns 0 or ENOMEM. Nothing has to be freed. */
int gp_oom_moment_init(
    gp_oom_moment_t *oom, const gp_lifetimes_t *lifetimes, const gp_oom_events_t *ooms, size_t index);

/* Returns false if the request is too large for the device or for the limit, whatever the program frees. */
static inline bool gp_oom_could_fit(const gp_oom_moment_t *oom)
{
  return !gp_oom_is_too_large(oom->event.requested, oom->figures.device_total) &&
         !gp_oom_is_too_large(oom->event.requested, oom->figures.limit);
}

/* Returns true if the reserved memory of device is known: always at the end; before it, unless the events
 * contradict themselves. */
bool gp_memory_knows_reserved(const gp_lifetimes_t *lifetimes, const gp_moments_t *moments, int device);

/* Gets the largest idle piece on device at that moment (0: none) and the number of segments. Returns 0 or
 * ENOMEM. */
int gp_memory_hole(const gp_lifetimes_t *lifetimes, const gp_moments_t *moments, int device,
    uint64_t *ret_bytes, uint64_t *ret_segments);

#endif
