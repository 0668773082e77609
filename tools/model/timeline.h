/*
 * How the memory of each device changed over time: the program's memory in use, and the memory reserved from
 * the driver.
 */
#ifndef GP_TOOLS_MODEL_TIMELINE_H
#define GP_TOOLS_MODEL_TIMELINE_H

#include "tools/model/moments.h"

/*
 * One of the equal parts of the time, in bytes. "held" is the program's memory in use. Forwarded memory
 * counts as both held and reserved. Invariants: held_least <= held_end <= held_most; reserved_end <=
 * reserved_most.
 */
typedef struct gp_timeline_point {
  uint64_t held_most;
  uint64_t held_least;
  uint64_t held_end;
  uint64_t reserved_most;
  uint64_t reserved_end;
} gp_timeline_point_t;

/* An event that is marked on the timeline. */
typedef struct gp_timeline_mark {
  uint64_t time_ns;
  uint64_t size;
  const char *detail; /* belongs to the snapshot */
  gp_event_kind_t kind;
} gp_timeline_mark_t;

/* The curve of one device. Invariant: held_peak and reserved_peak are at least those of each point. */
typedef struct gp_timeline_device {
  int device;
  gp_timeline_point_t *points; /* point_count points */
  gp_timeline_mark_t *marks;
  size_t mark_count;
  uint64_t held_peak;
  uint64_t held_peak_ns;
  uint64_t reserved_peak;
  bool knows_reserved; /* false: reserved is unknown, and 0 everywhere */
} gp_timeline_device_t;

typedef struct gp_timeline {
  uint64_t from_ns;
  uint64_t to_ns;
  size_t point_count;
  bool is_selected; /* a selection of streams or threads: `held` counts only these, and reserved is 0 */
  gp_timeline_device_t devices[GP_SNAPSHOT_DEVICES];
  size_t device_count;
} gp_timeline_t;

/* Divides the time that `filter` selects into `points` equal parts (at least 1). Without events device_count
 * is 0. Borrows details from the snapshot. Returns 0 or ENOMEM; call gp_timeline_fini in any case. */
int gp_timeline_init(
    gp_timeline_t *timeline, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, size_t points);
void gp_timeline_fini(gp_timeline_t *timeline);

/* Gets the held and reserved bytes of `device` at `moments`, as in a point. *ret_reserved is 0 if unknown. */
void gp_timeline_at(const gp_timeline_t *timeline, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, int device, uint64_t *ret_held, uint64_t *ret_reserved);

/* Returns the time at which part number `point` begins. */
uint64_t gp_timeline_time(const gp_timeline_t *timeline, size_t point);

#endif
