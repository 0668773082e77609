#include "tools/model/growth_series.h"

#include <errno.h>
#include <stdlib.h>

#include "pool/util/assert.h"
#include "tools/model/saturated.h"

#define NO_LIFE UINT32_MAX

static bool begins(const gp_life_t *life, const uint32_t *last)
{
  return life->begin > 0 && life->begin <= last[life->device];
}

static bool ends(const gp_life_t *life, const uint32_t *last)
{
  return life->freed > 0 && life->freed <= last[life->device];
}

/* Reserves one first change for each group, and one for each begin and end. */
static int reserve(
    gp_series_set_t *set, const gp_lifetimes_t *lifetimes, const uint32_t *groups, const uint32_t *last)
{
  size_t sum = 0;
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (groups[i] != GP_GROUP_NONE)
      set->series[groups[i]].count += (size_t)begins(life, last) + (size_t)ends(life, last);
  }
  for (size_t i = 0; i < set->count; i++)
    sum += set->series[i].count + 1;
  set->changes = calloc(sum + 1, sizeof(*set->changes));
  if (!set->changes)
    return ENOMEM;
  size_t used = 0;
  for (size_t i = 0; i < set->count; i++) {
    set->series[i].changes = &set->changes[used];
    used += set->series[i].count + 1;
    set->series[i].count = 1;
  }
  return 0;
}

static gp_change_t *changes_of(const gp_series_set_t *set, uint32_t group)
{
  return &set->changes[set->series[group].changes - set->changes];
}

static void begin_held(gp_series_set_t *set, const gp_lifetimes_t *lifetimes, const uint32_t *groups)
{
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (groups[i] == GP_GROUP_NONE || !gp_life_is_held_at(life, 0))
      continue;
    gp_change_t *first = changes_of(set, groups[i]);
    first->held = gp_add_saturated(first->held, life->requested);
    first->count++;
  }
}

static void step(gp_series_set_t *set, const gp_life_t *life, uint32_t group, uint32_t moment)
{
  gp_change_t *change = changes_of(set, group) + set->series[group].count++;
  bool is_begin = life->begin == moment;

  *change = change[-1];
  change->moment = moment;
  if (is_begin) {
    change->held = gp_add_saturated(change->held, life->requested);
    change->count++;
    change->begun++;
  } else {
    change->held = gp_subtract_saturated(change->held, life->requested);
    change->count--;
  }
}

static void find_floors(gp_series_set_t *set)
{
  for (size_t i = 0; i < set->count; i++) {
    gp_change_t *changes = changes_of(set, (uint32_t)i);
    size_t last = set->series[i].count - 1;
    changes[last].floor = changes[last].held;
    changes[last].floor_count = changes[last].count;
    for (size_t k = last; k > 0; k--) {
      const gp_change_t *next = &changes[k];
      gp_change_t *change = &changes[k - 1];
      change->floor = change->held < next->floor ? change->held : next->floor;
      change->floor_count = change->count < next->floor_count ? change->count : next->floor_count;
    }
  }
}

int gp_series_set_init(gp_series_set_t *set, const gp_lifetimes_t *lifetimes, const uint32_t *groups,
    size_t count, const uint32_t *last)
{
  *set = (gp_series_set_t){.count = count};
  set->series = calloc(count + 1, sizeof(*set->series));
  uint32_t *life_at =
      malloc(((size_t)lifetimes->end + 1) * sizeof(*life_at)); /* the life that a moment changes */
  int error = set->series && life_at ? reserve(set, lifetimes, groups, last) : ENOMEM;
  if (error) {
    free(life_at);
    return error;
  }
  for (size_t i = 0; i <= lifetimes->end; i++)
    life_at[i] = NO_LIFE;
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (groups[i] == GP_GROUP_NONE)
      continue;
    gp_assert(groups[i] < count);
    if (begins(life, last))
      life_at[life->begin] = (uint32_t)i;
    if (ends(life, last))
      life_at[life->freed] = (uint32_t)i;
  }
  begin_held(set, lifetimes, groups);
  for (uint32_t moment = 1; moment <= lifetimes->end; moment++) {
    if (life_at[moment] != NO_LIFE)
      step(set, &lifetimes->lives[life_at[moment]], groups[life_at[moment]], moment);
  }
  free(life_at);
  find_floors(set);
  return 0;
}

void gp_series_set_fini(gp_series_set_t *set)
{
  free(set->series);
  free(set->changes);
  *set = (gp_series_set_t){.count = 0};
}

const gp_change_t *gp_series_at(const gp_series_t *series, uint32_t moment)
{
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
