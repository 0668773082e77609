/*
 * Computes what PyTorch's events do not contain. Events refer to blocks only by address, so a backward pass
 * tells blocks with the same address apart. It starts with the blocks in the segments: undoing a free creates
 * a block, and undoing an alloc removes one. A forward pass then computes times and sums.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/output.h"
#include "tools/read/pytorch/import_parts.h"

#define ROUND_BYTES UINT64_C(512) /* PyTorch's default rounding of sizes */

typedef struct replay {
  gp_import_t *import;
  gp_snapshot_events_t *events;
  /* The key is the address plus 1. A block is marked until the pass reaches its free_requested. */
  gp_block_map_t blocks[GP_SNAPSHOT_DEVICES];
  gp_import_unsplit_t unsplit[GP_SNAPSHOT_DEVICES];
  bool finds_unsplit; /* true: compute the sizes of blocks from the segments */
  /* Number of blocks so far. Blocks are numbered from 1 on until number_blocks reverses the order. */
  uint64_t count;
  uint64_t *alloc_ns; /* by block number: time of the alloc plus 1; 0: not recorded */
  uint64_t *sizes;    /* by block number: rounded size */
  /* By block number minus 1: index in the snapshot's blocks plus 1. These blocks have the lowest numbers. */
  size_t *final_blocks;
} replay_t;

static bool no_memory(replay_t *replay)
{
  return gp_value_tree_fail(&replay->import->tree, 0, "not enough memory to read this");
}

static int64_t *at(const replay_t *replay, gp_snapshot_column_t column, size_t i)
{
  return &replay->import->columns[column][i];
}

static gp_event_kind_t kind_of(const replay_t *replay, size_t i)
{
  return (gp_event_kind_t)replay->events->kinds[*at(replay, GP_COLUMN_ACTION, i)];
}

/* Returns true if an event of this kind means that the driver supplied memory. */
static bool is_supply(gp_event_kind_t kind)
{
  return kind == GP_EVENT_SEGMENT_ALLOC || kind == GP_EVENT_SEGMENT_MAP;
}

/* Returns the rounded size of a block. `said` is the size that gpupool's export wrote, or 0 for PyTorch's
 * snapshots, which do not contain this size. */
static uint64_t rounded(uint64_t size, uint64_t said)
{
  if (said)
    return said;
  return size ? (size + ROUND_BYTES - 1) / ROUND_BYTES * ROUND_BYTES : ROUND_BYTES;
}

static bool meet(replay_t *replay, int device, uint64_t address, uint64_t size, bool is_marked)
{
  const gp_block_entry_t entry = {
      .key = address + 1, .address = ++replay->count, .size = size, .rounded = size, .is_marked = is_marked};
  if (!gp_block_map_put(&replay->blocks[device], &entry))
    return no_memory(replay);
  return !replay->finds_unsplit ||
         gp_import_unsplit_add(&replay->unsplit[device], &replay->blocks[device], address);
}

/* Adds the snapshot's blocks before all others. So a block's number minus 1 is its index in final_blocks. */
static bool meet_final_blocks(replay_t *replay)
{
  gp_snapshot_t *snapshot = replay->import->snapshot;
  for (size_t i = 0; i < snapshot->block_count; i++) {
    gp_snapshot_block_t *block = &snapshot->blocks[i];
    if (block->state != GP_SNAPSHOT_ALLOCATED && block->state != GP_SNAPSHOT_PENDING)
      continue;
    if (!meet(replay, block->device, block->address, block->size, block->state == GP_SNAPSHOT_PENDING))
      return false;
    block->block = replay->count;
    replay->final_blocks[replay->count - 1] = i + 1;
  }
  return true;
}

static bool undo(replay_t *replay, size_t i, size_t final_count)
{
  gp_event_kind_t kind = kind_of(replay, i);
  int device = (int)*at(replay, GP_COLUMN_DEVICE, i);
  uint64_t address = (uint64_t)*at(replay, GP_COLUMN_ADDRESS, i);
  uint64_t size = (uint64_t)*at(replay, GP_COLUMN_SIZE, i);
  gp_block_map_t *blocks = &replay->blocks[device];
  gp_block_entry_t *block = gp_block_map_find(blocks, address + 1);

  uint64_t said = (uint64_t)*at(replay, GP_COLUMN_ROUNDED_SIZE, i);

  *at(replay, GP_COLUMN_ROUNDED_SIZE, i) = (int64_t)size;
  if (replay->finds_unsplit && (kind == GP_EVENT_SEGMENT_ALLOC || kind == GP_EVENT_SEGMENT_FREE))
    return gp_import_unsplit_segment(&replay->unsplit[device], address, size, kind == GP_EVENT_SEGMENT_FREE);
  if (kind != GP_EVENT_ALLOC && kind != GP_EVENT_FREE_REQUESTED && kind != GP_EVENT_FREE_COMPLETED)
    return true;
  bool is_known = block && (kind == GP_EVENT_ALLOC || (kind == GP_EVENT_FREE_REQUESTED && block->is_marked));
  if (!is_known) {
    if (!meet(replay, device, address, rounded(size, said), kind == GP_EVENT_FREE_COMPLETED))
      return false;
    block = gp_block_map_find(blocks, address + 1);
  }
  *at(replay, GP_COLUMN_BLOCK, i) = (int64_t)block->address;
  *at(replay, GP_COLUMN_ROUNDED_SIZE, i) = (int64_t)block->rounded;
  if (kind == GP_EVENT_FREE_REQUESTED)
    block->is_marked = false;
  if (kind != GP_EVENT_ALLOC)
    return true;
  if (block->address <= final_count)
    replay->import->snapshot->blocks[replay->final_blocks[block->address - 1] - 1].time_ns =
        (uint64_t)*at(replay, GP_COLUMN_TIME_NS, i);
  if (replay->finds_unsplit)
    gp_import_unsplit_remove(&replay->unsplit[device], address);
  (void)gp_block_map_take(blocks, address + 1, NULL); /* cannot fail, because the block is in the map */
  return true;
}

/* Stores the sizes of blocks that existed before the events. Undoing a free stores the size of the block as
 * known at that point of the pass. Only now is the size final. */
static void note_sizes_before(replay_t *replay)
{
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    const gp_block_map_t *blocks = &replay->blocks[device];
    for (size_t i = 0; i < blocks->count; i++)
      replay->sizes[replay->count + 1 - blocks->entries[i].address] = blocks->entries[i].rounded;
  }
}

/* Reverses the block numbers, because the pass finds the oldest block last. Then sets the members that depend
 * on the time of the alloc. */
static bool number_blocks(replay_t *replay)
{
  gp_snapshot_t *snapshot = replay->import->snapshot;
  bool came_from_driver[GP_SNAPSHOT_DEVICES] = {false};

  replay->alloc_ns = calloc((size_t)replay->count + 1, sizeof(uint64_t));
  replay->sizes = calloc((size_t)replay->count + 1, sizeof(uint64_t));
  if (!replay->alloc_ns || !replay->sizes)
    return no_memory(replay);
  note_sizes_before(replay);
  for (size_t i = 0; i < snapshot->block_count; i++) {
    if (snapshot->blocks[i].block)
      snapshot->blocks[i].block = replay->count + 1 - snapshot->blocks[i].block;
  }
  for (size_t i = 0; i < replay->events->count; i++) {
    int64_t *block = at(replay, GP_COLUMN_BLOCK, i);
    int64_t time_ns = *at(replay, GP_COLUMN_TIME_NS, i);
    int device = (int)*at(replay, GP_COLUMN_DEVICE, i);
    bool is_miss =
        came_from_driver[device]; /* the driver supplies the memory of a block directly before the block */
    came_from_driver[device] = is_supply(kind_of(replay, i));
    switch (kind_of(replay, i)) {
    case GP_EVENT_ALLOC:
      *block = (int64_t)replay->count + 1 - *block;
      gp_assert_internal(*block > 0 && (uint64_t)*block <= replay->count);
      replay->alloc_ns[*block] = (uint64_t)time_ns + 1;
      replay->sizes[*block] = (uint64_t)*at(replay, GP_COLUMN_ROUNDED_SIZE, i);
      *at(replay, GP_COLUMN_HIT, i) = !is_miss;
      break;
    case GP_EVENT_FREE_REQUESTED:
    case GP_EVENT_FREE_COMPLETED:
      *block = (int64_t)replay->count + 1 - *block;
      *at(replay, GP_COLUMN_ROUNDED_SIZE, i) = (int64_t)replay->sizes[*block];
      if (replay->alloc_ns[*block])
        *at(replay, GP_COLUMN_LIFETIME_NS, i) = time_ns - (int64_t)(replay->alloc_ns[*block] - 1);
      break;
    default: break;
    }
  }
  return true;
}

/* Statistics. A gauge's value at the first event follows from its value at the end, and from its rises and
 * falls in the events. */

typedef enum gauge {
  ALLOCATION,
  SEGMENT,
  ALLOCATED,
  REQUESTED,
  RESERVED,
  ACTIVE,
  DEFERRED,
  GAUGE_COUNT,
} gauge_t;

typedef struct change {
  gauge_t gauge;
  bool is_down;
  uint64_t amount;
} change_t;

#define CHANGES_MOST 4

/* Writes the changes that event `i` makes to gauges to `changes`, and returns their number. */
static size_t changes_of(const replay_t *replay, size_t i, change_t *changes)
{
  uint64_t size = (uint64_t)*at(replay, GP_COLUMN_SIZE, i);
  uint64_t round = (uint64_t)*at(replay, GP_COLUMN_ROUNDED_SIZE, i);
  switch (kind_of(replay, i)) {
  case GP_EVENT_ALLOC:
    changes[0] = (change_t){ALLOCATION, false, 1};
    changes[1] = (change_t){ALLOCATED, false, round};
    changes[2] = (change_t){REQUESTED, false, size};
    changes[3] = (change_t){ACTIVE, false, round};
    return 4;
  case GP_EVENT_FREE_REQUESTED:
    changes[0] = (change_t){ALLOCATION, true, 1};
    changes[1] = (change_t){ALLOCATED, true, round};
    changes[2] = (change_t){REQUESTED, true, size};
    changes[3] = (change_t){DEFERRED, false, round};
    return 4;
  case GP_EVENT_FREE_COMPLETED:
    changes[0] = (change_t){ACTIVE, true, round};
    changes[1] = (change_t){DEFERRED, true, round};
    return 2;
  case GP_EVENT_SEGMENT_ALLOC:
  case GP_EVENT_SEGMENT_MAP:
    changes[0] = (change_t){SEGMENT, false, 1};
    changes[1] = (change_t){RESERVED, false, size};
    return 2;
  case GP_EVENT_SEGMENT_FREE:
  case GP_EVENT_SEGMENT_UNMAP:
    changes[0] = (change_t){SEGMENT, true, 1};
    changes[1] = (change_t){RESERVED, true, size};
    return 2;
  default: return 0;
  }
}

static gp_gauge_t *gauge_of(gp_snapshot_device_t *device, gauge_t gauge)
{
  gp_stats_t *stats = &device->stats;
  switch (gauge) {
  case ALLOCATION: return &stats->allocation;
  case SEGMENT: return &stats->segment;
  case ALLOCATED: return &stats->allocated_bytes;
  case REQUESTED: return &stats->requested_bytes;
  case RESERVED: return &stats->reserved_bytes;
  case ACTIVE: return &stats->active_bytes;
  case DEFERRED:
  case GAUGE_COUNT: break;
  }
  return &stats->deferred_bytes;
}

/* Adds the contents of the segments at the end to the device's gauges, as their current values. */
static void add_segments(const gp_snapshot_t *snapshot, gp_snapshot_device_t *device)
{
  uint64_t idle = 0, largest = 0;
  for (size_t i = 0; i < snapshot->segment_count; i++) {
    const gp_snapshot_segment_t *segment = &snapshot->segments[i];
    uint64_t idle_here = 0;
    if (segment->device != device->device)
      continue;
    device->stats.segment.current++;
    device->stats.reserved_bytes.current += segment->size;
    for (size_t k = segment->first_block; k < segment->first_block + segment->block_count; k++) {
      const gp_snapshot_block_t *block = &snapshot->blocks[k];
      if (block->state == GP_SNAPSHOT_ALLOCATED) {
        device->stats.allocation.current++;
        device->stats.allocated_bytes.current += block->size;
        device->stats.requested_bytes.current += block->requested;
        device->stats.active_bytes.current += block->size;
      } else if (block->state == GP_SNAPSHOT_PENDING) {
        device->stats.active_bytes.current += block->size;
        device->stats.deferred_bytes.current += block->size;
      } else {
        device->stats.cached_bytes.current += block->size;
        idle_here += block->size;
        largest = block->size > largest ? block->size : largest;
      }
    }
    idle += idle_here;
    if (idle_here < segment->size)
      device->stats.inactive_split_bytes.current += idle_here;
  }
  device->stats.inactive_split_bytes.peak =
      device->stats.inactive_split_bytes.current; /* the only known value */
  device->stats.inactive_split_bytes.allocated = device->stats.inactive_split_bytes.current;
  device->efficiency = device->stats.reserved_bytes.current ? (double)device->stats.requested_bytes.current /
                                                                  (double)device->stats.reserved_bytes.current
                                                            : 0;
  device->fragmentation = idle ? 1 - (double)largest / (double)idle : 0;
}

static void count_calls(const replay_t *replay, size_t i, gp_stats_t *stats)
{
  switch (kind_of(replay, i)) {
  case GP_EVENT_ALLOC:
    stats->cache_hits += *at(replay, GP_COLUMN_HIT, i) == 1;
    stats->cache_misses += *at(replay, GP_COLUMN_HIT, i) == 0;
    break;
  case GP_EVENT_OOM: stats->num_ooms++; break;
  default: break;
  }
}

/* Computes the values of a device's gauges before the first event, so that the events lead to the values at
 * the end. If a gauge would start below 0, it contradicts its events, and starts at 0. */
static void begin_gauges(replay_t *replay, gp_snapshot_device_t *device, uint64_t *ret_values)
{
  uint64_t up[GAUGE_COUNT] = {0}, down[GAUGE_COUNT] = {0};
  change_t changes[CHANGES_MOST];

  for (size_t i = 0; i < replay->events->count; i++) {
    if (*at(replay, GP_COLUMN_DEVICE, i) != device->device)
      continue;
    for (size_t k = changes_of(replay, i, changes); k-- > 0;) {
      uint64_t *sum = changes[k].is_down ? &down[changes[k].gauge] : &up[changes[k].gauge];
      *sum += changes[k].amount;
    }
  }
  for (gauge_t k = 0; k < GAUGE_COUNT; k++) {
    gp_gauge_t *gauge = gauge_of(device, k);
    uint64_t begin = gauge->current + down[k] > up[k] ? gauge->current + down[k] - up[k] : 0;
    gauge->peak = begin > gauge->current ? begin : gauge->current;
    gauge->allocated = begin + up[k] > gauge->current ? begin + up[k] : gauge->current;
    gauge->freed = gauge->allocated - gauge->current;
    ret_values[k] = begin;
  }
  uint64_t reserved = device->stats.reserved_bytes.current;
  device->lacks_reserved |=
      replay->import->snapshot->lacks_segments || reserved + down[RESERVED] < up[RESERVED];
}

/* Updates the gauge of cached bytes, which are reserved but not active. *last is the previous value; sets it
 * to the new value. */
static void note_cached(gp_snapshot_device_t *device, const uint64_t *values, uint64_t *last)
{
  gp_gauge_t *gauge = &device->stats.cached_bytes;
  uint64_t cached = values[RESERVED] > values[ACTIVE] ? values[RESERVED] - values[ACTIVE] : 0;
  device->lacks_reserved |= values[ACTIVE] > values[RESERVED];
  gauge->allocated += cached > *last ? cached - *last : 0;
  gauge->peak = cached > gauge->peak ? cached : gauge->peak;
  *last = cached;
}

/* Applies the device's events to `values`, and records the peak of each gauge. Memory from the driver does
 * not count as cached if the next alloc uses it. */
static void find_peaks(replay_t *replay, gp_snapshot_device_t *device, uint64_t *values)
{
  change_t changes[CHANGES_MOST];
  uint64_t cached = 0;

  note_cached(device, values, &cached);
  for (size_t i = 0; i < replay->events->count; i++) {
    gp_event_kind_t kind = kind_of(replay, i);
    if (*at(replay, GP_COLUMN_DEVICE, i) != device->device)
      continue;
    if (kind != GP_EVENT_ALLOC && !is_supply(kind))
      note_cached(device, values, &cached);
    for (size_t k = changes_of(replay, i, changes); k-- > 0;) {
      uint64_t *value = &values[changes[k].gauge], amount = changes[k].amount;
      if (changes[k].is_down)
        *value = *value > amount ? *value - amount : 0;
      else
        *value += amount;
    }
    for (gauge_t k = 0; k < GAUGE_COUNT; k++) {
      gp_gauge_t *gauge = gauge_of(device, k);
      gauge->peak = values[k] > gauge->peak ? values[k] : gauge->peak;
    }
    if (!is_supply(kind))
      note_cached(device, values, &cached);
  }
  note_cached(device, values, &cached);
  gp_gauge_t *gauge = &device->stats.cached_bytes;
  gauge->peak = gauge->current > gauge->peak ? gauge->current : gauge->peak;
  gauge->allocated = gauge->current > gauge->allocated ? gauge->current : gauge->allocated;
  gauge->freed = gauge->allocated - gauge->current;
}

/* Returns true if segments of the device grew or shrank. */
static bool has_parts(const replay_t *replay, int device)
{
  for (size_t i = 0; i < replay->events->count; i++) {
    gp_event_kind_t kind = kind_of(replay, i);
    if ((kind == GP_EVENT_SEGMENT_MAP || kind == GP_EVENT_SEGMENT_UNMAP) &&
        *at(replay, GP_COLUMN_DEVICE, i) == device)
      return true;
  }
  return false;
}

/* Clears the figures that depend on the completion of frees, or on segments, which a log does not contain. */
static void forget_segments(gp_snapshot_device_t *device)
{
  gp_stats_t *stats = &device->stats;
  stats->segment = stats->reserved_bytes = stats->cached_bytes = stats->inactive_split_bytes =
      (gp_gauge_t){0};
  stats->deferred_bytes = (gp_gauge_t){0};
  stats->driver_allocs = stats->driver_frees = stats->cache_hits = stats->cache_misses = 0;
  device->cache_hit_rate = device->efficiency = device->fragmentation = 0;
}

static bool sum_device(replay_t *replay, gp_snapshot_device_t *device)
{
  gp_snapshot_t *snapshot = replay->import->snapshot;
  uint64_t values[GAUGE_COUNT];

  add_segments(snapshot, device);
  begin_gauges(replay, device, values);
  uint64_t live_before = values[ALLOCATION];
  find_peaks(replay, device, values);
  for (size_t i = 0; i < replay->events->count; i++) {
    if (*at(replay, GP_COLUMN_DEVICE, i) == device->device)
      count_calls(replay, i, &device->stats);
  }
  /* The driver also supplied the segments that existed before the first event. */
  device->stats.driver_allocs = device->stats.segment.allocated;
  device->stats.driver_frees = device->stats.segment.freed;
  uint64_t asked = device->stats.cache_hits + device->stats.cache_misses;
  device->cache_hit_rate = asked ? (double)device->stats.cache_hits / (double)asked : 0;
  if (snapshot->lacks_segments)
    forget_segments(device);
  else if (live_before && !snapshot->lacks_history)
    gp_snapshot_note_usual(snapshot,
        "device %d: %s %s allocated before the first event: recording began later, or older events were overwritten",
        device->device, GP_AS_PLURAL(live_before, "block"), live_before == 1 ? "was" : "were");
  if (has_parts(replay, device->device) && !gp_import_extents(replay->import, device))
    return false;
  if (device->lacks_reserved && !snapshot->lacks_segments)
    gp_snapshot_note_usual(snapshot,
        "device %d: the events do not lead to the segments of the end, since some are missing: what was reserved and cached before is not known",
        device->device);
  return true;
}

bool gp_import_replay(gp_import_t *import)
{
  gp_snapshot_t *snapshot = import->snapshot;
  replay_t replay = {.import = import, .events = &snapshot->events};

  replay.final_blocks = calloc(snapshot->block_count + 1, sizeof(size_t));
  bool good = replay.final_blocks || no_memory(&replay);
  replay.finds_unsplit = snapshot->is_pytorch && !snapshot->lacks_segments; /* other files contain sizes */
  for (size_t i = 0; i < snapshot->device_count && good && replay.finds_unsplit; i++) {
    int device = snapshot->devices[i].device;
    good = gp_import_unsplit_begin(&replay.unsplit[device], import, device);
  }
  good = good && meet_final_blocks(&replay);
  size_t final_count = (size_t)replay.count;
  for (size_t i = replay.events->count; i-- > 0 && good;)
    good = undo(&replay, i, final_count);
  good = good && number_blocks(&replay);
  for (size_t i = 0; i < snapshot->device_count && good; i++)
    good = sum_device(&replay, &snapshot->devices[i]);
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    gp_block_map_fini(&replay.blocks[device]);
    gp_import_unsplit_fini(&replay.unsplit[device]);
  }
  free(replay.final_blocks);
  free(replay.alloc_ns);
  free(replay.sizes);
  return good;
}
