/*
 * What groups of allocations held over the recorded history, and their floor: the least that a group holds
 * from a moment on. The floor never falls; it rises when memory is taken and not given back.
 */
#ifndef GP_TOOLS_MODEL_GROWTH_SERIES_H
#define GP_TOOLS_MODEL_GROWTH_SERIES_H

#include "tools/model/lifetimes.h"

#define GP_GROUP_NONE UINT32_MAX

/* What a group held after an event, and the least from there on. Bytes as requested. */
typedef struct gp_change {
  uint64_t held;
  uint64_t floor;
  uint32_t moment; /* of lifetimes */
  uint32_t begun;  /* number of allocations so far */
  uint32_t count;  /* number of allocations held */
  uint32_t floor_count;
} gp_change_t;

/* The changes of one group: neither their moments nor their floors fall, and no floor is above what is held.
 * The first is what it held before the events. In a history of millions of
 * events some that follow each other closely are one, at the last one's moment; the floors count each. */
typedef struct gp_series {
  gp_change_t *changes;
  size_t count; /* 1 or more */
} gp_series_t;

typedef struct gp_series_set {
  gp_series_t *series; /* by group */
  size_t count;
} gp_series_set_t;

/*
 * Makes the series by group. groups[i] is the group of life i, less than count, or GP_GROUP_NONE to leave
 * the life out. last: by device, the moment at which series end. Returns 0 or ENOMEM. Call fini in any
 * case.
 */
int gp_series_set_init(gp_series_set_t *set, const gp_lifetimes_t *lifetimes, const uint32_t *groups,
    size_t count, const uint32_t *last);
void gp_series_set_fini(gp_series_set_t *set);

/* The latest change at or before moment. */
const gp_change_t *gp_series_at(const gp_series_t *series, uint32_t moment);

#endif
