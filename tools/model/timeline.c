#include "tools/model/timeline.h"

#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"
#include "tools/array.h"
#include "tools/saturated.h"

/* The curve of one device. The walk fills its points in order. */
typedef struct build {
  const gp_timeline_t *timeline;
  gp_timeline_device_t *device;
  gp_memory_walk_t walk; /* counts the memory that device, stream and thread select, at any time */
  bool has_mode;
  size_t point;
} build_t;

uint64_t gp_timeline_time(const gp_timeline_t *timeline, size_t point)
{
  gp_assert_internal(point <= timeline->point_count && timeline->from_ns <= timeline->to_ns);
  uint64_t span = timeline->to_ns - timeline->from_ns; /* below 2^53; the number of points is below 2^11 */
  return timeline->from_ns + span / timeline->point_count * point +
         span % timeline->point_count * point / timeline->point_count;
}

static uint64_t held_of(const gp_memory_t *memory)
{
  return gp_add_saturated(memory->allocated, memory->forwarded);
}

static uint64_t reserved_of(const gp_timeline_t *timeline, bool knows_reserved, const gp_memory_t *memory)
{
  bool is_drawn = !timeline->is_selected && knows_reserved;
  return is_drawn ? gp_add_saturated(memory->reserved, memory->forwarded) : 0;
}

/* Adds the current state to the current point. With is_first, the point begins with the current state. */
static void update_point(build_t *build, bool is_first, uint64_t time_ns)
{
  gp_timeline_device_t *device = build->device;
  gp_timeline_point_t *point = &device->points[build->point];
  uint64_t held = held_of(&build->walk.memory);
  uint64_t reserved = reserved_of(build->timeline, device->knows_reserved, &build->walk.memory);
  if (is_first)
    *point = (gp_timeline_point_t){held, held, held, reserved, reserved};
  point->held_most = held > point->held_most ? held : point->held_most;
  point->held_least = held < point->held_least ? held : point->held_least;
  point->reserved_most = reserved > point->reserved_most ? reserved : point->reserved_most;
  point->held_end = held;
  point->reserved_end = reserved;
  if (held > device->held_peak) {
    device->held_peak = held;
    device->held_peak_ns = time_ns;
  }
  if (reserved > device->reserved_peak)
    device->reserved_peak = reserved;
}

/* Advances to the part that contains time_ns, but never past the last part. */
static void advance(build_t *build, uint64_t time_ns)
{
  const gp_timeline_t *timeline = build->timeline;
  while (
      build->point + 1 < timeline->point_count && gp_timeline_time(timeline, build->point + 1) <= time_ns) {
    build->point++;
    update_point(build, true, time_ns);
  }
}

static int add_mark(build_t *build, size_t event, uint64_t time_ns)
{
  const gp_snapshot_events_t *events = &build->walk.lifetimes->snapshot->events;
  int64_t detail = gp_snapshot_event(events, GP_COLUMN_DETAIL, event, -1);
  gp_event_kind_t kind = gp_snapshot_event_kind(events, event);

  if (!gp_event_look(kind).letter)
    return 0;
  if (kind == GP_EVENT_MODE && !build->has_mode) {
    build->has_mode = true;
    return 0; /* the first event is the initial mode of a device, not a change */
  }
  gp_timeline_mark_t *mark = GP_ARRAY_ADD(build->device->marks, build->device->mark_count);
  if (!mark)
    return ENOMEM;
  *mark = (gp_timeline_mark_t){time_ns, (uint64_t)gp_snapshot_event(events, GP_COLUMN_SIZE, event, 0),
      detail >= 0 ? events->details.names[detail] : "", kind};
  return 0;
}

/* Fills the curve. Starts with the first event in the selected time, even if later events have earlier
 * times. */
static int follow(build_t *build)
{
  const gp_timeline_t *timeline = build->timeline;
  const gp_snapshot_events_t *events = &build->walk.lifetimes->snapshot->events;
  const gp_column_t *times = events->columns[GP_COLUMN_TIME_NS];
  int error = 0;
  size_t i = 0;

  for (; i < events->count && (uint64_t)gp_column_get(times, i) < timeline->from_ns; i++)
    gp_memory_walk_next(&build->walk);
  update_point(build, true, timeline->from_ns);
  for (; !error && i < events->count && (uint64_t)gp_column_get(times, i) <= timeline->to_ns; i++) {
    uint64_t time_ns = (uint64_t)gp_column_get(times, i);
    advance(build, time_ns);
    gp_memory_walk_next(&build->walk);
    if (gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0) != build->device->device)
      continue;
    update_point(build, false, time_ns);
    error = add_mark(build, i, time_ns);
  }
  advance(build, timeline->to_ns);
  return error;
}

/* Returns true if each device and point satisfies the invariants in timeline.h. */
static bool are_sound(const gp_timeline_t *timeline)
{
  for (size_t i = 0; i < timeline->device_count; i++) {
    const gp_timeline_device_t *device = &timeline->devices[i];
    for (size_t k = 0; k < timeline->point_count; k++) {
      const gp_timeline_point_t *point = &device->points[k];
      if (point->held_least > point->held_end || point->held_end > point->held_most ||
          point->held_most > device->held_peak || point->reserved_end > point->reserved_most ||
          point->reserved_most > device->reserved_peak)
        return false;
    }
  }
  return true;
}

static int add_device(gp_timeline_t *timeline, const gp_lifetimes_t *lifetimes, const gp_filter_t *selection,
    const gp_snapshot_device_t *known)
{
  gp_timeline_device_t *device = &timeline->devices[timeline->device_count++];
  build_t build = {.timeline = timeline,
      .device = device,
      .has_mode = lifetimes->snapshot->recorded_since_ns > 0}; /* the initial mode was not recorded */

  *device = (gp_timeline_device_t){.device = known->device,
      .knows_reserved = !known->lacks_reserved,
      .points = calloc(timeline->point_count, sizeof(*device->points))};
  if (!device->points)
    return ENOMEM;
  gp_memory_walk_begin(&build.walk, lifetimes, selection, NULL, known->device);
  return follow(&build);
}

/* Returns a copy of the filter that selects any time. */
static gp_filter_t selection_of(const gp_filter_t *filter)
{
  gp_filter_t selection = *filter; /* shares the lists of `filter` */
  selection.since_ns = 0;
  selection.until_ns = UINT64_MAX;
  return selection;
}

int gp_timeline_init(
    gp_timeline_t *timeline, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, size_t points)
{
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;
  const gp_column_t *times = events->columns[GP_COLUMN_TIME_NS];

  gp_assert(points > 0);
  *timeline = (gp_timeline_t){
      .point_count = points, .is_selected = filter->streams != NULL || filter->threads != NULL};
  if (!events->count || !times || lifetimes->snapshot->lacks_history)
    return 0;
  uint64_t first_ns = (uint64_t)gp_column_get(times, 0);
  uint64_t last_ns = (uint64_t)gp_column_get(times, events->count - 1);
  timeline->from_ns = filter->since_ns > first_ns ? filter->since_ns : first_ns;
  timeline->to_ns = filter->until_ns < last_ns ? filter->until_ns : last_ns;
  if (timeline->from_ns > timeline->to_ns)
    return 0;
  gp_filter_t selection = selection_of(filter);
  int error = 0;
  for (size_t i = 0; !error && i < lifetimes->snapshot->device_count; i++) {
    if (gp_filter_has_device(filter, lifetimes->snapshot->devices[i].device))
      error = add_device(timeline, lifetimes, &selection, &lifetimes->snapshot->devices[i]);
  }
  gp_assert_full(error || are_sound(timeline));
  return error;
}

void gp_timeline_at(const gp_timeline_t *timeline, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, int device, uint64_t *ret_held, uint64_t *ret_reserved)
{
  gp_filter_t selection = selection_of(filter);
  const gp_snapshot_device_t *known = gp_snapshot_device(lifetimes->snapshot, device);
  gp_memory_t memory;

  gp_moments_memory(moments, lifetimes, &selection, device, &memory);
  *ret_held = held_of(&memory);
  *ret_reserved = reserved_of(timeline, moments->is_end || !known || !known->lacks_reserved, &memory);
}

void gp_timeline_fini(gp_timeline_t *timeline)
{
  for (size_t i = 0; i < timeline->device_count; i++) {
    free(timeline->devices[i].points);
    free(timeline->devices[i].marks);
  }
  *timeline = (gp_timeline_t){0};
}
