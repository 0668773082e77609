/*
 * What was held when memory ran out, on the device that ran out: from the snapshot's own report if it is
 * about that moment, else from the events.
 */
#ifndef GP_TOOLS_MODEL_OOM_MOMENT_H
#define GP_TOOLS_MODEL_OOM_MOMENT_H

#include "tools/model/moments.h"
#include "tools/model/oom_events.h"

/* Sizes in bytes. */
typedef struct gp_oom_moment {
  gp_oom_event_t event;
  size_t number;        /* from 1, as in --at oom=N */
  gp_moments_t moments; /* valid with event.has_moment */
  gp_oom_t figures;     /* as the library reports them, of whatever the snapshot is; 0: unknown. owners: what
                           the program held by size */
  uint64_t live_requested; /* figures.live as requested; 0 without has_moment */
  bool knows_cached;       /* else figures.cached and figures.largest_free are 0 */
  uint64_t usable; /* part of figures.cached in segments from which the request could be served: PyTorch's
                      have one stream, pool, and class of sizes; figures.largest_free is of these */
  bool knows_free; /* figures.device_free is known */
} gp_oom_moment_t;

/* Describes ooms->events[index]. Returns 0 or ENOMEM. Needs no fini. */
int gp_oom_moment_init(
    gp_oom_moment_t *oom, const gp_lifetimes_t *lifetimes, const gp_oom_events_t *ooms, size_t index);

/* False: neither the device nor the limit could hold what was asked for, whatever the program frees. */
static inline bool gp_oom_could_fit(const gp_oom_moment_t *oom)
{
  return !gp_oom_is_too_large(oom->event.requested, oom->figures.device_total) &&
         !gp_oom_is_too_large(oom->event.requested, oom->figures.limit);
}

/* True if it is known what device had from the driver: at the end always, before it not if the events
 * contradict it. */
bool gp_memory_knows_reserved(const gp_lifetimes_t *lifetimes, const gp_moments_t *moments, int device);

/* The largest idle piece on device at that moment, 0: none, and the number of segments. Returns 0 or ENOMEM.
 */
int gp_memory_hole(const gp_lifetimes_t *lifetimes, const gp_moments_t *moments, int device,
    uint64_t *ret_bytes, uint64_t *ret_segments);

#endif
