#include "tools/model/memory.h"

#include "base/assert.h"

/* Adds a life to the figures of its state, or subtracts it; `sum` is the operation. The life is in use
 * (`is_held`) or deferred. Only pooled memory is ever deferred. */
static inline void count(
    gp_memory_t *memory, const gp_life_t *life, bool is_held, uint64_t (*sum)(uint64_t, uint64_t))
{
  bool is_pooled = life->kind == GP_LIFE_POOLED;

  if (!is_held) {
    memory->deferred = sum(memory->deferred, is_pooled ? life->rounded : 0);
  } else if (life->kind == GP_LIFE_HOST) {
    memory->host = sum(memory->host, life->requested);
    memory->host_count = sum(memory->host_count, 1);
  } else {
    memory->requested = sum(memory->requested, is_pooled ? life->requested : 0);
    memory->allocated = sum(memory->allocated, is_pooled ? life->rounded : 0);
    memory->forwarded = sum(memory->forwarded, is_pooled ? 0 : life->requested);
    memory->count = sum(memory->count, 1);
  }
}

static bool is_of(int device, int other)
{
  return device == GP_REQUEST_ALL_DEVICES || device == other;
}

static bool has(const gp_memory_walk_t *walk, const gp_life_t *life)
{
  return is_of(walk->device, life->device) && (!walk->filter || gp_lifetimes_has(walk->filter, life)) &&
         (!walk->leaves_out || !walk->leaves_out[life - walk->lifetimes->lives]);
}

static void begin(gp_memory_walk_t *walk, uint32_t moment, bool is_end)
{
  const gp_lifetimes_t *lifetimes = walk->lifetimes;

  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    bool is_held = is_end ? life->is_held : gp_life_is_held_at(life, moment);
    if ((is_held || (life->freed <= moment && life->done > moment)) && has(walk, life))
      count(&walk->memory, life, is_held, gp_add_saturated);
  }
  for (size_t i = 0; i < lifetimes->segment_count; i++) {
    const gp_segment_life_t *segment = &lifetimes->segments[i];
    if (is_of(walk->device, segment->device) && segment->begin <= moment && segment->end > moment)
      walk->memory.reserved = gp_add_saturated(walk->memory.reserved, segment->size);
  }
}

void gp_memory_held(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, int device, uint32_t moment,
    bool is_end, gp_memory_t *ret_memory)
{
  gp_memory_walk_t walk = {.lifetimes = lifetimes, .filter = filter, .device = device};
  begin(&walk, moment, is_end);
  *ret_memory = walk.memory;
}

void gp_memory_walk_begin(gp_memory_walk_t *walk, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const bool *leaves_out, int device)
{
  *walk = (gp_memory_walk_t){lifetimes, filter, leaves_out, device, .moment = 0};
  begin(walk, 0, false);
}

static void take_segment(gp_memory_walk_t *walk, size_t event)
{
  const gp_snapshot_events_t *events = &walk->lifetimes->snapshot->events;
  gp_event_kind_t kind = gp_snapshot_event_kind(events, event);
  bool is_supply = kind == GP_EVENT_SEGMENT_ALLOC || kind == GP_EVENT_SEGMENT_MAP;
  bool is_return = kind == GP_EVENT_SEGMENT_FREE || kind == GP_EVENT_SEGMENT_UNMAP;

  if ((!is_supply && !is_return) ||
      !is_of(walk->device, (int)gp_snapshot_event(events, GP_COLUMN_DEVICE, event, 0)))
    return;
  uint64_t size = gp_snapshot_event_uint(events, GP_COLUMN_SIZE, event), *reserved = &walk->memory.reserved;
  *reserved = is_supply ? gp_add_saturated(*reserved, size) : gp_subtract_saturated(*reserved, size);
}

bool gp_memory_walk_next(gp_memory_walk_t *walk)
{
  if (walk->moment == walk->lifetimes->end)
    return false;
  const gp_life_t *life = gp_lifetimes_life(walk->lifetimes, walk->moment++);
  if (!life) {
    take_segment(walk, walk->moment - 1);
  } else if (has(walk, life)) {
    if (life->begin == walk->moment)
      count(&walk->memory, life, true, gp_add_saturated);
    if (life->freed == walk->moment) {
      count(&walk->memory, life, true, gp_subtract_saturated);
      count(&walk->memory, life, false, gp_add_saturated);
    }
    if (life->done == walk->moment)
      count(&walk->memory, life, false, gp_subtract_saturated);
  }
  return true;
}

uint32_t gp_memory_peak(
    const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, int device, uint64_t *ret_bytes)
{
  gp_memory_walk_t walk;
  uint32_t peak = 0;

  gp_memory_walk_begin(&walk, lifetimes, filter, NULL, device);
  *ret_bytes = gp_memory_requested(&walk.memory);
  while (gp_memory_walk_next(&walk)) {
    if (gp_memory_requested(&walk.memory) > *ret_bytes) {
      *ret_bytes = gp_memory_requested(&walk.memory);
      peak = walk.moment;
    }
  }
  return peak;
}

uint32_t gp_memory_moment(const gp_lifetimes_t *lifetimes, uint64_t time_ns)
{
  const gp_column_t *times = lifetimes->snapshot->events.columns[GP_COLUMN_TIME_NS];
  uint32_t low = 0, high = times ? lifetimes->end : 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if ((uint64_t)gp_column_get(times, middle) <= time_ns)
      low = middle + 1;
    else
      high = middle;
  }
  gp_assert(low <= lifetimes->end);
  return low;
}

uint64_t gp_memory_time(const gp_lifetimes_t *lifetimes, uint32_t moment)
{
  const gp_column_t *times = lifetimes->snapshot->events.columns[GP_COLUMN_TIME_NS];
  gp_assert(moment <= lifetimes->end);
  return times && moment > 0 ? (uint64_t)gp_column_get(times, moment - 1) : 0;
}
