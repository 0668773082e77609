#include "tools/model/lifetimes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/array.h"
#include "tools/hash_index.h"
#include "tools/saturated.h"

#define EVENTS_OF_LIFE 3 /* events of freed memory: its allocation, the free, its completion */

typedef struct build {
  gp_lifetimes_t *lifetimes;
  const gp_snapshot_events_t *events;
  size_t event;
  uint32_t moment; /* moment directly after the current event */
  int device;
  uint64_t newest[GP_SNAPSHOT_DEVICES]; /* block number of the latest allocation on each device */
  bool has_extents[GP_SNAPSHOT_DEVICES];
  gp_hash_index_t by_block;   /* index of lives */
  gp_hash_index_t by_address; /* index of segments; a released one stays until its address is used again */
} build_t;

/* Index of lives by block number. Block numbers are unique, so no life is ever removed. */

typedef struct owner_key {
  int device;
  uint64_t number; /* block number or address */
} owner_key_t;

/* Hashes a block number. The library numbers the blocks of all devices in one sequence. The hash keeps 16
 * successive blocks together in the index; longer runs would overlap. */
static uint64_t hash_of_block(uint64_t block)
{
  return gp_hash_number(block >> 4) << 4 | (block & 15);
}

static uint64_t hash_of_life(const void *self, size_t item)
{
  return hash_of_block(((const build_t *)self)->lifetimes->lives[item].block);
}

static bool is_life(const void *self, size_t item, const void *key)
{
  const gp_life_t *life = &((const build_t *)self)->lifetimes->lives[item];
  const owner_key_t *sought = key;
  return life->block == sought->number && life->device == sought->device;
}

static inline gp_life_t *find(const build_t *build, int device, uint64_t block)
{
  const owner_key_t key = {device, block};
  size_t at = device < 0 ? SIZE_MAX
                         : gp_hash_index_find(&build->by_block, hash_of_block(block), is_life, build, &key);
  return at == SIZE_MAX ? NULL : &build->lifetimes->lives[at];
}

/* Adds an empty life for the block. If a damaged file contains a block number twice, the later life hides the
 * earlier. Returns NULL if memory runs out. */
static gp_life_t *add_life(build_t *build, int device, uint64_t block)
{
  gp_lifetimes_t *lifetimes = build->lifetimes;
  const owner_key_t key = {device, block};
  if (!gp_hash_index_reserve(&build->by_block, hash_of_life, build))
    return NULL;
  uint32_t *slot = gp_hash_index_slot(&build->by_block, hash_of_block(block), is_life, build, &key);
  gp_life_t *life = GP_ARRAY_ADD(lifetimes->lives, lifetimes->life_count);
  if (!life)
    return NULL;
  gp_hash_index_put(&build->by_block, slot, lifetimes->life_count - 1);
  *life = (gp_life_t){.device = (unsigned)device,
      .block = block,
      .freed = GP_LIFETIMES_NEVER,
      .done = GP_LIFETIMES_NEVER,
      .stack = -1,
      .stream = -1,
      .thread = GP_FILTER_UNKNOWN};
  return life;
}

/* Processing of events. Ignores events without a valid device; the reader has checked all other columns. */

/* Sets the kind of memory. Borrows `what` from the snapshot, which outlives the lifetimes. */
static void set_kind(gp_life_t *life, const char *what)
{
  life->kind = strcmp(what, "pinned_host") == 0 ? GP_LIFE_HOST : GP_LIFE_FORWARDED;
  life->what = what;
}

static void describe(const build_t *build, gp_life_t *life, bool is_pooled)
{
  const gp_snapshot_events_t *events = build->events;
  int64_t detail = gp_snapshot_event(events, GP_COLUMN_DETAIL, build->event, -1);
  life->address = gp_snapshot_event_uint(events, GP_COLUMN_ADDRESS, build->event);
  life->requested = gp_snapshot_event_uint(events, GP_COLUMN_SIZE, build->event);
  life->stack = (int32_t)gp_snapshot_event(events, GP_COLUMN_STACK, build->event, -1);
  life->kind = GP_LIFE_POOLED;
  if (is_pooled)
    life->rounded = gp_snapshot_event_uint(events, GP_COLUMN_ROUNDED_SIZE, build->event);
  else
    set_kind(life, detail >= 0 ? events->details.names[detail] : "");
}

static void note_life(const build_t *build, const gp_life_t *life)
{
  gp_assert_internal(build->event < build->lifetimes->end);
  build->lifetimes->of_event[build->event] = (uint32_t)(life - build->lifetimes->lives);
}

static int begin_life(build_t *build, bool is_pooled)
{
  uint64_t block = gp_snapshot_event_uint(build->events, GP_COLUMN_BLOCK, build->event);
  gp_life_t *life = add_life(build, build->device, block);
  if (!life)
    return ENOMEM;
  describe(build, life, is_pooled);
  life->begin = build->moment;
  life->begin_ns = gp_snapshot_event_uint(build->events, GP_COLUMN_TIME_NS, build->event);
  life->stream = (int32_t)gp_snapshot_event(build->events, GP_COLUMN_STREAM, build->event, -1);
  life->thread = (int32_t)gp_snapshot_event(build->events, GP_COLUMN_THREAD, build->event, GP_FILTER_UNKNOWN);
  build->newest[build->device] = block;
  note_life(build, life);
  return 0;
}

/* Processes a free, or its completion. The life that it ends may have begun before the events. */
static int end_life(build_t *build, bool is_pooled, bool is_completed)
{
  uint64_t block = gp_snapshot_event_uint(build->events, GP_COLUMN_BLOCK, build->event);
  gp_life_t *life = find(build, build->device, block);
  if (!life) {
    uint64_t now_ns = gp_snapshot_event_uint(build->events, GP_COLUMN_TIME_NS, build->event);
    uint64_t lasted_ns = gp_snapshot_event_uint(build->events, GP_COLUMN_LIFETIME_NS, build->event);
    life = add_life(build, build->device, block);
    if (!life)
      return ENOMEM;
    describe(build, life, is_pooled);
    life->begin_ns = gp_subtract_saturated(now_ns, lasted_ns);
    if (is_completed && is_pooled)
      life->freed = 0; /* the program freed it before the events, too */
  }
  if (life->freed == GP_LIFETIMES_NEVER) {
    life->freed = build->moment;
    life->is_temporary = build->newest[build->device] == block && life->begin > 0;
  }
  if (is_completed && life->done == GP_LIFETIMES_NEVER)
    life->done = build->moment;
  note_life(build, life);
  return 0;
}

/* Index of segments. An address belongs to one segment at a time. */

static uint64_t hash_of_place(int device, uint64_t address)
{
  return gp_hash_number((address >> 9) + (uint64_t)device);
}

static uint64_t hash_of_segment(const void *self, size_t item)
{
  const gp_segment_life_t *segment = &((const build_t *)self)->lifetimes->segments[item];
  return hash_of_place(segment->device, segment->address);
}

static bool is_segment(const void *self, size_t item, const void *key)
{
  const gp_segment_life_t *segment = &((const build_t *)self)->lifetimes->segments[item];
  const owner_key_t *sought = key;
  return segment->address == sought->number && segment->device == sought->device;
}

static int add_segment(build_t *build, const gp_segment_life_t *segment)
{
  gp_lifetimes_t *lifetimes = build->lifetimes;
  const owner_key_t key = {segment->device, segment->address};
  gp_hash_index_t *index = &build->by_address;
  gp_segment_life_t *added = GP_ARRAY_ADD(lifetimes->segments, lifetimes->segment_count);
  if (!added || !gp_hash_index_reserve(index, hash_of_segment, build))
    return ENOMEM;
  *added = *segment;
  size_t item = lifetimes->segment_count - 1;
  gp_hash_index_put(
      index, gp_hash_index_slot(index, hash_of_segment(build, item), is_segment, build, &key), item);
  return 0;
}

/* Returns the segment at `address` that has not been released yet, or NULL. */
static gp_segment_life_t *open_segment(const build_t *build, int device, uint64_t address)
{
  const owner_key_t key = {device, address};
  size_t at = gp_hash_index_find(&build->by_address, hash_of_place(device, address), is_segment, build, &key);
  gp_segment_life_t *segment = at == SIZE_MAX ? NULL : &build->lifetimes->segments[at];
  return segment && segment->end == GP_LIFETIMES_NEVER ? segment : NULL;
}

static int segment_event(build_t *build, bool is_alloc)
{
  if (build->has_extents[build->device])
    return 0;
  gp_segment_life_t now = {.address = gp_snapshot_event_uint(build->events, GP_COLUMN_ADDRESS, build->event),
      .size = gp_snapshot_event_uint(build->events, GP_COLUMN_SIZE, build->event),
      .begin = is_alloc ? build->moment : 0,
      .end = is_alloc ? GP_LIFETIMES_NEVER : build->moment,
      .stream = (int32_t)gp_snapshot_event(build->events, GP_COLUMN_STREAM, build->event, -1),
      .pool = gp_snapshot_event_pool(build->events, build->event),
      .device = (uint8_t)build->device};
  gp_segment_life_t *segment = open_segment(build, build->device, now.address);
  gp_assert_internal(!segment || segment->begin < build->moment);
  if (segment)
    segment->end = build->moment;
  return is_alloc || !segment ? add_segment(build, &now) : 0;
}

static int take_event(build_t *build)
{
  switch (gp_snapshot_event_kind(build->events, build->event)) {
  case GP_EVENT_ALLOC: return begin_life(build, true);
  case GP_EVENT_FORWARDED_ALLOC: return begin_life(build, false);
  case GP_EVENT_FREE_REQUESTED: return end_life(build, true, false);
  case GP_EVENT_FREE_COMPLETED: return end_life(build, true, true);
  case GP_EVENT_FORWARDED_FREE: return end_life(build, false, true);
  case GP_EVENT_SEGMENT_ALLOC: return segment_event(build, true);
  case GP_EVENT_SEGMENT_FREE: return segment_event(build, false);
  default: return 0;
  }
}

/* Memory of the snapshot's final state, which is added even if no event mentions it. */

/* Returns the life of the block in the final state, or NULL. The life must come from the events, be at
 * `address`, and not have ended. No other block of the final state may belong to it. */
static gp_life_t *find_held(const build_t *build, int device, uint64_t block, uint64_t address)
{
  gp_life_t *life = find(build, device, block);
  return life && life->address == address && life->done == GP_LIFETIMES_NEVER && !life->is_held ? life : NULL;
}

static int take_block(build_t *build, const gp_snapshot_block_t *block)
{
  if (block->state != GP_SNAPSHOT_ALLOCATED && block->state != GP_SNAPSHOT_PENDING)
    return 0;
  gp_life_t *life = find_held(build, block->device, block->block, block->address);
  if (!life) {
    life = add_life(build, block->device, block->block);
    if (!life)
      return ENOMEM;
    life->address = block->address;
    life->requested = block->requested;
    life->rounded = block->size;
    life->begin_ns = block->time_ns;
    life->stack = block->stack;
    life->stream = block->stream;
    if (block->state == GP_SNAPSHOT_PENDING)
      life->freed = 0;
  } else if (life->begin == 0 && block->stack >= 0) {
    life->stack = block->stack; /* stack of the allocation; the events only have that of the free */
  }
  life->is_held = block->state == GP_SNAPSHOT_ALLOCATED;
  return 0;
}

static int take_forwarded(build_t *build, const gp_snapshot_forwarded_t *memory)
{
  gp_life_t *life = find_held(build, memory->device, memory->block, memory->address);
  if (!life) {
    life = add_life(build, memory->device, memory->block);
    if (!life)
      return ENOMEM;
    life->address = memory->address;
    life->requested = memory->size;
    life->begin_ns = memory->time_ns;
    life->stack = memory->stack;
    life->stream = memory->stream;
    set_kind(life, memory->kind);
  }
  life->is_held = true;
  return 0;
}

static int take_extent(build_t *build, const gp_snapshot_extent_t *extent)
{
  const gp_segment_life_t life = {.address = extent->address,
      .size = extent->size,
      .begin = (uint32_t)extent->begin,
      .end = extent->end == SIZE_MAX ? GP_LIFETIMES_NEVER : (uint32_t)extent->end,
      .stream = extent->stream,
      .pool = extent->pool,
      .device = (uint8_t)extent->device,
      .is_expandable = extent->is_expandable};
  return add_segment(build, &life);
}

/* Adds a segment of the final state. The final state contains the segment's pool, which the events of older
 * versions of PyTorch lack. */
static int take_segment(build_t *build, const gp_snapshot_segment_t *segment)
{
  const gp_segment_life_t life = {.address = segment->address,
      .size = segment->size,
      .end = GP_LIFETIMES_NEVER,
      .stream = segment->stream,
      .pool = segment->pool,
      .device = (uint8_t)segment->device};
  gp_segment_life_t *open = open_segment(build, segment->device, segment->address);
  if (build->has_extents[segment->device])
    return 0;
  if (open)
    open->pool = segment->pool;
  return open ? 0 : add_segment(build, &life);
}

static int take_end(build_t *build)
{
  const gp_snapshot_t *snapshot = build->lifetimes->snapshot;
  int error = 0;
  for (size_t i = 0; !error && i < snapshot->block_count; i++)
    error = take_block(build, &snapshot->blocks[i]);
  for (size_t i = 0; !error && i < snapshot->forwarded_count; i++)
    error = take_forwarded(build, &snapshot->forwarded[i]);
  for (size_t i = 0; !error && i < snapshot->segment_count; i++)
    error = take_segment(build, &snapshot->segments[i]);
  for (size_t i = 0; !error && i < snapshot->extent_count; i++)
    error = take_extent(build, &snapshot->extents[i]);
  return error;
}

/* Returns true if each life and segment satisfies the invariants in lifetimes.h. */
static bool are_sound(const gp_lifetimes_t *lifetimes)
{
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->begin > life->freed || life->freed > life->done ||
        (life->done > lifetimes->end && life->done != GP_LIFETIMES_NEVER) ||
        (life->is_held && life->done != GP_LIFETIMES_NEVER) ||
        (life->is_temporary && (life->begin == 0 || life->freed == GP_LIFETIMES_NEVER)) ||
        (life->kind != GP_LIFE_POOLED && !life->what))
      return false;
  }
  for (size_t i = 0; i < lifetimes->segment_count; i++) {
    if (lifetimes->segments[i].begin > lifetimes->segments[i].end)
      return false;
  }
  return true;
}

int gp_lifetimes_init(gp_lifetimes_t *lifetimes, const gp_snapshot_t *snapshot)
{
  build_t build = {.lifetimes = lifetimes, .events = &snapshot->events};

  *lifetimes = (gp_lifetimes_t){.snapshot = snapshot};
  if (snapshot->events.count >= GP_LIFETIMES_NEVER)
    return EOVERFLOW;
  lifetimes->of_event = malloc((snapshot->events.count + 1) * sizeof(*lifetimes->of_event));
  if (!lifetimes->of_event)
    return ENOMEM;
  memset(lifetimes->of_event, 0xff, snapshot->events.count * sizeof(*lifetimes->of_event));
  lifetimes->end = (uint32_t)snapshot->events.count;
  for (size_t i = 0; i < snapshot->device_count; i++)
    build.has_extents[snapshot->devices[i].device] = snapshot->devices[i].has_extents;
  int error =
      gp_hash_index_grow(&build.by_block, snapshot->events.count / EVENTS_OF_LIFE, hash_of_life, &build)
          ? 0
          : ENOMEM;
  for (size_t i = 0; !error && i < snapshot->events.count; i++) {
    build.event = i;
    build.moment = (uint32_t)i + 1;
    build.device = (int)gp_snapshot_event(&snapshot->events, GP_COLUMN_DEVICE, i, 0);
    if (build.device >= 0)
      error = take_event(&build);
  }
  if (!error)
    error = take_end(&build);
  gp_hash_index_fini(&build.by_block);
  gp_hash_index_fini(&build.by_address);
  gp_assert_full(error || are_sound(lifetimes));
  return error;
}

void gp_lifetimes_fini(gp_lifetimes_t *lifetimes)
{
  free(lifetimes->lives);
  free(lifetimes->segments);
  free(lifetimes->of_event);
  *lifetimes = (gp_lifetimes_t){0};
}
