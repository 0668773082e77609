#include "tools/model/summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/saturated.h"

/*
 * Blocks
 */

static gp_summary_device_t *find_device(gp_summary_t *summary, int device)
{
  for (size_t i = 0; i < summary->device_count; i++) {
    if (summary->devices[i].device->device == device)
      return &summary->devices[i];
  }
  return NULL;
}

static int compare_lives(const void *a, const void *b)
{
  const gp_life_t *x = *(const gp_life_t *const *)a;
  const gp_life_t *y = *(const gp_life_t *const *)b;
  if (x->device != y->device)
    return x->device < y->device ? -1 : 1;
  return (x->requested > y->requested) - (x->requested < y->requested);
}

/* Adds a group to the sorted list of groups with the largest sums, if it belongs there. */
static void add_group(gp_summary_device_t *device, const gp_summary_group_t *group)
{
  size_t at = device->group_count;
  device->size_count++;
  while (at > 0 && device->groups[at - 1].bytes < group->bytes)
    at--;
  if (at == GP_SUMMARY_GROUPS)
    return;
  size_t last = device->group_count < GP_SUMMARY_GROUPS ? device->group_count++ : GP_SUMMARY_GROUPS - 1;
  memmove(&device->groups[at + 1], &device->groups[at], (last - at) * sizeof(*group));
  device->groups[at] = *group;
  gp_assert_internal(at == 0 || device->groups[at - 1].bytes >= group->bytes);
}

static void count_block(gp_summary_device_t *device, const gp_snapshot_block_t *block)
{
  switch (block->state) {
  case GP_SNAPSHOT_ALLOCATED:
    device->live_count++;
    device->live_bytes = gp_add_saturated(device->live_bytes, block->size);
    break;
  case GP_SNAPSHOT_PENDING:
    device->pending_count++;
    device->pending_bytes = gp_add_saturated(device->pending_bytes, block->size);
    break;
  case GP_SNAPSHOT_IDLE:
    device->idle_count++;
    device->idle_bytes = gp_add_saturated(device->idle_bytes, block->size);
    if (block->size > device->largest_idle)
      device->largest_idle = block->size;
    break;
  case GP_SNAPSHOT_OTHER: break;
  }
}

static void count_blocks(gp_summary_t *summary)
{
  const gp_snapshot_t *snapshot = summary->snapshot;
  for (size_t i = 0; i < snapshot->block_count; i++) {
    const gp_snapshot_block_t *block = &snapshot->blocks[i];
    gp_summary_device_t *device = find_device(summary, block->device);
    if (block->time_ns > summary->until_ns)
      summary->until_ns = block->time_ns;
    if (device)
      count_block(device, block);
  }
}

static int group_live_blocks(gp_summary_t *summary)
{
  const gp_lifetimes_t *lifetimes = &summary->lifetimes;
  const gp_life_t **live = calloc(lifetimes->life_count + 1, sizeof(*live));
  size_t count = 0;

  if (!live)
    return ENOMEM;
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->is_held && life->kind == GP_LIFE_POOLED && find_device(summary, life->device) &&
        gp_lifetimes_has(summary->filter, life))
      live[count++] = life;
  }
  qsort(live, count, sizeof(*live), compare_lives);
  for (size_t i = 0; i < count;) {
    gp_summary_group_t group = {.requested = live[i]->requested};
    size_t first = i;
    for (; i < count && compare_lives(&live[i], &live[first]) == 0; i++) {
      group.count++;
      group.bytes = gp_add_saturated(group.bytes, live[i]->rounded);
    }
    add_group(find_device(summary, live[first]->device), &group);
  }
  free(live);
  return 0;
}

/*
 * Events
 */

/* Makes the list of details. `counts` has one count for each combination of action and detail. */
static int keep_details(gp_summary_t *summary, const uint64_t *counts)
{
  const gp_snapshot_events_t *events = &summary->snapshot->events;
  size_t kinds = events->details.count;
  size_t used = 0;
  for (size_t i = 0; i < events->actions.count * kinds; i++)
    used += counts[i] > 0 && events->details.names[i % kinds][0];
  summary->details = calloc(used + 1, sizeof(*summary->details));
  if (!summary->details)
    return ENOMEM;
  for (size_t i = 0; i < events->actions.count * kinds; i++) {
    if (counts[i] > 0 && events->details.names[i % kinds][0])
      summary->details[summary->detail_count++] = (gp_summary_detail_t){
          events->actions.names[i / kinds], events->details.names[i % kinds], counts[i]};
  }
  return 0;
}

/* Computes the time spent in the driver. A miss records two events, segment_alloc and alloc, with the
 * duration of the same driver call. So only the larger of the two sums counts. */
static void sum_driver_time(gp_summary_t *summary)
{
  const gp_snapshot_events_t *events = &summary->snapshot->events;
  const gp_summary_action_t none = {0};
  const gp_summary_action_t *alloc = &none, *segment_alloc = &none;
  for (size_t i = 0; i < summary->action_count; i++) {
    const gp_summary_action_t *action = &summary->actions[i];
    summary->driver_ns = gp_add_saturated(summary->driver_ns, action->driver_ns);
    summary->driver_calls += action->driver_calls;
    if (events->kinds[i] == GP_EVENT_ALLOC)
      alloc = action;
    else if (events->kinds[i] == GP_EVENT_SEGMENT_ALLOC)
      segment_alloc = action;
  }
  const gp_summary_action_t *smaller =
      alloc->driver_calls < segment_alloc->driver_calls ? alloc : segment_alloc;
  summary->driver_ns = gp_subtract_saturated(summary->driver_ns, smaller->driver_ns);
  summary->driver_calls -= smaller->driver_calls;
}

/* Counts an event. `details` has one count for each combination of action and detail. */
static void count_event(gp_summary_t *summary, size_t event, uint64_t at_ns, uint64_t *details)
{
  const gp_snapshot_events_t *events = &summary->snapshot->events;
  size_t action = (size_t)gp_column_get(events->columns[GP_COLUMN_ACTION], event);
  uint64_t lasted_ns = (uint64_t)gp_snapshot_event(events, GP_COLUMN_DURATION_NS, event, 0);
  int64_t detail = gp_snapshot_event(events, GP_COLUMN_DETAIL, event, -1);
  gp_summary_action_t *row = &summary->actions[action];

  if (summary->event_count == 0 || at_ns < summary->first_ns)
    summary->first_ns = at_ns;
  if (at_ns > summary->last_ns)
    summary->last_ns = at_ns;
  summary->event_count++;
  row->count++;
  row->driver_ns = gp_add_saturated(row->driver_ns, lasted_ns);
  row->driver_calls += lasted_ns > 0;
  if (lasted_ns > row->longest_ns)
    row->longest_ns = lasted_ns;
  if (detail >= 0)
    details[action * events->details.count + (size_t)detail]++;
}

static int gather_events(gp_summary_t *summary)
{
  const gp_snapshot_events_t *events = &summary->snapshot->events;

  summary->actions = calloc(events->actions.count + 1, sizeof(*summary->actions));
  uint64_t *details = calloc(events->actions.count * events->details.count + 1, sizeof(*details));
  if (!summary->actions || !details) {
    free(details);
    return ENOMEM;
  }
  summary->action_count = events->actions.count;
  for (size_t i = 0; i < summary->action_count; i++)
    summary->actions[i].name = events->actions.names[i];

  for (size_t i = 0; events->columns[GP_COLUMN_ACTION] && i < events->count; i++) {
    uint64_t at_ns = (uint64_t)gp_snapshot_event(events, GP_COLUMN_TIME_NS, i, 0);
    if (gp_filter_has(summary->filter, (int)gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0),
            gp_snapshot_event(events, GP_COLUMN_STREAM, i, -1),
            gp_snapshot_event(events, GP_COLUMN_THREAD, i, GP_FILTER_UNKNOWN), at_ns))
      count_event(summary, i, at_ns, details);
  }
  sum_driver_time(summary);
  if (summary->last_ns > summary->until_ns)
    summary->until_ns = summary->last_ns;
  int error = keep_details(summary, details);
  free(details);
  return error;
}

uint64_t gp_summary_detail_count(const gp_summary_t *summary, const char *action, const char *detail)
{
  for (size_t i = 0; i < summary->detail_count; i++) {
    if (strcmp(summary->details[i].action, action) == 0 && strcmp(summary->details[i].detail, detail) == 0)
      return summary->details[i].count;
  }
  return 0;
}

/*
 * Choice of the summary's moment
 */

/* Describes the out-of-memory event with this index. */
static int describe_oom(gp_summary_t *summary, size_t index)
{
  summary->has_oom = true;
  return gp_oom_moment_init(&summary->oom, &summary->lifetimes, &summary->ooms, index);
}

static int find_oom(gp_summary_t *summary)
{
  int error = gp_oom_events_init(&summary->ooms, &summary->lifetimes);
  size_t index = error ? SIZE_MAX : gp_oom_events_main(&summary->ooms, summary->filter->device);
  if (!error && index != SIZE_MAX)
    error = describe_oom(summary, index);
  if (summary->has_oom && summary->oom.event.has_moment && !summary->oom.event.got_as_much)
    summary->moments = summary->oom.moments;
  return error;
}

/* Chooses the summary's moment; the moment of --at takes precedence. Returns 0 or an error. *ret_status is as
 * for gp_summary_init_at. */
static int choose_moment(gp_summary_t *summary, const gp_request_t *request, int *ret_status)
{
  gp_moments_t moments;
  if (!request || request->at.kind == GP_MOMENT_NONE)
    return 0;
  *ret_status = gp_moments_find(&moments, &summary->lifetimes, summary->filter, request, summary->file);
  if (*ret_status)
    return 0;
  summary->moments = moments;
  return moments.oom ? describe_oom(summary, moments.oom - 1) : 0;
}

static int measure_moment(gp_summary_t *summary)
{
  const gp_moments_t *moments = &summary->moments;
  const gp_lifetimes_t *lifetimes = &summary->lifetimes;
  int error = 0;

  for (size_t i = 0; !error && i < summary->device_count; i++) {
    gp_summary_device_t *device = &summary->devices[i];
    int ordinal = device->device->device;
    device->has_then = !moments->is_end && (!moments->is_of_one || moments->device == ordinal);
    if (!device->has_then)
      continue;
    gp_moments_memory(moments, lifetimes, NULL, ordinal, &device->then);
    device->knows_reserved = gp_memory_knows_reserved(lifetimes, moments, ordinal);
    error = gp_memory_hole(lifetimes, moments, ordinal, &device->then_hole, &device->then_segments);
  }
  return error;
}

int gp_summary_init_at(gp_summary_t *summary, const gp_snapshot_t *snapshot, const char *file,
    const gp_filter_t *filter, const gp_request_t *request, int *ret_status)
{
  gp_moments_t end;

  *summary = (gp_summary_t){.file = file, .snapshot = snapshot, .filter = filter};
  *ret_status = 0;
  for (size_t i = 0; i < snapshot->device_count; i++) {
    if (gp_filter_has_device(filter, snapshot->devices[i].device))
      summary->devices[summary->device_count++].device = &snapshot->devices[i];
  }
  summary->is_partial = gp_snapshot_is_partial(snapshot);
  uint64_t oom_ns;
  const cJSON *oom = cJSON_GetObjectItemCaseSensitive(snapshot->root, "oom");
  if (gp_snapshot_uint(oom, "time_ns", &oom_ns) == 1)
    summary->until_ns = oom_ns;
  count_blocks(summary);
  int error = gp_lifetimes_init(&summary->lifetimes, snapshot);
  gp_moments_end(&end, &summary->lifetimes);
  summary->moments = end;
  if (!error)
    error = group_live_blocks(summary);
  if (!error)
    error = gather_events(summary);
  if (!error)
    error = find_oom(summary);
  if (!error)
    error = choose_moment(summary, request, ret_status);
  if (!error && !*ret_status)
    error = measure_moment(summary);
  if (!error)
    error = gp_sites_init(
        &summary->sites, &summary->lifetimes, filter, &summary->moments, GP_SITE_BY_FUNCTION, NULL, NULL);
  for (size_t i = 0; !error && i < summary->device_count; i++)
    error = gp_component_use_init(&summary->devices[i].components, &summary->lifetimes, filter, &end,
        summary->devices[i].device->device);
  if (!error)
    error = gp_growth_init(&summary->growth, &summary->lifetimes, filter, GP_OWNED_DEVICE);
  if (!error)
    error = gp_growth_init(&summary->pinned_growth, &summary->lifetimes, filter, GP_OWNED_HOST);
  if (!error)
    error = gp_phase_use_init(&summary->phases, &summary->lifetimes, filter, &summary->moments);
  return error;
}

int gp_summary_init(
    gp_summary_t *summary, const gp_snapshot_t *snapshot, const char *file, const gp_filter_t *filter)
{
  int status;
  return gp_summary_init_at(summary, snapshot, file, filter, NULL, &status);
}

void gp_summary_fini(gp_summary_t *summary)
{
  free(summary->actions);
  free(summary->details);
  for (size_t i = 0; i < summary->device_count; i++)
    gp_component_use_fini(&summary->devices[i].components);
  gp_sites_fini(&summary->sites);
  gp_phase_use_fini(&summary->phases);
  gp_oom_events_fini(&summary->ooms);
  gp_lifetimes_fini(&summary->lifetimes);
  *summary = (gp_summary_t){.device_count = 0};
}
