#include "tools/model/lifetimes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/model/saturated.h"

#define NO_LIFE UINT32_MAX

typedef struct build {
  gp_lifetimes_t *lifetimes;
  const gp_snapshot_events_t *events;
  size_t event;
  uint32_t moment; /* the moment after the event */
  int device;
  uint64_t newest[GP_SNAPSHOT_DEVICES]; /* block of the last allocation on each device */
  bool has_extents[GP_SNAPSHOT_DEVICES];
  size_t capacity; /* of lives */
  uint32_t *index; /* lives by block, open addressing */
  size_t slots;
  size_t segment_capacity;
  uint32_t *
      segment_index; /* open segments by address, open addressing; a closed one stays until it is met again */
  size_t segment_slots;
} build_t;

/* Lives by block. A number belongs to one owner only, so nothing is ever removed. */

static uint64_t hash(int device, uint64_t block)
{
  return (block * 64 + (uint64_t)device) * UINT64_C(0x9e3779b97f4a7c15);
}

static size_t slot_of(const build_t *build, int device, uint64_t block)
{
  size_t slot = (size_t)(hash(device, block) >> 20) & (build->slots - 1);
  while (build->index[slot] != NO_LIFE) {
    const gp_life_t *life = &build->lifetimes->lives[build->index[slot]];
    if (life->block == block && life->device == device)
      break;
    slot = (slot + 1) & (build->slots - 1);
  }
  return slot;
}

static gp_life_t *find(const build_t *build, int device, uint64_t block)
{
  if (!build->slots || device < 0)
    return NULL;
  uint32_t at = build->index[slot_of(build, device, block)];
  return at == NO_LIFE ? NULL : &build->lifetimes->lives[at];
}

static int grow_index(build_t *build)
{
  const gp_lifetimes_t *lifetimes = build->lifetimes;
  size_t slots = build->slots ? 2 * build->slots : 1024;
  uint32_t *index = malloc(slots * sizeof(*index));
  if (!index)
    return ENOMEM;
  memset(index, 0xff, slots * sizeof(*index));
  free(build->index);
  build->index = index;
  build->slots = slots;
  for (size_t i = 0; i < lifetimes->life_count; i++)
    build->index[slot_of(build, lifetimes->lives[i].device, lifetimes->lives[i].block)] = (uint32_t)i;
  return 0;
}

/* Adds a zeroed life for that block. A duplicate number cannot occur; if it does, it hides the
 * earlier life. NULL without memory. */
static gp_life_t *add_life(build_t *build, int device, uint64_t block)
{
  gp_lifetimes_t *lifetimes = build->lifetimes;
  if (lifetimes->life_count == build->capacity) {
    size_t capacity = build->capacity ? 2 * build->capacity : 512;
    gp_life_t *lives = realloc(lifetimes->lives, capacity * sizeof(*lives));
    if (!lives)
      return NULL;
    lifetimes->lives = lives;
    build->capacity = capacity;
  }
  if (2 * (lifetimes->life_count + 1) > build->slots && grow_index(build))
    return NULL;
  gp_assert_internal(
      (build->slots & (build->slots - 1)) == 0 && 2 * (lifetimes->life_count + 1) <= build->slots);
  build->index[slot_of(build, device, block)] = (uint32_t)lifetimes->life_count;
  gp_life_t *life = &lifetimes->lives[lifetimes->life_count++];
  *life = (gp_life_t){.block = block,
      .device = (uint8_t)device,
      .freed = GP_LIFETIMES_NEVER,
      .done = GP_LIFETIMES_NEVER,
      .stack = -1,
      .stream = -1,
      .thread = GP_FILTER_UNKNOWN};
  return life;
}

/* Events. Ignores events without a valid device; the reader has checked the rest. */

/* what belongs to the snapshot, which outlives the lifetimes. */
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
  life->rounded =
      is_pooled ? gp_snapshot_event_uint(events, GP_COLUMN_ROUNDED_SIZE, build->event) : life->requested;
  life->stack = (int32_t)gp_snapshot_event(events, GP_COLUMN_STACK, build->event, -1);
  life->kind = GP_LIFE_POOLED;
  if (!is_pooled)
    set_kind(life, detail >= 0 ? events->details.names[detail] : "");
}

static void note_life(const build_t *build, const gp_life_t *life)
{
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

/* A free. The life that it ends may have begun before the events. */
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
      life->freed = 0; /* also before the events */
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

/* Segments: an address belongs to one at a time. */

static size_t segment_slot(const build_t *build, int device, uint64_t address)
{
  size_t slot = (size_t)(hash(device, address >> 9) >> 20) & (build->segment_slots - 1);
  while (build->segment_index[slot] != NO_LIFE) {
    const gp_segment_life_t *segment = &build->lifetimes->segments[build->segment_index[slot]];
    if (segment->address == address && segment->device == device)
      break;
    slot = (slot + 1) & (build->segment_slots - 1);
  }
  return slot;
}

static int grow_segments(build_t *build)
{
  gp_lifetimes_t *lifetimes = build->lifetimes;
  size_t capacity = build->segment_capacity ? 2 * build->segment_capacity : 512;
  gp_segment_life_t *segments = realloc(lifetimes->segments, capacity * sizeof(*segments));
  if (!segments)
    return ENOMEM;
  lifetimes->segments = segments;
  uint32_t *index = malloc(2 * capacity * sizeof(*index));
  if (!index)
    return ENOMEM;
  memset(index, 0xff, 2 * capacity * sizeof(*index));
  free(build->segment_index);
  build->segment_index = index;
  build->segment_slots = 2 * capacity;
  build->segment_capacity = capacity;
  for (size_t i = 0; i < lifetimes->segment_count; i++)
    build->segment_index[segment_slot(build, segments[i].device, segments[i].address)] = (uint32_t)i;
  return 0;
}

static int add_segment(build_t *build, const gp_segment_life_t *segment)
{
  gp_lifetimes_t *lifetimes = build->lifetimes;
  if (lifetimes->segment_count == build->segment_capacity && grow_segments(build))
    return ENOMEM;
  build->segment_index[segment_slot(build, segment->device, segment->address)] =
      (uint32_t)lifetimes->segment_count;
  lifetimes->segments[lifetimes->segment_count++] = *segment;
  return 0;
}

/* The open segment at address, or NULL. */
static gp_segment_life_t *open_segment(const build_t *build, int device, uint64_t address)
{
  if (!build->segment_slots)
    return NULL;
  uint32_t at = build->segment_index[segment_slot(build, device, address)];
  if (at == NO_LIFE || build->lifetimes->segments[at].end != GP_LIFETIMES_NEVER)
    return NULL;
  return &build->lifetimes->segments[at];
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

/* Adds what exists at the end, whether or not the events mention it. */

/* The life in the events that is at address now: it has not ended, and no other block has claimed it. */
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
    life->requested = life->rounded = memory->size;
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

/* Events of older versions of PyTorch do not tell a segment's pool, but the segments of the end do. */
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

/* True if each life begins, is freed and is done, in this order. */
static bool are_in_order(const gp_lifetimes_t *lifetimes)
{
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->begin > life->freed || life->freed > life->done ||
        (life->done > lifetimes->end && life->done != GP_LIFETIMES_NEVER))
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
  int error = 0;
  for (size_t i = 0; !error && i < snapshot->events.count; i++) {
    build.event = i;
    build.moment = (uint32_t)i + 1;
    build.device = (int)gp_snapshot_event(&snapshot->events, GP_COLUMN_DEVICE, i, 0);
    if (build.device >= 0)
      error = take_event(&build);
  }
  if (!error)
    error = take_end(&build);
  free(build.index);
  free(build.segment_index);
  gp_assert_full(error || are_in_order(lifetimes));
  return error;
}

void gp_lifetimes_fini(gp_lifetimes_t *lifetimes)
{
  free(lifetimes->lives);
  free(lifetimes->segments);
  free(lifetimes->of_event);
  *lifetimes = (gp_lifetimes_t){0};
}

bool gp_lifetimes_has(const gp_filter_t *filter, const gp_life_t *life)
{
  return gp_filter_has(filter, life->device, life->stream, life->thread, life->begin_ns);
}
