#include "tools/model/memory.h"

#include "base/assert.h"
#include "tools/saturated.h"

void gp_memory_held(
    const gp_lifetimes_t *lifetimes, int device, uint32_t moment, bool is_end, gp_memory_t *ret_memory)
{
  gp_memory_t memory = {0};
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->device != device || life->kind == GP_LIFE_HOST)
      continue;
    if (!(is_end ? life->is_held : gp_life_is_held_at(life, moment))) {
      bool is_pending = life->kind == GP_LIFE_POOLED && life->freed <= moment && life->done > moment;
      memory.deferred = gp_add_saturated(memory.deferred, is_pending ? life->rounded : 0);
      continue;
    }
    memory.count++;
    if (life->kind == GP_LIFE_FORWARDED) {
      memory.forwarded = gp_add_saturated(memory.forwarded, life->requested);
      continue;
    }
    memory.requested = gp_add_saturated(memory.requested, life->requested);
    memory.allocated = gp_add_saturated(memory.allocated, life->rounded);
  }
  for (size_t i = 0; i < lifetimes->segment_count; i++) {
    const gp_segment_life_t *segment = &lifetimes->segments[i];
    if (segment->device == device && segment->begin <= moment && segment->end > moment)
      memory.reserved = gp_add_saturated(memory.reserved, segment->size);
  }
  *ret_memory = memory;
}

void gp_memory_step(const gp_lifetimes_t *lifetimes, size_t event, gp_memory_t *memory)
{
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;
  const gp_life_t *life = gp_lifetimes_life(lifetimes, event);
  uint32_t moment = (uint32_t)event + 1;

  if (!life) {
    uint64_t size = gp_snapshot_event_uint(events, GP_COLUMN_SIZE, event);
    gp_event_kind_t kind = gp_snapshot_event_kind(events, event);
    if (kind == GP_EVENT_SEGMENT_ALLOC || kind == GP_EVENT_SEGMENT_MAP)
      memory->reserved = gp_add_saturated(memory->reserved, size);
    else if (kind == GP_EVENT_SEGMENT_FREE || kind == GP_EVENT_SEGMENT_UNMAP)
      memory->reserved = gp_subtract_saturated(memory->reserved, size);
    return;
  }
  if (life->kind == GP_LIFE_HOST)
    return;
  bool is_pooled = life->kind == GP_LIFE_POOLED;
  uint64_t requested = is_pooled ? life->requested : 0, rounded = is_pooled ? life->rounded : 0;
  uint64_t forwarded = is_pooled ? 0 : life->requested;
  if (life->begin == moment) {
    memory->requested = gp_add_saturated(memory->requested, requested);
    memory->allocated = gp_add_saturated(memory->allocated, rounded);
    memory->forwarded = gp_add_saturated(memory->forwarded, forwarded);
    memory->count++;
  }
  if (life->freed == moment) {
    memory->requested = gp_subtract_saturated(memory->requested, requested);
    memory->allocated = gp_subtract_saturated(memory->allocated, rounded);
    memory->forwarded = gp_subtract_saturated(memory->forwarded, forwarded);
    memory->deferred = gp_add_saturated(memory->deferred, rounded);
    memory->count = gp_subtract_saturated(memory->count, 1);
  }
  if (life->done == moment)
    memory->deferred = gp_subtract_saturated(memory->deferred, rounded);
}

static bool is_of(const gp_life_t *life, int device)
{
  return (device == GP_REQUEST_ALL_DEVICES || life->device == device) && life->kind != GP_LIFE_HOST;
}

uint32_t gp_memory_peak(
    const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, int device, uint64_t *ret_bytes)
{
  uint64_t bytes = 0, most;
  uint32_t peak = 0;

  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (is_of(life, device) && gp_life_is_held_at(life, 0) && gp_lifetimes_has(filter, life))
      bytes = gp_add_saturated(bytes, life->requested);
  }
  most = bytes;
  for (uint32_t i = 0; i < lifetimes->end; i++) {
    const gp_life_t *life = gp_lifetimes_life(lifetimes, i);
    if (!life || !is_of(life, device) || !gp_lifetimes_has(filter, life))
      continue;
    if (life->begin == i + 1)
      bytes = gp_add_saturated(bytes, life->requested);
    if (life->freed == i + 1)
      bytes = gp_subtract_saturated(bytes, life->requested);
    if (bytes > most) {
      most = bytes;
      peak = i + 1;
    }
  }
  gp_assert(peak <= lifetimes->end);
  *ret_bytes = most;
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
