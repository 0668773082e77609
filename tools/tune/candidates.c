#include "tools/tune/candidates.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#define PAGE (2 * GP_MIB) /* granularity of the device's memory */

#define VALUES_MOST 20

/* An option's values in order, and the index of its default. */
typedef struct axis {
  gp_option_id_t id;
  int initial;
  const char *values[VALUES_MOST + 1];
} axis_t;

typedef struct kind {
  const char *name;
  axis_t axes[GP_AXES];
} kind_t;

#define NO_AXIS                                                                                              \
  {                                                                                                          \
    GP_OPTION_COUNT, 0,                                                                                      \
    {                                                                                                        \
      ""                                                                                                     \
    }                                                                                                        \
  }
/* Percent of the most that a program holds at once */
#define PREWARM_AXIS                                                                                         \
  {                                                                                                          \
    GP_OPTION_prewarm, 0,                                                                                    \
    {                                                                                                        \
      "none", "100", "101", "102", "103", "104", "105", "106", "107", "108", "109", "110", "112", "114",     \
          "116", "120"                                                                                       \
    }                                                                                                        \
  }

static const kind_t kinds[] = {
    {"round", {{GP_OPTION_round_divisions, 3, {"1", "2", "4", "8", "16", "32", "64"}},
                  {GP_OPTION_round_cutoff, 8, {"21", "22", "23", "24", "25", "26", "27", "28", "none"}}}},
    {"naive", {{GP_OPTION_page, 1, {"512", "4KiB", "64KiB", "1MiB"}},
                  {GP_OPTION_large_round, 0, {"2MiB", "4MiB", "8MiB", "16MiB", "32MiB", "64MiB"}}}},
    {"segment", {PREWARM_AXIS, NO_AXIS}},
    {"vmm", {PREWARM_AXIS, NO_AXIS}},
};

int gp_candidate_types(void)
{
  return (int)(sizeof(kinds) / sizeof(kinds[0]));
}

int gp_candidate_places(int type, gp_axis_t axis)
{
  int count = 0;
  while (kinds[type].axes[axis].values[count])
    count++;
  return count;
}

const char *gp_candidate_type_name(int type)
{
  return kinds[type].name;
}

gp_candidate_t gp_candidate_initial(int type)
{
  const axis_t *axes = kinds[type].axes;
  return (gp_candidate_t){type, {axes[GP_AXIS_FIRST].initial, axes[GP_AXIS_SECOND].initial}};
}

gp_option_id_t gp_candidate_option(int type, gp_axis_t axis)
{
  return kinds[type].axes[axis].id;
}

uint64_t gp_candidate_prewarm(const gp_candidate_t *candidate, uint64_t live_peak)
{
  const axis_t *axis = &kinds[candidate->type].axes[GP_AXIS_FIRST];
  int place = candidate->places[GP_AXIS_FIRST];
  if (axis->id != GP_OPTION_prewarm || place == axis->initial)
    return 0;
  double pages = (double)live_peak / (double)PAGE * strtod(axis->values[place], NULL) / 100;
  return ((uint64_t)pages + (pages > (double)(uint64_t)pages)) * PAGE;
}

void gp_candidate_describe(
    const gp_candidate_t *candidate, uint64_t live_peak, gp_candidate_settings_t *ret_settings)
{
  const kind_t *kind = &kinds[candidate->type];

  *ret_settings = (gp_candidate_settings_t){.count = 1};
  ret_settings->items[0].id = GP_OPTION_type;
  snprintf(ret_settings->items[0].text, sizeof(ret_settings->items[0].text), "%s", kind->name);
  for (int axis = 0; axis < GP_AXES; axis++) {
    if (candidate->places[axis] == kind->axes[axis].initial)
      continue;
    int item = ret_settings->count++;
    char *text = ret_settings->items[item].text;
    size_t capacity = sizeof(ret_settings->items[item].text);
    ret_settings->items[item].id = kind->axes[axis].id;
    if (kind->axes[axis].id == GP_OPTION_prewarm)
      snprintf(text, capacity, "%" PRIu64 "MiB", gp_candidate_prewarm(candidate, live_peak) / GP_MIB);
    else
      snprintf(text, capacity, "%s", kind->axes[axis].values[candidate->places[axis]]);
  }
}

bool gp_candidate_is_allowed(const gp_candidate_t *candidate, const gp_settings_t *given)
{
  const kind_t *kind = &kinds[candidate->type];
  const char *type = given->texts[GP_OPTION_type];

  if (type && strcmp(type, "all") != 0 && strcmp(type, kind->name) != 0)
    return false;
  for (int axis = 0; axis < GP_AXES; axis++) {
    if (candidate->places[axis] != kind->axes[axis].initial && kind->axes[axis].id != GP_OPTION_COUNT &&
        given->texts[kind->axes[axis].id])
      return false; /* the user has fixed this option */
  }
  return true;
}
