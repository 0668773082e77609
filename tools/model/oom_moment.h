/*
 * What was held when memory ran out, on the device that ran out: from the snapshot's own report if it is
 * about that moment, else from the events.
 */
#ifndef GP_TOOLS_MODEL_OOM_MOMENT_H
#define GP_TOOLS_MODEL_OOM_MOMENT_H

#include "tools/model/moments.h"
#include "tools/model/oom_events.h"

#define GP_OOM_SIZES 3

/* Blocks of one requested size. */
typedef struct gp_oom_size {
  uint64_t size;
  uint64_t count;
} gp_oom_size_t;

/* Sizes in bytes. */
typedef struct gp_oom_moment {
  gp_oom_event_t event;
  size_t number;           /* from 1, as in --at oom=N */
  gp_moments_t moments;    /* valid with event.has_moment */
  uint64_t live;           /* rounded bytes of pooled blocks that the program held */
  uint64_t live_requested; /* the same as requested; 0 without has_moment */
  uint64_t pending;        /* freed, but perhaps still in use by the device */
  bool knows_cached;       /* else cached and largest_hole are 0 */
  uint64_t cached;
  uint64_t usable;    /* part of cached in segments from which the request could be served: PyTorch's have one
                         stream, pool, and class of sizes */
  uint64_t in_pieces; /* part of cached, per the report: could not go back, beside memory in use */
  uint64_t unpooled;
  uint64_t largest_hole; /* the largest idle piece of what is usable, before idle memory went back */
  uint64_t limit;        /* 0: unknown */
  bool is_by_limit;      /* the limit refused, not the driver */
  bool knows_free;       /* device_free is known */
  uint64_t device_free;
  uint64_t device_total; /* 0: unknown */
  uint64_t waited_ns;    /* the next three as in trace/FORMAT.md */
  uint64_t busy_ns;
  uint64_t busy_context;
  gp_oom_size_t sizes[GP_OOM_SIZES]; /* what the program held, the largest sum first; count 0: end of
                                        list */
} gp_oom_moment_t;

/* Describes ooms->events[index]. Returns 0 or ENOMEM. Needs no fini. */
int gp_oom_moment_init(
    gp_oom_moment_t *oom, const gp_lifetimes_t *lifetimes, const gp_oom_events_t *ooms, size_t index);

/* False: neither the device nor the limit could hold what was asked for, whatever the program frees. */
static inline bool gp_oom_could_fit(const gp_oom_moment_t *oom)
{
  return (!oom->device_total || oom->event.requested <= oom->device_total) &&
         (!oom->limit || oom->event.requested <= oom->limit);
}

/* True if it is known what device had from the driver: at the end always, before it not if the events
 * contradict it. */
bool gp_memory_knows_reserved(const gp_lifetimes_t *lifetimes, const gp_moments_t *moments, int device);

/* The largest idle piece on device at that moment, 0: none, and the number of segments. Returns 0 or ENOMEM.
 */
int gp_memory_hole(const gp_lifetimes_t *lifetimes, const gp_moments_t *moments, int device,
    uint64_t *ret_bytes, uint64_t *ret_segments);

#endif
