#include "tools/model/oom_moment.h"

#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/size.h"
#include "tools/hash_index.h"
#include "tools/model/memory_map.h"
#include "tools/saturated.h"

/* Sorts by sum, largest first, and equal sums by size, largest first. */
static int compare_sizes(const void *a, const void *b)
{
  const gp_oom_owner_t *x = a, *y = b;
  double one = (double)x->size * (double)x->count, other = (double)y->size * (double)y->count;
  return one != other ? (one < other) - (one > other) : (x->size < y->size) - (x->size > y->size);
}

static int find_sizes(gp_oom_moment_t *oom, const gp_lifetimes_t *lifetimes)
{
  gp_hash_index_t by_size = {0};
  gp_oom_owner_t *sizes = NULL;
  size_t count = 0;
  int error = 0;

  for (size_t i = 0; !error && i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->device != oom->event.device || life->kind == GP_LIFE_HOST ||
        !gp_moments_hold(&oom->moments, life))
      continue;
    gp_oom_owner_t *size = GP_HASH_NUMBER(&by_size, sizes, count, life->requested);
    error = size ? 0 : ENOMEM;
    if (size)
      size->count++;
  }
  if (count)
    qsort(sizes, count, sizeof(*sizes), compare_sizes);
  for (size_t i = 0; i < count && i < GP_OOM_OWNERS; i++)
    oom->figures.owners[i] = sizes[i];
  gp_hash_index_fini(&by_size);
  free(sizes);
  return error;
}

bool gp_memory_knows_reserved(const gp_lifetimes_t *lifetimes, const gp_moments_t *moments, int device)
{
  const gp_snapshot_device_t *known = gp_snapshot_device(lifetimes->snapshot, device);
  return (moments->is_end && !lifetimes->snapshot->lacks_segments) || !known || !known->lacks_reserved;
}

int gp_memory_hole(const gp_lifetimes_t *lifetimes, const gp_moments_t *moments, int device,
    uint64_t *ret_bytes, uint64_t *ret_segments)
{
  gp_map_t *map = calloc(1, sizeof(*map)); /* too large for the stack */
  int error = map ? gp_map_init(map, lifetimes, moments->at, device) : ENOMEM;
  *ret_bytes = !error && map->device_count ? map->devices[0].largest_idle : 0;
  *ret_segments = !error && map->device_count ? map->devices[0].segment_count : 0;
  if (map)
    gp_map_fini(map);
  free(map);
  return error;
}

#define SMALL_MOST    GP_MIB       /* largest block in PyTorch's small pool */
#define SMALL_SEGMENT (2 * GP_MIB) /* segments of PyTorch's small pool, unless they are expandable */

/* Returns true if a segment is in PyTorch's small pool. A segment contains either small or large blocks. If
 * the segment is empty, its size decides. */
static bool is_small(const gp_map_t *map, const gp_map_segment_t *segment)
{
  for (size_t i = segment->first_part; i < segment->first_part + segment->part_count; i++) {
    if (map->parts[i].state != GP_SNAPSHOT_IDLE)
      return map->parts[i].size <= SMALL_MOST;
  }
  return segment->size <= SMALL_SEGMENT;
}

/* Measures the idle memory in the segments in which PyTorch searches for the failed request. */
static int measure_usable(gp_oom_moment_t *oom, const gp_lifetimes_t *lifetimes)
{
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;
  size_t event = oom->event.moment - 1;
  int64_t stream = gp_snapshot_event(events, GP_COLUMN_STREAM, event, -1);
  int pool = gp_snapshot_event_pool(events, event);
  gp_map_t *map = calloc(1, sizeof(*map)); /* too large for the stack */
  int error = map ? gp_map_init(map, lifetimes, oom->moments.at, oom->event.device) : ENOMEM;

  oom->usable = 0;
  for (size_t i = 0; !error && i < map->segment_count; i++) {
    const gp_map_segment_t *segment = &map->segments[i];
    if (segment->stream != stream || segment->pool != pool ||
        is_small(map, segment) != (oom->event.requested <= SMALL_MOST))
      continue;
    for (size_t k = segment->first_part; k < segment->first_part + segment->part_count; k++) {
      uint64_t idle = map->parts[k].state == GP_SNAPSHOT_IDLE ? map->parts[k].size : 0;
      oom->usable = gp_add_saturated(oom->usable, idle);
      oom->figures.largest_free = idle > oom->figures.largest_free ? idle : oom->figures.largest_free;
    }
  }
  if (map)
    gp_map_fini(map);
  free(map);
  return error;
}

/* Measures the memory in use at the moment of the event. */
static int measure(gp_oom_moment_t *oom, const gp_lifetimes_t *lifetimes)
{
  const gp_snapshot_t *snapshot = lifetimes->snapshot;
  gp_memory_t memory;
  uint64_t segments;

  gp_moments_memory(&oom->moments, lifetimes, NULL, oom->event.device, &memory);
  oom->figures.live = memory.allocated;
  oom->live_requested = memory.requested;
  oom->figures.deferred = memory.deferred;
  oom->knows_cached = gp_memory_knows_reserved(lifetimes, &oom->moments, oom->event.device);
  if (oom->knows_cached)
    oom->figures.cached =
        gp_subtract_saturated(memory.reserved, gp_add_saturated(memory.allocated, memory.deferred));
  oom->figures.passthrough = memory.forwarded;
  const gp_snapshot_device_t *device = gp_snapshot_device(snapshot, oom->event.device);
  oom->figures.limit = device ? device->limit : 0;
  oom->figures.device_total = device ? device->total : 0;
  if (oom->event.has_event)
    oom->knows_free =
        gp_snapshot_device_free(&snapshot->events, oom->event.moment - 1, &oom->figures.device_free);
  int error = 0;
  oom->usable = oom->figures.cached;
  if (oom->knows_cached && oom->event.has_event && snapshot->is_pytorch)
    error = measure_usable(oom, lifetimes);
  else if (oom->knows_cached)
    error =
        gp_memory_hole(lifetimes, &oom->moments, oom->event.device, &oom->figures.largest_free, &segments);
  return error ? error : find_sizes(oom, lifetimes);
}

/* Reads the report, which overrides figures from events, because it was made when the request failed. */
static void read_report(gp_oom_moment_t *oom, const gp_snapshot_t *snapshot)
{
  (void)gp_oom_report_read(snapshot, "oom", &oom->figures);
  oom->knows_cached = true;
  oom->usable = oom->figures.cached;
  oom->knows_free = oom->figures.device_total > 0;
}

/* Reads the sizes in use from the report. Called only if the events do not show them. */
static void read_sizes(gp_oom_moment_t *oom, const cJSON *report)
{
  const cJSON *owner;
  size_t i = 0;
  cJSON_ArrayForEach(owner, cJSON_GetObjectItemCaseSensitive(report, "owners"))
  {
    if (i == GP_OOM_OWNERS)
      break;
    (void)gp_snapshot_uint(owner, "size", &oom->figures.owners[i].size);
    (void)gp_snapshot_uint(owner, "count", &oom->figures.owners[i++].count);
  }
}

int gp_oom_moment_init(
    gp_oom_moment_t *oom, const gp_lifetimes_t *lifetimes, const gp_oom_events_t *ooms, size_t index)
{
  const cJSON *report = cJSON_GetObjectItemCaseSensitive(lifetimes->snapshot->root, "oom");
  int error = 0;

  *oom = (gp_oom_moment_t){.event = ooms->events[index], .number = index + 1};
  gp_assert(oom->event.has_moment || oom->event.is_reported); /* so the memory in use is known */
  if (oom->event.has_moment) {
    gp_moments_oom(&oom->moments, lifetimes, &oom->event, oom->number);
    error = measure(oom, lifetimes);
  }
  if (oom->event.is_reported)
    read_report(oom, lifetimes->snapshot);
  if (oom->event.is_reported && !oom->event.has_moment)
    read_sizes(oom, report);
  return error;
}
