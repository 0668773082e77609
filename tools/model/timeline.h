/*
 * How each device's memory changed over time: what the program had in use, and what was reserved from the
 * driver.
 */
#ifndef GP_TOOLS_MODEL_TIMELINE_H
#define GP_TOOLS_MODEL_TIMELINE_H

#include "tools/model/moments.h"

/*
 * One part of the time, in bytes. "held" is in use by the program. Memory outside the pool counts as both
 * held and reserved.
 *   held_least <= held_end <= held_most;   reserved_end <= reserved_most
 */
typedef struct gp_timeline_point {
  uint64_t held_most;
  uint64_t held_least;
  uint64_t held_end;
  uint64_t reserved_most;
  uint64_t reserved_end;
} gp_timeline_point_t;

/* An event to mark. */
typedef struct gp_timeline_mark {
  uint64_t time_ns;
  uint64_t size;
  const char *detail; /* belongs to the snapshot */
  gp_event_kind_t kind;
} gp_timeline_mark_t;

/* held_peak and reserved_peak are not below those of any point. */
typedef struct gp_timeline_device {
  int device;
  gp_timeline_point_t *points; /* as many as requested */
  gp_timeline_mark_t *marks;
  size_t mark_count;
  uint64_t held_peak;
  uint64_t held_peak_ns;
  uint64_t reserved_peak;
  bool knows_reserved; /* else reserved is 0 everywhere */
} gp_timeline_device_t;

typedef struct gp_timeline {
  uint64_t from_ns;
  uint64_t to_ns;
  size_t point_count;
  bool is_selected; /* only some streams or threads are selected: `held` counts these, and reserved is 0 */
  gp_timeline_device_t devices[GP_SNAPSHOT_DEVICES];
  size_t device_count;
} gp_timeline_t;

/* Divides the time that filter selects from lifetimes into `points` equal parts (at least 1). Without events
 * device_count is 0. Borrows details from the snapshot. Returns 0 or ENOMEM; call fini in any case. */
int gp_timeline_init(
    gp_timeline_t *timeline, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, size_t points);
void gp_timeline_fini(gp_timeline_t *timeline);

/* Gets the bytes of device held and reserved at moments, counted as in a point (reserved is 0 if unknown). */
void gp_timeline_at(const gp_timeline_t *timeline, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, int device, uint64_t *ret_held, uint64_t *ret_reserved);

/* Returns the time at which a part begins. */
uint64_t gp_timeline_time(const gp_timeline_t *timeline, size_t point);

#endif
