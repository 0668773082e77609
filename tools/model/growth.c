/*
 * Gathers, compares and describes groups. growth_judge.c decides which grow.
 */
#include "tools/model/growth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/model/growth_groups.h"
#include "tools/model/growth_judge.h"
#include "tools/model/memory.h"
#include "tools/saturated.h"
#include "tools/symbols/stack_owners.h"

#define MOST_LEVELS 1 /* of helpers that give way to their callers */
#define MIXED_SHARE 0.2
#define ALONE_SHARE 0.875 /* from this share on, the rest of the device does not grow */

typedef struct build {
  const gp_lifetimes_t *lifetimes;
  const gp_filter_t *filter;
  gp_growth_t *growth;
  gp_series_set_t devices; /* one group each */
  gp_whole_t *wholes;      /* by device */
  uint32_t last[GP_SNAPSHOT_DEVICES];
} build_t;

/* Keeps the candidates with the largest rise, sorted. */
static size_t add_candidate(gp_candidate_t *candidates, size_t count, const gp_candidate_t *candidate)
{
  size_t at = count;
  while (at > 0 && candidates[at - 1].rise < candidate->rise)
    at--;
  if (at == GP_GROWTH_OWNERS)
    return count;
  count += count < GP_GROWTH_OWNERS;
  memmove(&candidates[at + 1], &candidates[at], (count - 1 - at) * sizeof(*candidates));
  candidates[at] = *candidate;
  gp_assert(at == 0 || candidates[at - 1].rise >= candidate->rise);
  return count;
}

/* The first step of the growth. */
static const gp_change_t *first_step(const gp_series_t *series, const gp_course_t *course)
{
  const gp_change_t *at = gp_series_at(series, course->start);
  while (at + 1 < series->changes + series->count && at->floor <= course->floors[0])
    at++;
  return at;
}

/* Measures what the group has kept since the growth began, and whether it still holds it. is_estimate:
 * bytes_to is only an estimate so far. *ret_stack: the stack that keeps most. */
static int measure_kept(const build_t *build, const gp_groups_t *groups, uint32_t group, bool is_estimate,
    gp_grower_t *grower, int *ret_stack)
{
  size_t stacks = build->lifetimes->snapshot->stacks.count;
  uint64_t held = 0, held_count = 0, still = 0, *kept = calloc(stacks + 1, sizeof(*kept));

  if (!kept)
    return ENOMEM;
  for (size_t i = 0; i < build->lifetimes->life_count; i++) {
    const gp_life_t *life = &build->lifetimes->lives[i];
    if (groups->of[i] != group || !gp_life_is_held_at(life, grower->until))
      continue;
    still = gp_add_saturated(still, life->is_held ? life->requested : 0);
    if (life->begin < grower->since)
      continue;
    if (!grower->size_most || life->requested < grower->size_least)
      grower->size_least = life->requested;
    if (life->requested > grower->size_most)
      grower->size_most = life->requested;
    held = gp_add_saturated(held, life->is_held ? life->requested : 0);
    held_count += life->is_held;
    if (life->stack < 0)
      continue;
    kept[life->stack] = gp_add_saturated(kept[life->stack], life->requested);
    if (*ret_stack < 0 || kept[life->stack] > kept[*ret_stack])
      *ret_stack = life->stack;
  }
  free(kept);
  grower->is_held = (double)held >= 0.5 * (double)(grower->bytes_to - grower->bytes_from);
  if (is_estimate && grower->is_held && still > grower->bytes_from)
    grower->bytes_to = still;
  /* Memory in temporary use at the last allocation looks like kept memory. */
  if (grower->is_held && !grower->is_replaced && held_count > 0 && grower->steps > held_count)
    grower->steps = held_count;
  return 0;
}

static char *copy(const char *text, bool *failed)
{
  char *made = text && text[0] ? strdup(text) : NULL;
  *failed = *failed || (text && text[0] && !made);
  return made;
}

/* Names the owner by that stack. */
static int name_owner(
    const build_t *build, const gp_groups_t *groups, const gp_group_t *kind, int stack, gp_grower_t *grower)
{
  const gp_snapshot_t *snapshot = build->lifetimes->snapshot;
  gp_owner_text_t text;
  char line[3 * GP_OWNER_NAME_BYTES];
  bool failed = false;

  grower->frame = -1;
  if (stack < 0)
    return 0;
  (void)gp_stack_owner_text(snapshot, stack, &text);
  if (!text.language)
    grower->frame = groups->frames[stack];
  if (kind->name) {
    const gp_snapshot_frame_t *frame = &snapshot->frames[grower->frame];
    text = (gp_owner_text_t){.file = frame->file, .line = frame->file[0] ? frame->line : 0};
    (void)snprintf(text.function, sizeof(text.function), "%s", kind->name);
    (void)snprintf(text.through, sizeof(text.through), "%s", kind->through);
  }
  grower->function = copy(text.function, &failed);
  grower->through = copy(text.through, &failed);
  grower->text = copy(gp_owner_describe(&text, line, sizeof(line)), &failed);
  bool is_by_line =
      grower->frame >= 0 && snapshot->frame_kinds && snapshot->frame_kinds[grower->frame].is_common;
  text.through[0] = text.operation[0] = '\0';
  text.language = NULL;
  grower->name = copy(is_by_line ? gp_owner_describe(&text, line, sizeof(line)) : text.function, &failed);
  return failed ? ENOMEM : 0;
}

static int describe(const build_t *build, const gp_groups_t *groups, const gp_series_t *series,
    const gp_candidate_t *candidate, gp_grower_t *grower)
{
  const gp_group_t *kind = &groups->kinds[candidate->group % groups->kind_count];
  const gp_change_t *since = first_step(series, &candidate->course),
                    *last = series->changes + series->count - 1;
  int device = (int)(candidate->group / groups->kind_count);
  const gp_series_t *whole = &build->devices.series[device];
  const gp_course_t *course = &candidate->course;

  /* Temporary memory may be held at the end. If the group holds too much there, the pace gives the end. */
  uint64_t end = course->floors[GP_GROWTH_RISES] + candidate->rise / GP_GROWTH_RISES;
  *grower = (gp_grower_t){.by = kind->by,
      .device = device,
      .bytes_from = course->floors[0],
      .bytes_to = last->held <= end + candidate->rise / GP_GROWTH_RISES ? last->held : end,
      .count_from = course->counts[0],
      .count_to = last->count,
      .steps = candidate->steps,
      .since = since->moment,
      .until = course->end,
      .since_ns = gp_memory_time(build->lifetimes, since->moment),
      .until_ns = gp_memory_time(build->lifetimes, course->end),
      .is_replaced = candidate->is_replaced,
      .is_alone = candidate->share >= ALONE_SHARE};
  grower->others = gp_subtract_saturated(whole->changes[whole->count - 1].held, last->held);
  uint64_t window =
      course->start + (uint64_t)(course->end - course->start) * GP_GROWTH_RISES / GP_GROWTH_WINDOWS;
  uint64_t measured_ns = gp_memory_time(build->lifetimes, (uint32_t)window);
  if (!build->lifetimes->snapshot->times_are_numbers && measured_ns > grower->since_ns)
    grower->bytes_per_ns = (double)candidate->rise / (double)(measured_ns - grower->since_ns);
  int stack = kind->stack;
  int error = measure_kept(build, groups, candidate->group, grower->bytes_to != last->held, grower, &stack);
  return error ? error : name_owner(build, groups, kind, stack, grower);
}

/* A pass over a model keeps many sizes of many owners; a leak is of one owner and about one size. */
static bool is_single_pass(const gp_candidate_t *candidate, const gp_grower_t *grower)
{
  return candidate->needs_one_size && grower->size_most > grower->size_least + grower->size_least / 8;
}

static void free_names(gp_grower_t *grower)
{
  free(grower->function);
  free(grower->name);
  free(grower->text);
  free(grower->through);
}

static int keep(const build_t *build, const gp_groups_t *groups, const gp_series_set_t *set,
    const gp_candidate_t *candidates, size_t count, gp_growth_t *growth)
{
  double explained = 0;
  size_t kept = 0;

  for (size_t i = 0; i < count; i++)
    explained += candidates[i].share;
  for (size_t i = 0; i < count && growth->count < GP_GROWTH_MOST; i++) {
    gp_grower_t *grower = &growth->growers[growth->count];
    if (describe(build, groups, &set->series[candidates[i].group], &candidates[i], grower)) {
      free_names(grower);
      return ENOMEM;
    }
    if (is_single_pass(&candidates[i], grower))
      free_names(grower);
    else
      growth->count++, kept++;
  }
  for (size_t i = growth->count - kept; i < growth->count; i++)
    growth->growers[i].is_alone = explained >= ALONE_SHARE;
  return 0;
}

/* Finds what grows on a device, by group. */
static int find_on(const build_t *build, const gp_groups_t *groups, const gp_series_set_t *set, size_t device,
    gp_growth_t *growth)
{
  gp_candidate_t candidates[GP_GROWTH_OWNERS + 1], candidate;
  size_t count = 0;

  for (size_t i = 0; i < groups->kind_count && (device + 1) * groups->kind_count <= set->count; i++) {
    uint32_t group = (uint32_t)(device * groups->kind_count + i);
    candidate = (gp_candidate_t){.group = group};
    if (gp_growth_judge(&set->series[group], &build->wholes[device], &candidate))
      count = add_candidate(candidates, count, &candidate);
  }
  return keep(build, groups, set, candidates, count, growth);
}

/* True if much of the function's memory does not grow: it may be a helper. */
static bool is_mixed(const gp_grower_t *grower)
{
  return grower->function && (double)grower->bytes_from > MIXED_SHARE * (double)grower->bytes_to;
}

static void drop(gp_growth_t *growth, int device)
{
  size_t count = 0;
  for (size_t i = 0; i < growth->count; i++) {
    if (growth->growers[i].device == device)
      free_names(&growth->growers[i]);
    else
      growth->growers[count++] = growth->growers[i];
  }
  growth->count = count;
}

/* True if the device has no grower yet, or one that may be a helper. */
static bool is_open(const gp_growth_t *growth, int device)
{
  bool is_found = false;
  for (size_t i = 0; i < growth->count; i++) {
    if (growth->growers[i].device == device && is_mixed(&growth->growers[i]))
      return true;
    is_found = is_found || growth->growers[i].device == device;
  }
  return !is_found;
}

/* Finds growers by owner, with helpers replaced by their callers. *ret_more:
 * a further level may find more. */
static int find(build_t *build, int levels, bool *ret_more)
{
  gp_growth_t *growth = build->growth;
  gp_groups_t groups;
  gp_series_set_t set = {.count = 0};

  *ret_more = false;
  int error = gp_groups_init(&groups, build->lifetimes, build->filter, levels);
  if (error || groups.gave_way < levels) {
    gp_groups_fini(&groups); /* same groups as on the previous level */
    return error;
  }
  error = gp_series_set_init(&set, build->lifetimes, groups.of, groups.count, build->last);
  for (size_t device = 0; !error && device < build->devices.count; device++) {
    gp_growth_t found = {.count = 0};
    if (!is_open(growth, (int)device))
      continue;
    error = find_on(build, &groups, &set, device, &found);
    if (!error && found.count)
      drop(growth, (int)device);
    for (size_t i = 0; i < found.count; i++) {
      if (!error && growth->count < GP_GROWTH_MOST)
        growth->growers[growth->count++] = found.growers[i];
      else
        free_names(&found.growers[i]);
    }
  }
  for (size_t device = 0; device < build->devices.count; device++)
    *ret_more = *ret_more || (build->last[device] > 0 && is_open(growth, (int)device));
  gp_series_set_fini(&set);
  gp_groups_fini(&groups);
  return error;
}

/* The course of each device: the sum of its groups. */
static int measure_devices(build_t *build)
{
  const gp_lifetimes_t *lifetimes = build->lifetimes;
  gp_groups_t groups;

  int error = gp_groups_init(&groups, lifetimes, build->filter, GP_GROUPS_DEVICES);
  for (size_t i = 0; !error && i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (groups.of[i] != GP_GROUP_NONE && life->begin > build->last[life->device])
      build->last[life->device] = life->begin;
  }
  if (!error)
    error = gp_series_set_init(&build->devices, lifetimes, groups.of, groups.count, build->last);
  build->wholes = calloc(build->devices.count + 1, sizeof(*build->wholes));
  error = error || !build->wholes ? ENOMEM : 0;
  for (size_t i = 0; !error && i < build->devices.count; i++)
    gp_whole_init(&build->wholes[i], &build->devices.series[i], build->last[i],
        lifetimes->snapshot->recorded_since_ns == 0 && build->filter->since_ns == 0);
  for (size_t i = 0; !error && i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->begin > 0 && groups.of[i] != GP_GROUP_NONE)
      gp_whole_add(&build->wholes[life->device], life->begin, life->requested);
  }
  gp_groups_fini(&groups);
  return error;
}

static void find_rises(const build_t *build)
{
  gp_growth_t *growth = build->growth;
  gp_course_t course;

  for (size_t device = 0; device < build->devices.count && growth->rise_count < GP_GROWTH_MOST; device++) {
    const gp_series_t *series = &build->devices.series[device];
    bool has_grower = false;
    for (size_t i = 0; i < growth->count; i++)
      has_grower = has_grower || growth->growers[i].device == (int)device;
    if (!has_grower && gp_growth_rises(&build->wholes[device], &course))
      growth->rises[growth->rise_count++] = (gp_rise_t){.device = (int)device,
          .bytes_from = course.floors[0],
          .bytes_to = series->changes[series->count - 1].held,
          .since_ns = gp_memory_time(build->lifetimes, course.start)};
  }
}

const gp_growth_room_t *gp_growth_room(const gp_growth_t *growth, int device)
{
  for (size_t i = 0; i < growth->room_count; i++) {
    if (growth->rooms[i].device == device)
      return &growth->rooms[i];
  }
  return NULL;
}

/* Room: idle memory, and memory that is neither reserved nor in use by others. */
static void measure_room(const gp_snapshot_device_t *device, gp_growth_room_t *room)
{
  const gp_stats_t *stats = &device->stats;
  uint64_t held = gp_add_saturated(stats->reserved_bytes.current, stats->passthrough_bytes.current);
  uint64_t used = gp_subtract_saturated(held, stats->cached_bytes.current);
  uint64_t limit = device->limit, total = gp_subtract_saturated(device->total, device->unaccounted);
  uint64_t below_limit = gp_subtract_saturated(limit, used), below_total = gp_subtract_saturated(total, used);

  room->is_known = limit > 0 || device->total > 0;
  room->is_limit = limit > 0 && (device->total == 0 || below_limit <= below_total);
  room->bytes = room->is_limit ? below_limit : below_total;
  room->capacity = room->is_limit ? limit : device->total;
}

/* The rooms of the devices on which something grows. */
static void measure_rooms(gp_growth_t *growth, const gp_snapshot_t *snapshot)
{
  bool is_out = strcmp(gp_snapshot_text(snapshot->root, "reason"), "oom") == 0;
  for (size_t i = 0; i < growth->count; i++) {
    int device = growth->growers[i].device;
    if (gp_growth_room(growth, device))
      continue;
    gp_assert(growth->room_count < GP_GROWTH_MOST); /* no more than growers */
    gp_growth_room_t *room = &growth->rooms[growth->room_count++];
    const gp_snapshot_device_t *of = gp_snapshot_device(snapshot, device);
    *room = (gp_growth_room_t){.device = device};
    if (of)
      measure_room(of, room);
    double rate = 0;
    bool is_held = true;
    for (size_t k = i; k < growth->count && growth->growers[k].device == device; k++) {
      rate += growth->growers[k].bytes_per_ns;
      is_held = is_held && growth->growers[k].is_held;
    }
    double left_ns = rate > 0 ? (double)room->bytes / rate : 0;
    bool has_run_out = is_out || (of && of->stats.num_ooms > 0); /* a projection would be too late */
    if (room->is_known && is_held && !has_run_out && rate > 0 && left_ns < 9e18)
      room->exhausted_ns = left_ns < 1 ? 1 : (uint64_t)left_ns;
  }
}

int gp_growth_init(gp_growth_t *growth, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter)
{
  build_t build = {.lifetimes = lifetimes, .filter = filter, .growth = growth};

  *growth = (gp_growth_t){.count = 0};
  int error = measure_devices(&build);
  bool more = true;
  for (int levels = 0; !error && more && levels <= MOST_LEVELS; levels++)
    error = find(&build, levels, &more);
  if (!error)
    find_rises(&build);
  gp_series_set_fini(&build.devices);
  free(build.wholes);
  if (!error)
    measure_rooms(growth, lifetimes->snapshot);
  return error;
}

void gp_growth_fini(gp_growth_t *growth)
{
  for (size_t i = 0; i < growth->count; i++)
    free_names(&growth->growers[i]);
  *growth = (gp_growth_t){.count = 0};
}
