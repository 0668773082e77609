/*
 * Implements the functions of engine.h that read the engine, for snapshots and tests.
 */
#include "pool/events.h"
#include "pool/serve/heaps.h"
#include "pool/limits/oom.h"
#include "pool/reuse/drain.h"
#include "pool/space/mapped.h"

uint64_t gp_engine_devices(const gp_engine_t *engine)
{
  return atomic_load(&engine->device_mask);
}

bool gp_engine_locks_available(gp_engine_t *engine)
{
  GP_DEVICE_EACH(engine, device)
  {
    if (!gp_lock_take_within(&device->lock, 1))
      return false;
    bool has_all = gp_heaps_locks_available(device);
    gp_lock_release(&device->lock);
    if (!has_all)
      return false;
  }
  return true;
}

uint64_t gp_engine_largest_idle(gp_engine_t *engine, int device)
{
  gp_drain_device(engine, &engine->devices[device]);
  return gp_oom_largest_idle(&engine->devices[device]);
}

bool gp_engine_device_use(gp_engine_t *engine, int ordinal, gp_device_use_t *ret_use)
{
  gp_device_t *device = &engine->devices[ordinal];

  gp_lock_take(&device->lock);
  bool is_known = gp_device_use_at_query(device, ret_use);
  gp_lock_release(&device->lock);
  return is_known;
}

void gp_engine_stats(gp_engine_t *engine, int device, gp_stats_t *ret_stats)
{
  gp_lock_take(&engine->devices[device].lock);
  gp_drain_locked(engine, &engine->devices[device]);
  *ret_stats = *gp_device_stats(&engine->devices[device]);
  gp_lock_release(&engine->devices[device].lock);
  gp_stats_join_peaks(ret_stats);
}

void gp_engine_turn_peaks(gp_engine_t *engine, int ordinal, bool resets, gp_stats_t *ret_stats)
{
  gp_device_t *device = &engine->devices[ordinal];

  gp_lock_take(&device->lock);
  gp_drain_locked(engine, device);
  gp_stats_t *stats = gp_device_stats(device);
  *ret_stats = *stats;
#define GAUGE(name, ...)                                                                                     \
  if (resets)                                                                                                \
    stats->earlier_peaks.name = 0;                                                                           \
  else if (stats->earlier_peaks.name < stats->name.peak)                                                     \
    stats->earlier_peaks.name = stats->name.peak;                                                            \
  stats->name.peak = stats->name.current;
#include "format/stats.def"
  gp_lock_release(&device->lock);
}

static gp_block_state_t view_state(gp_state_t state)
{
  switch (state) {
  case GP_STATE_LIVE: return GP_BLOCK_ALLOCATED;
  case GP_STATE_RETAINED:
  case GP_STATE_QUARANTINED:
  case GP_STATE_DEFERRED: return GP_BLOCK_PENDING;
  default: return GP_BLOCK_IDLE;
  }
}

/* Returns the view of a block. An idle block of a cut segment has no last owner, because it may be joined
 * from blocks of several owners. */
static gp_block_view_t view_of(const gp_block_t *block)
{
  /* Until the release is recorded (gp_releases_await), no other thread gets the address. So the view shows
   * the block's state before the release. */
  gp_state_t state = block->state == GP_STATE_RELEASING ? block->released_from : block->state;
  const gp_segment_t *segment = block->segment;
  bool is_unowned =
      segment && (state == GP_STATE_IDLE || state == GP_STATE_BOUND || state == GP_STATE_MAPPING);
  uint64_t segment_address = segment ? segment->address : block->address;
  uint64_t segment_size = segment ? segment->size : block->size;
  if (segment && segment->range)
    (void)gp_chunks_run(segment->range, block->address, &segment_address, &segment_size);
  return (gp_block_view_t){.address = block->address,
      .size = block->size,
      .segment_address = segment_address,
      .segment_size = segment_size,
      .requested = is_unowned ? 0 : block->requested,
      .block_id = is_unowned ? 0 : block->block_id,
      .time_ns = is_unowned ? 0 : block->time_ns,
      .context = block->context->driver.id,
      .stream = block->stream == GP_STREAM_LEGACY ? 0 : block->stream,
      .has_stream = block->stream != 0,
      .refs = block->refs,
      .origin = is_unowned ? GP_ORIGIN_NONE : block->origin,
      .observer_note = is_unowned ? 0 : block->observer_cookie.note,
      .state = view_state(state),
      .tainted = block->tainted,
      .is_cut = segment != NULL};
}

/* Returns true if the block is a part of a range to which no memory is mapped at present. */
static bool is_hole(const gp_block_t *block)
{
  return block->segment && block->segment->range && !gp_chunks_find(block->segment->range, block->address);
}

size_t gp_engine_blocks(gp_engine_t *engine, int ordinal, gp_block_view_t *array, size_t capacity,
    gp_stats_t *ret_stats, const gp_moment_t *moment)
{
  gp_device_t *device = &engine->devices[ordinal];
  size_t count = 0;

  gp_lock_take(&device->lock);
  gp_drain_locked(engine, device); /* before the copy, because draining sends events */
  if (moment)
    moment->fn(moment->arg, ordinal);
  if (ret_stats)
    *ret_stats = *gp_device_stats(device);
  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context) {
    GP_LIST_EACH(&context->blocks, const gp_block_t, all, block) {
      if (is_hole(block))
        continue;
      if (count < capacity)
        array[count] = view_of(block);
      count++;
    }
  }
  gp_lock_release(&device->lock);
  if (ret_stats)
    gp_stats_join_peaks(ret_stats);
  return count;
}
