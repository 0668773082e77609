/*
 * Reconstructs the memory that the driver supplied over time, for a device whose segments grow and shrink
 * (expandable_segments). PyTorch records only which parts it maps and unmaps. So a backward pass begins with
 * the segments at the end: undoing an unmap adds a part, and undoing a map removes one. A map of memory that
 * is not supplied, or a block outside all parts, contradicts the events. In that case some events in the
 * middle are missing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/read/pytorch/import_parts.h"

/* A range of memory that is supplied at the current moment of the backward pass. */
typedef struct part {
  uint64_t address;
  uint64_t size;
  size_t end; /* as in gp_snapshot_extent_t */
  int stream;
  int pool;
  bool is_expandable;
} part_t;

/* The state of the backward pass. `parts` is sorted by address, without overlaps. Adjacent expandable parts
 * form one segment. An array is fast enough: a map has at least 2 MiB, so a device has few parts. */
typedef struct replay {
  gp_import_t *import;
  gp_snapshot_device_t *device;
  part_t *parts;
  size_t count;
  size_t room;
  size_t extent_room;
  uint64_t segments;
} replay_t;

/* Returns the index of the first part that ends after `address`. */
static size_t find(const replay_t *replay, uint64_t address)
{
  size_t low = 0, high = replay->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (replay->parts[middle].address + replay->parts[middle].size <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Returns the number of segments that begin with one of the parts [from, to). */
static uint64_t count_segments(const replay_t *replay, size_t from, size_t to)
{
  uint64_t count = 0;
  for (size_t i = from; i < to && i < replay->count; i++) {
    const part_t *part = &replay->parts[i], *before = part - 1;
    count += i == 0 || !part->is_expandable || !before->is_expandable ||
             before->address + before->size != part->address;
  }
  return count;
}

static bool insert(replay_t *replay, size_t at, const part_t *part)
{
  if (!GP_IMPORT_RESERVE(replay->import, replay->parts, replay->count, replay->room))
    return false;
  memmove(&replay->parts[at + 1], &replay->parts[at], (replay->count - at) * sizeof(*replay->parts));
  replay->parts[at] = *part;
  replay->count++;
  return true;
}

/* Splits the part that contains `address`, if any. *ret_at is the index of the first part from `address`
 * on. */
static bool cut(replay_t *replay, uint64_t address, size_t *ret_at)
{
  size_t at = find(replay, address);
  *ret_at = at;
  if (at == replay->count || replay->parts[at].address >= address)
    return true;
  part_t rest = replay->parts[at];
  replay->parts[at].size = address - rest.address;
  rest.size -= replay->parts[at].size;
  rest.address = address;
  *ret_at = at + 1;
  return insert(replay, at + 1, &rest);
}

/* Adds the parts [from, to) to the extents. `begin` is the moment at which they begin. */
static bool keep(replay_t *replay, size_t from, size_t to, size_t begin)
{
  gp_snapshot_t *snapshot = replay->import->snapshot;
  for (size_t i = from; i < to; i++) {
    const part_t *part = &replay->parts[i];
    if (!GP_IMPORT_RESERVE(replay->import, snapshot->extents, snapshot->extent_count, replay->extent_room))
      return false;
    snapshot->extents[snapshot->extent_count++] = (gp_snapshot_extent_t){part->address, part->size, begin,
        part->end, replay->device->device, part->stream, part->pool, part->is_expandable};
  }
  return true;
}

static bool begin_at_end(replay_t *replay)
{
  const gp_snapshot_t *snapshot = replay->import->snapshot;
  for (size_t i = 0; i < snapshot->segment_count; i++) { /* sorted by address */
    const gp_snapshot_segment_t *segment = &snapshot->segments[i];
    const part_t part = {
        segment->address, segment->size, SIZE_MAX, segment->stream, segment->pool, segment->is_expandable};
    const part_t *last = replay->count ? &replay->parts[replay->count - 1] : NULL;
    if (segment->device != replay->device->device || !segment->size)
      continue;
    if (last && last->address + last->size > segment->address)
      replay->device->lacks_reserved = true;
    else if (!insert(replay, replay->count, &part))
      return false;
  }
  replay->segments = count_segments(replay, 0, replay->count);
  return true;
}

/* Returns how many bytes of [address, address + size) the parts contain. */
static uint64_t bytes_there(const replay_t *replay, uint64_t address, uint64_t size)
{
  uint64_t bytes = 0, end = address + size;
  for (size_t i = find(replay, address); i < replay->count && replay->parts[i].address < end; i++) {
    const part_t *part = &replay->parts[i];
    uint64_t first = part->address > address ? part->address : address;
    uint64_t last = part->address + part->size < end ? part->address + part->size : end;
    bytes += last - first;
  }
  return bytes;
}

/* Undoes the event before `moment`, in which the driver supplied the memory (is_supply) or got it back. */
static bool undo(replay_t *replay, part_t range, size_t moment, bool is_supply)
{
  gp_gauge_t *gauge = &replay->device->stats.segment;
  size_t from, to;

  if (!range.size || bytes_there(replay, range.address, range.size) != (is_supply ? range.size : 0)) {
    replay->device->lacks_reserved = true;
    return true;
  }
  if (!cut(replay, range.address, &from) || !cut(replay, range.address + range.size, &to))
    return false;
  gp_assert_internal(from <= to && to <= replay->count);
  uint64_t later = count_segments(replay, from, to + 1);
  if (!is_supply) {
    if (!insert(replay, from, &range))
      return false;
    to++;
  } else {
    if (!keep(replay, from, to, moment))
      return false;
    memmove(&replay->parts[from], &replay->parts[to], (replay->count - to) * sizeof(*replay->parts));
    replay->count -= to - from;
    to = from;
  }
  uint64_t before = count_segments(replay, from, to + 1);
  gauge->allocated += later > before ? later - before : 0;
  replay->segments += before - later; /* may wrap around, which subtracts */
  gauge->peak = replay->segments > gauge->peak ? replay->segments : gauge->peak;
  return true;
}

static bool undo_event(replay_t *replay, size_t i)
{
  int64_t *const *columns = replay->import->columns;
  uint64_t address = (uint64_t)columns[GP_COLUMN_ADDRESS][i], size = (uint64_t)columns[GP_COLUMN_SIZE][i];
  uint64_t rounded = (uint64_t)columns[GP_COLUMN_ROUNDED_SIZE][i];
  gp_event_kind_t kind =
      (gp_event_kind_t)replay->import->snapshot->events.kinds[columns[GP_COLUMN_ACTION][i]];
  int stream = (int)columns[GP_COLUMN_STREAM][i], pool = (int)columns[GP_IMPORT_POOL][i];
  const part_t range = {address, size, i + 1, stream, pool < 0 ? 0 : pool,
      kind == GP_EVENT_SEGMENT_MAP || kind == GP_EVENT_SEGMENT_UNMAP};
  gp_stats_t *stats = &replay->device->stats;

  switch (kind) {
  case GP_EVENT_SEGMENT_ALLOC:
  case GP_EVENT_SEGMENT_MAP: stats->driver_allocs++; return undo(replay, range, i + 1, true);
  case GP_EVENT_SEGMENT_FREE:
  case GP_EVENT_SEGMENT_UNMAP: stats->driver_frees++; return undo(replay, range, i + 1, false);
  case GP_EVENT_ALLOC:
    replay->device->lacks_reserved |= bytes_there(replay, address, rounded) != rounded;
    return true;
  default: return true;
  }
}

bool gp_import_extents(gp_import_t *import, gp_snapshot_device_t *device)
{
  replay_t replay = {.import = import, .device = device, .extent_room = import->snapshot->extent_count};
  gp_gauge_t *gauge = &device->stats.segment;

  device->has_extents = true;
  device->stats.driver_allocs = device->stats.driver_frees = 0;
  bool good = begin_at_end(&replay);
  *gauge = (gp_gauge_t){.current = replay.segments, .peak = replay.segments};
  for (size_t i = import->snapshot->events.count; i-- > 0 && good;) {
    if (import->columns[GP_COLUMN_DEVICE][i] == device->device)
      good = undo_event(&replay, i);
  }
  good = good && keep(&replay, 0, replay.count, 0);
  gauge->allocated += replay.segments;
  device->stats.driver_allocs += replay.segments;
  gauge->freed = gauge->allocated - gauge->current;
  free(replay.parts);
  return good;
}
