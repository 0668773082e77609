#include "tools/model/timeline.h"

#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"
#include "tools/array.h"
#include "tools/model/memory.h"
#include "tools/saturated.h"

typedef struct build {
  gp_timeline_t *timeline;
  const gp_lifetimes_t *lifetimes;
  gp_filter_t selection; /* by device, stream and thread; not by time */
  gp_timeline_device_t *by_ordinal[GP_SNAPSHOT_DEVICES];
  gp_memory_t memory[GP_SNAPSHOT_DEVICES];
  uint64_t selected[GP_SNAPSHOT_DEVICES]; /* bytes held by selected allocations */
  bool has_mode[GP_SNAPSHOT_DEVICES];
  size_t point; /* the point being filled */
} build_t;

uint64_t gp_timeline_time(const gp_timeline_t *timeline, size_t point)
{
  gp_assert_internal(point <= timeline->point_count && timeline->from_ns <= timeline->to_ns);
  uint64_t span = timeline->to_ns - timeline->from_ns; /* below 2^53; points is below 2^11 */
  return timeline->from_ns + span / timeline->point_count * point +
         span % timeline->point_count * point / timeline->point_count;
}

static uint64_t held_of(const build_t *build, int device)
{
  const gp_memory_t *memory = &build->memory[device];
  if (build->timeline->is_selected)
    return build->selected[device];
  return gp_add_saturated(memory->allocated, memory->forwarded);
}

static uint64_t reserved_of(const build_t *build, int device)
{
  const gp_memory_t *memory = &build->memory[device];
  bool is_drawn = !build->timeline->is_selected && build->by_ordinal[device]->knows_reserved;
  return is_drawn ? gp_add_saturated(memory->reserved, memory->forwarded) : 0;
}

/* The state at a part's beginning also counts for the part. */
static void begin_point(build_t *build, gp_timeline_device_t *device, size_t point)
{
  uint64_t held = held_of(build, device->device), reserved = reserved_of(build, device->device);
  device->points[point] = (gp_timeline_point_t){held, held, held, reserved, reserved};
}

static void note_peak(build_t *build, gp_timeline_device_t *device, uint64_t time_ns)
{
  uint64_t held = held_of(build, device->device), reserved = reserved_of(build, device->device);
  if (held > device->held_peak) {
    device->held_peak = held;
    device->held_peak_ns = time_ns;
  }
  if (reserved > device->reserved_peak)
    device->reserved_peak = reserved;
}

static void update_point(build_t *build, gp_timeline_device_t *device, uint64_t time_ns)
{
  gp_timeline_point_t *point = &device->points[build->point];
  uint64_t held = held_of(build, device->device), reserved = reserved_of(build, device->device);
  point->held_most = held > point->held_most ? held : point->held_most;
  point->held_least = held < point->held_least ? held : point->held_least;
  point->reserved_most = reserved > point->reserved_most ? reserved : point->reserved_most;
  point->held_end = held;
  point->reserved_end = reserved;
  note_peak(build, device, time_ns);
}

/* Advances to the part that contains time_ns; later times count for no part. */
static void advance(build_t *build, uint64_t time_ns)
{
  gp_timeline_t *timeline = build->timeline;
  while (
      build->point + 1 < timeline->point_count && gp_timeline_time(timeline, build->point + 1) <= time_ns) {
    build->point++;
    for (size_t i = 0; i < timeline->device_count; i++)
      begin_point(build, &timeline->devices[i], build->point);
  }
}

static int add_mark(build_t *build, gp_timeline_device_t *device, size_t event, uint64_t time_ns)
{
  const gp_snapshot_events_t *events = &build->lifetimes->snapshot->events;
  int64_t detail = gp_snapshot_event(events, GP_COLUMN_DETAIL, event, -1);
  gp_event_kind_t kind = gp_snapshot_event_kind(events, event);

  if (!gp_event_look(kind).letter)
    return 0;
  if (kind == GP_EVENT_MODE && !build->has_mode[device->device]) {
    build->has_mode[device->device] = true;
    return 0; /* the initial mode of a device */
  }
  gp_timeline_mark_t *mark = GP_ARRAY_ADD(device->marks, device->mark_count);
  if (!mark)
    return ENOMEM;
  *mark = (gp_timeline_mark_t){time_ns, (uint64_t)gp_snapshot_event(events, GP_COLUMN_SIZE, event, 0),
      detail >= 0 ? events->details.names[detail] : "", kind};
  return 0;
}

static void step(build_t *build, int device, size_t event)
{
  const gp_life_t *life = gp_lifetimes_life(build->lifetimes, event);
  uint32_t moment = (uint32_t)event + 1;
  gp_memory_step(build->lifetimes, event, &build->memory[device]);
  if (!life || life->kind == GP_LIFE_HOST || !gp_lifetimes_has(&build->selection, life))
    return;
  if (life->begin == moment)
    build->selected[device] = gp_add_saturated(build->selected[device], gp_life_rounded(life));
  if (life->freed == moment)
    build->selected[device] = gp_subtract_saturated(build->selected[device], gp_life_rounded(life));
}

static void begin_selected(build_t *build)
{
  for (size_t i = 0; i < build->lifetimes->life_count; i++) {
    const gp_life_t *life = &build->lifetimes->lives[i];
    if (gp_life_is_held_at(life, 0) && life->kind != GP_LIFE_HOST &&
        gp_lifetimes_has(&build->selection, life))
      build->selected[life->device] = gp_add_saturated(build->selected[life->device], gp_life_rounded(life));
  }
}

/* The state at the beginning of the time. */
static void begin(build_t *build)
{
  for (size_t i = 0; i < build->timeline->device_count; i++) {
    gp_timeline_device_t *device = &build->timeline->devices[i];
    begin_point(build, device, 0);
    note_peak(build, device, build->timeline->from_ns);
  }
}

static int walk(build_t *build)
{
  gp_timeline_t *timeline = build->timeline;
  const gp_snapshot_events_t *events = &build->lifetimes->snapshot->events;
  const gp_column_t *times = events->columns[GP_COLUMN_TIME_NS];
  bool is_inside = false;
  int error = 0;

  for (size_t i = 0; !error && i < events->count; i++) {
    int ordinal = (int)gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0);
    gp_timeline_device_t *device = ordinal >= 0 ? build->by_ordinal[ordinal] : NULL;
    uint64_t time_ns = (uint64_t)gp_column_get(times, i);
    if (time_ns > timeline->to_ns)
      break;
    if (!is_inside && time_ns >= timeline->from_ns) {
      is_inside = true;
      begin(build);
    }
    if (is_inside)
      advance(build, time_ns);
    if (!device)
      continue;
    step(build, ordinal, i);
    if (is_inside) {
      update_point(build, device, time_ns);
      error = add_mark(build, device, i, time_ns);
    }
  }
  if (!is_inside) /* nothing happened in that time */
    begin(build);
  advance(build, timeline->to_ns);
  return error;
}

/* What timeline.h says of each device and point. */
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

/* Adds the devices that get a curve, with their state before the events. */
static int add_devices(build_t *build, const gp_filter_t *filter)
{
  gp_timeline_t *timeline = build->timeline;
  const gp_snapshot_t *snapshot = build->lifetimes->snapshot;
  for (size_t i = 0; i < snapshot->device_count; i++) {
    int ordinal = snapshot->devices[i].device;
    if (!gp_filter_has_device(filter, ordinal))
      continue;
    gp_timeline_device_t *device = &timeline->devices[timeline->device_count++];
    device->device = ordinal;
    device->knows_reserved = !snapshot->devices[i].lacks_reserved;
    device->points = calloc(timeline->point_count, sizeof(*device->points));
    if (!device->points)
      return ENOMEM;
    build->by_ordinal[ordinal] = device;
    gp_memory_held(build->lifetimes, ordinal, 0, false, &build->memory[ordinal]);
  }
  return 0;
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
  build_t *build = calloc(1, sizeof(*build));
  if (!build)
    return ENOMEM;
  build->timeline = timeline;
  build->lifetimes = lifetimes;
  build->selection = *filter;
  build->selection.since_ns = 0;
  build->selection.until_ns = UINT64_MAX;
  for (int i = 0; i < GP_SNAPSHOT_DEVICES; i++)
    build->has_mode[i] = lifetimes->snapshot->recorded_since_ns > 0; /* the first mode event is missing */
  int error = add_devices(build, filter);
  if (!error) {
    begin_selected(build);
    error = walk(build);
  }
  gp_assert_full(error || are_sound(timeline));
  free(build);
  return error;
}

void gp_timeline_at(const gp_timeline_t *timeline, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, int device, uint64_t *ret_held, uint64_t *ret_reserved)
{
  gp_filter_t selection = *filter;
  uint64_t forwarded = 0;

  *ret_held = *ret_reserved = 0;
  selection.since_ns = 0;
  selection.until_ns = UINT64_MAX;
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->device != device || life->kind == GP_LIFE_HOST || !gp_moments_hold(moments, life) ||
        !gp_lifetimes_has(&selection, life))
      continue;
    *ret_held = gp_add_saturated(*ret_held, gp_life_rounded(life));
    forwarded = gp_add_saturated(forwarded, life->kind == GP_LIFE_FORWARDED ? gp_life_rounded(life) : 0);
  }
  const gp_snapshot_device_t *of = gp_snapshot_device(lifetimes->snapshot, device);
  if (timeline->is_selected || (of && of->lacks_reserved && !moments->is_end))
    return;
  *ret_reserved = forwarded;
  for (size_t i = 0; i < lifetimes->segment_count; i++) {
    const gp_segment_life_t *segment = &lifetimes->segments[i];
    if (segment->device == device && segment->begin <= moments->at[device] &&
        segment->end > moments->at[device])
      *ret_reserved = gp_add_saturated(*ret_reserved, segment->size);
  }
}

void gp_timeline_fini(gp_timeline_t *timeline)
{
  for (size_t i = 0; i < timeline->device_count; i++) {
    free(timeline->devices[i].points);
    free(timeline->devices[i].marks);
  }
  *timeline = (gp_timeline_t){0};
}
