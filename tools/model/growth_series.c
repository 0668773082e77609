#include "tools/model/growth_series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/array.h"
#include "tools/saturated.h"

#define CHANGES_MOST                                                                                         \
  (1u << 18) /* of a group, about; beyond, changes that follow each other closely are one */

/* An event changes what the group of its life holds. */
typedef struct maker {
  gp_series_set_t *set;
  const gp_lifetimes_t *lifetimes;
  const uint32_t *groups;
  const uint32_t *last;
  uint32_t step;    /* events whose changes of a group are one */
  uint32_t *newest; /* by group: the step of its newest change, plus 1; 0: none yet */
} maker_t;

/* The group that the event before the moment changes; GP_GROUP_NONE: none. */
static uint32_t group_changed(const maker_t *maker, uint32_t moment, const gp_life_t **ret_life)
{
  const gp_life_t *life = gp_lifetimes_life(maker->lifetimes, moment - 1);
  if (!life || (life->begin != moment && life->freed != moment) || moment > maker->last[life->device])
    return GP_GROUP_NONE;
  *ret_life = life;
  return maker->groups[life - maker->lifetimes->lives];
}

/* True if the group has no change in this step yet, which it then has. */
static bool begins_change(maker_t *maker, uint32_t group, uint32_t moment)
{
  uint32_t now = moment / maker->step + 1;
  bool is_first = maker->newest[group] != now;
  maker->newest[group] = now;
  return is_first;
}

/* The first change of each group: what it held before the events. */
static int begin_series(gp_series_set_t *set, const gp_lifetimes_t *lifetimes, const uint32_t *groups)
{
  for (size_t i = 0; i < set->count; i++) {
    if (!GP_ARRAY_ADD(set->series[i].changes, set->series[i].count))
      return ENOMEM;
  }
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (groups[i] == GP_GROUP_NONE || !gp_life_is_held_at(life, 0))
      continue;
    gp_change_t *first = set->series[groups[i]].changes;
    first->held = gp_add_saturated(first->held, life->requested);
    first->count++;
  }
  return 0;
}

/* Until find_floors, floor and floor_count are the least of the changes that are one. */
static int take_change(maker_t *maker, const gp_life_t *life, uint32_t group, uint32_t moment)
{
  gp_series_t *series = &maker->set->series[group];
  bool is_new = begins_change(maker, group, moment);

  if (is_new && !GP_ARRAY_ADD(series->changes, series->count))
    return ENOMEM;
  gp_change_t *change = &series->changes[series->count - 1];
  if (is_new)
    *change = change[-1];
  change->moment = moment;
  if (life->begin == moment) {
    change->held = gp_add_saturated(change->held, life->requested);
    change->count++;
    change->begun++;
  } else {
    change->held = gp_subtract_saturated(change->held, life->requested);
    gp_assert_internal(change->count > 0); /* its begin is not after its end */
    change->count--;
  }
  if (is_new || change->held < change->floor)
    change->floor = change->held;
  if (is_new || change->count < change->floor_count)
    change->floor_count = change->count;
  return 0;
}

static void find_floors(gp_series_set_t *set)
{
  for (size_t i = 0; i < set->count; i++) {
    gp_change_t *changes = set->series[i].changes;
    uint64_t floor = UINT64_MAX;
    uint32_t floor_count = UINT32_MAX;
    for (size_t k = set->series[i].count; k-- > 0;) {
      gp_change_t *change = &changes[k];
      uint64_t least = change->floor;
      uint32_t least_count = change->floor_count;
      change->floor = change->held < floor ? change->held : floor;
      change->floor_count = change->count < floor_count ? change->count : floor_count;
      floor = k > 0 && least < change->floor ? least : change->floor;
      floor_count = k > 0 && least_count < change->floor_count ? least_count : change->floor_count;
    }
  }
}

/* What growth_series.h says of each series. */
static bool are_sound(const gp_series_set_t *set)
{
  for (size_t i = 0; i < set->count; i++) {
    const gp_series_t *series = &set->series[i];
    if (series->count == 0)
      return false;
    for (size_t k = 0; k < series->count; k++) {
      const gp_change_t *now = &series->changes[k];
      if (now->floor > now->held || (k > 0 && (now[-1].floor > now->floor || now[-1].moment > now->moment)))
        return false;
    }
  }
  return true;
}

int gp_series_set_init(gp_series_set_t *set, const gp_lifetimes_t *lifetimes, const uint32_t *groups,
    size_t count, const uint32_t *last)
{
  maker_t maker = {.set = set,
      .lifetimes = lifetimes,
      .groups = groups,
      .last = last,
      .step = lifetimes->end / CHANGES_MOST + 1};
  const gp_life_t *life;

  *set = (gp_series_set_t){.count = count};
  set->series = calloc(count + 1, sizeof(*set->series));
  maker.newest = calloc(count + 1, sizeof(*maker.newest));
  int error = set->series && maker.newest ? begin_series(set, lifetimes, groups) : ENOMEM;
  for (uint32_t moment = 1; !error && moment <= lifetimes->end; moment++) {
    uint32_t group = group_changed(&maker, moment, &life);
    if (group != GP_GROUP_NONE)
      error = take_change(&maker, life, group, moment);
  }
  free(maker.newest);
  if (!error)
    find_floors(set);
  gp_assert_full(error || are_sound(set));
  return error;
}

void gp_series_set_fini(gp_series_set_t *set)
{
  for (size_t i = 0; set->series && i < set->count; i++)
    free(set->series[i].changes);
  free(set->series);
  *set = (gp_series_set_t){.count = 0};
}

const gp_change_t *gp_series_at(const gp_series_t *series, uint32_t moment)
{
  gp_assert_internal(series->count > 0);
  size_t low = 0, high = series->count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (series->changes[middle].moment <= moment)
      low = middle;
    else
      high = middle;
  }
  return &series->changes[low];
}
