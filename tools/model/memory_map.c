#include "tools/model/memory_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/saturated.h"

static int compare_numbers(uint64_t a, uint64_t b)
{
  return (a > b) - (a < b);
}

static int compare_segments(const void *a, const void *b)
{
  const gp_map_segment_t *x = a, *y = b;
  if (x->device != y->device)
    return x->device < y->device ? -1 : 1;
  return compare_numbers(x->address, y->address);
}

static int compare_lives(const void *a, const void *b)
{
  const gp_life_t *x = *(const gp_life_t *const *)a, *y = *(const gp_life_t *const *)b;
  if (x->device != y->device)
    return x->device < y->device ? -1 : 1;
  return compare_numbers(x->address, y->address);
}

static void add_part(gp_map_t *map, gp_map_segment_t *segment, uint64_t offset, uint64_t size,
    uint64_t requested, gp_snapshot_state_t state)
{
  map->parts[map->part_count++] = (gp_map_part_t){offset, size, requested, state};
  segment->part_count++;
}

/* Makes the map for the end by copying the snapshot's final state. */
static int copy_snapshot(gp_map_t *map, const gp_snapshot_t *snapshot, int device)
{
  map->segments = calloc(snapshot->segment_count + 1, sizeof(*map->segments));
  map->parts = calloc(snapshot->block_count + 1, sizeof(*map->parts));
  if (!map->segments || !map->parts)
    return ENOMEM;
  for (size_t i = 0; i < snapshot->segment_count; i++) {
    const gp_snapshot_segment_t *from = &snapshot->segments[i];
    if (device != GP_REQUEST_ALL_DEVICES && from->device != device)
      continue;
    gp_map_segment_t *segment = &map->segments[map->segment_count++];
    *segment = (gp_map_segment_t){.address = from->address,
        .size = from->size,
        .first_part = map->part_count,
        .device = from->device,
        .stream = from->stream,
        .pool = from->pool};
    for (size_t k = from->first_block; k < from->first_block + from->block_count; k++) {
      const gp_snapshot_block_t *block = &snapshot->blocks[k];
      add_part(map, segment, gp_subtract_saturated(block->address, from->address), block->size,
          block->state == GP_SNAPSHOT_ALLOCATED ? block->requested : 0, block->state);
    }
  }
  return 0;
}

/* Lists the blocks in use at `moment`, sorted by device and address. The caller frees the list. */
static const gp_life_t **list_lives(const gp_lifetimes_t *lifetimes, uint32_t moment, size_t *ret_count)
{
  const gp_life_t **lives = calloc(lifetimes->life_count + 1, sizeof(*lives));
  size_t count = 0;
  for (size_t i = 0; lives && i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->kind == GP_LIFE_POOLED && life->begin <= moment && life->done > moment)
      lives[count++] = life;
  }
  if (count > 1)
    qsort(lives, count, sizeof(*lives), compare_lives);
  *ret_count = count;
  return lives;
}

static int compare_places(int device, uint64_t address, const gp_map_segment_t *segment)
{
  if (device != segment->device)
    return device < segment->device ? -1 : 1;
  return (address > segment->address) - (address < segment->address);
}

static uint64_t bytes_of_parts(const gp_map_t *map, const gp_map_segment_t *segment)
{
  uint64_t bytes = 0;
  for (size_t i = segment->first_part; i < map->part_count; i++)
    bytes += map->parts[i].size;
  return bytes;
}

/* Fills a segment with the blocks in use, and makes the gaps between them idle. *next is the first block that
 * may be in the segment. Advances *next past the segment's blocks. */
static void fill_segment(gp_map_t *map, gp_map_segment_t *segment, uint32_t moment,
    const gp_life_t *const *lives, size_t count, size_t *next)
{
  uint64_t at = 0; /* offset at which the parts so far end */
  size_t i = *next;

  segment->first_part = map->part_count;
  while (i < count && compare_places(lives[i]->device, lives[i]->address, segment) < 0)
    i++;
  for (; i < count && lives[i]->device == segment->device &&
         lives[i]->address - segment->address < segment->size;
       i++) {
    uint64_t offset = lives[i]->address - segment->address, rest = segment->size - offset;
    bool is_held = lives[i]->freed > moment;
    if (offset < at)
      continue; /* never happens in a snapshot that the library wrote */
    if (offset > at)
      add_part(map, segment, at, offset - at, 0, GP_SNAPSHOT_IDLE);
    at = offset + (gp_life_rounded(lives[i]) < rest ? gp_life_rounded(lives[i]) : rest);
    add_part(map, segment, offset, at - offset, is_held ? lives[i]->requested : 0,
        is_held ? GP_SNAPSHOT_ALLOCATED : GP_SNAPSHOT_PENDING);
  }
  if (at < segment->size)
    add_part(map, segment, at, segment->size - at, 0, GP_SNAPSHOT_IDLE);
  gp_assert_full(bytes_of_parts(map, segment) == segment->size);
  *next = i;
}

/* Joins adjacent segments if a block spans them, or if they are expandable. Before that, mapped memory has
 * one segment per piece of physical memory. */
static void join_pieces(gp_map_t *map, const gp_life_t *const *lives, size_t count)
{
  size_t kept = 0, next = 0;
  uint64_t reach = 0; /* address at which the blocks so far end */

  for (size_t i = 0; i < map->segment_count; i++) {
    const gp_map_segment_t *segment = &map->segments[i];
    for (; next < count && compare_places(lives[next]->device, lives[next]->address, segment) < 0; next++)
      reach =
          lives[next]->device == segment->device ? lives[next]->address + gp_life_rounded(lives[next]) : 0;
    gp_map_segment_t *before = kept > 0 ? &map->segments[kept - 1] : NULL;
    if (before && before->device == segment->device && before->address + before->size == segment->address &&
        (reach > segment->address || (before->is_expandable && segment->is_expandable)))
      before->size += segment->size;
    else
      map->segments[kept++] = *segment;
    if (next < count && lives[next]->device != segment->device)
      reach = 0;
  }
  map->segment_count = kept;
}

/* Makes the map for an earlier moment: puts the blocks in use into the segments of that moment. The rest of
 * each segment is idle. */
static int rebuild(gp_map_t *map, const gp_lifetimes_t *lifetimes, uint32_t moment, int device)
{
  size_t count, next = 0;
  const gp_life_t **lives = list_lives(lifetimes, moment, &count);
  map->segments = calloc(lifetimes->segment_count + 1, sizeof(*map->segments));
  map->parts = calloc(2 * count + lifetimes->segment_count + 1, sizeof(*map->parts));
  if (!lives || !map->segments || !map->parts) {
    free(lives);
    return ENOMEM;
  }
  for (size_t i = 0; i < lifetimes->segment_count; i++) {
    const gp_segment_life_t *from = &lifetimes->segments[i];
    bool is_there = from->begin <= moment && from->end > moment;
    if (is_there && (device == GP_REQUEST_ALL_DEVICES || from->device == device))
      map->segments[map->segment_count++] = (gp_map_segment_t){.address = from->address,
          .size = from->size,
          .device = from->device,
          .stream = from->stream,
          .pool = from->pool,
          .is_expandable = from->is_expandable};
  }
  if (map->segment_count > 1)
    qsort(map->segments, map->segment_count, sizeof(*map->segments), compare_segments);
  join_pieces(map, lives, count);
  for (size_t i = 0; i < map->segment_count; i++)
    fill_segment(map, &map->segments[i], moment, lives, count, &next);
  gp_assert(map->part_count <= 2 * count + map->segment_count); /* capacity of parts */
  free(lives);
  return 0;
}

/*
 * Sums
 */

static void add(gp_map_amount_t *amount, uint64_t bytes)
{
  amount->bytes = gp_add_saturated(amount->bytes, bytes);
  amount->count++;
}

static void add_segment(gp_map_device_t *device, const gp_map_t *map, const gp_map_segment_t *segment)
{
  device->reserved = gp_add_saturated(device->reserved, segment->size);
  device->segment_count++;
  for (size_t i = segment->first_part; i < segment->first_part + segment->part_count; i++) {
    const gp_map_part_t *part = &map->parts[i];
    add(&device->states[part->state], part->size);
    device->requested = gp_add_saturated(device->requested, part->requested);
    if (part->state == GP_SNAPSHOT_IDLE && part->size > device->largest_idle)
      device->largest_idle = part->size;
  }
}

static int compare_sizes(const void *a, const void *b, void *arg)
{
  const gp_map_t *map = arg;
  const gp_map_segment_t *x = &map->segments[*(const size_t *)a], *y = &map->segments[*(const size_t *)b];
  int order = compare_numbers(y->size, x->size);
  return order ? order : compare_numbers(x->address, y->address);
}

static int compare_groups(const void *a, const void *b)
{
  const gp_map_group_t *x = a, *y = b;
  int order = compare_numbers(y->bytes, x->bytes);
  return order ? order : compare_numbers(y->size, x->size);
}

/* Returns true if the device and its groups satisfy the invariants in memory_map.h. */
static bool is_sound(const gp_map_device_t *device)
{
  uint64_t segments = device->split_count;
  for (size_t i = 0; i < device->group_count; i++) {
    uint64_t parts = 0;
    for (size_t state = 0; state <= GP_SNAPSHOT_OTHER; state++)
      parts += device->groups[i].states[state].count;
    if (parts != device->groups[i].count)
      return false;
    segments += device->groups[i].count;
  }
  return segments == device->segment_count;
}

/* Adds a device with the segments [first, end) to the map. */
static int describe_device(gp_map_t *map, size_t first, size_t end)
{
  gp_map_device_t *device = &map->devices[map->device_count++];
  gp_assert(first < end && end <= map->segment_count);
  size_t *alike = calloc(end - first, sizeof(*alike));
  size_t alike_count = 0;

  device->device = map->segments[first].device;
  device->split = calloc(end - first, sizeof(*device->split));
  device->groups = calloc(end - first, sizeof(*device->groups));
  if (!alike || !device->split || !device->groups) {
    free(alike);
    return ENOMEM;
  }
  for (size_t i = first; i < end; i++) {
    add_segment(device, map, &map->segments[i]);
    if (map->segments[i].part_count == 1)
      alike[alike_count++] = i;
    else
      device->split[device->split_count++] = i;
  }
  qsort_r(device->split, device->split_count, sizeof(*device->split), compare_sizes, map);
  qsort_r(alike, alike_count, sizeof(*alike), compare_sizes, map);
  for (size_t i = 0; i < alike_count; i++) {
    const gp_map_segment_t *segment = &map->segments[alike[i]];
    const gp_map_part_t *part = &map->parts[segment->first_part];
    if (device->group_count == 0 || device->groups[device->group_count - 1].size != segment->size)
      device->groups[device->group_count++].size = segment->size;
    gp_map_group_t *group = &device->groups[device->group_count - 1];
    group->count++;
    group->bytes = gp_add_saturated(group->bytes, segment->size);
    add(&group->states[part->state], part->size);
  }
  if (device->group_count > 1)
    qsort(device->groups, device->group_count, sizeof(*device->groups), compare_groups);
  gp_assert_full(is_sound(device));
  free(alike);
  return 0;
}

int gp_map_init(gp_map_t *map, const gp_lifetimes_t *lifetimes, uint32_t moment, int device)
{
  *map = (gp_map_t){.segment_count = 0};
  int error = moment >= lifetimes->end ? copy_snapshot(map, lifetimes->snapshot, device)
                                       : rebuild(map, lifetimes, moment, device);
  if (!error && moment >= lifetimes->end && map->segment_count > 1)
    qsort(map->segments, map->segment_count, sizeof(*map->segments), compare_segments);
  for (size_t i = 0; !error && i < map->segment_count;) {
    size_t first = i;
    while (i < map->segment_count && map->segments[i].device == map->segments[first].device)
      i++;
    error = describe_device(map, first, i);
  }
  return error;
}

void gp_map_fini(gp_map_t *map)
{
  for (size_t i = 0; i < map->device_count; i++) {
    free(map->devices[i].groups);
    free(map->devices[i].split);
  }
  free(map->segments);
  free(map->parts);
  *map = (gp_map_t){.segment_count = 0};
}
