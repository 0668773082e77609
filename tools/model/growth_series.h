/*
 * What groups of allocations held over the recorded history, and the floor of it: the least that a group held
 * from a moment on. The floor never falls; where it rises, memory was taken that is not given back.
 */
#ifndef GP_TOOLS_MODEL_GROWTH_SERIES_H
#define GP_TOOLS_MODEL_GROWTH_SERIES_H

#include "tools/model/lifetimes.h"

#define GP_GROUP_NONE UINT32_MAX

/* What a group held after an event, and the least of that from there on. Bytes asked for. */
typedef struct gp_change {
  uint64_t held;
  uint64_t floor;
  uint32_t moment; /* of lifetimes */
  uint32_t begun;  /* allocations up to here */
  uint32_t count;  /* of what was held */
  uint32_t floor_count;
} gp_change_t;

/* The changes of one group in their order; the first one is what it held before the events. */
typedef struct gp_series {
  const gp_change_t *changes;
  size_t count; /* 1 or more */
} gp_series_t;

typedef struct gp_series_set {
  gp_series_t *series; /* by group */
  size_t count;
  gp_change_t *changes; /* private: of all */
} gp_series_set_t;

/*
 * Makes the series of lifetimes by group: groups[i] is that of life i, less than count, or GP_GROUP_NONE to
 * leave it out. last: by device, the moment at which its series end. Returns 0 or ENOMEM. Fini it in any
 * case.
 */
int gp_series_set_init(gp_series_set_t *set, const gp_lifetimes_t *lifetimes, const uint32_t *groups,
    size_t count, const uint32_t *last);
void gp_series_set_fini(gp_series_set_t *set);

/* The latest change up to a moment. */
const gp_change_t *gp_series_at(const gp_series_t *series, uint32_t moment);

#endif
