/*
 * The state transitions that every allocation and free makes. They are inline because an allocation and free
 * that the pool serves spend most of their time here. As in block.h, each moves the block between lists,
 * updates the statistics and notifies the observer; the caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_BLOCK_LIFE_H
#define GP_POOL_SPACE_BLOCK_LIFE_H

#include "pool/events.h"
#include "pool/limits/peak.h"
#include "pool/space/block.h"
#include "pool/space/budget.h"

/* Sets the stream of the block's next owner (cudaMallocAsync); 0 for cudaMalloc. The caller is about to
 * allocate the block. */
static inline void gp_block_set_stream(gp_block_t *block, uint64_t stream)
{
  gp_device_t *device = block->context->device;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (block->stream && !stream)
    device->pooled_async_bytes -= block->size;
  else if (!block->stream && stream)
    device->pooled_async_bytes += block->size;
  block->stream = stream;
}

/* Adds to the counters of stream-ordered memory, which the program can query. */
static inline void gp_block_count_async(gp_device_t *device, uint64_t bytes)
{
  device->pooled_async_live += bytes;
  if (device->pooled_async_live > device->pooled_async_peak)
    device->pooled_async_peak = device->pooled_async_live;
  if (device->pooled_async_bytes > device->reserved_peak) /* always called after it grew */
    device->reserved_peak = device->pooled_async_bytes;
}

/* Gives the block to the program. hit: no driver call was needed. */
static inline void gp_block_allocate(gp_engine_t *engine, gp_block_t *block, uint64_t requested,
    uint64_t time_ns, uint64_t duration_ns, bool hit)
{
  gp_device_t *device = block->context->device;
  gp_stats_t *stats = gp_device_stats(device);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_assert_internal(block->refs == 0 && requested <= block->size && !atomic_load(&block->home));
  block->state = GP_STATE_LIVE;
  block->refs = 1;
  block->requested = requested;
  block->time_ns = time_ns;
  block->origin = gp_origin(engine);
  block->block_id = gp_next_block_id(engine);
  gp_gauge_add(&stats->allocation, 1);
  gp_gauge_add(&stats->allocated_bytes, block->size);
  gp_gauge_add(&stats->requested_bytes, requested);
  gp_gauge_add(&stats->active_bytes, block->size);
  if (gp_block_is_async(block))
    gp_block_count_async(device, block->size);
  if (__builtin_expect(block->segment != NULL, 0))
    gp_parts_begin_use(device, block->size);
  else
    gp_budget_note_use(device);
  if (hit) {
    stats->cache_hits++;
  } else {
    stats->cache_misses++;
    (void)gp_device_time(device, time_ns); /* for later requests that do not read the clock */
  }
  gp_peak_note(engine, device);
  if (gp_event_is_wanted(engine, &block->observer_cookie))
    gp_block_tell_alloc(engine, block, duration_ns, hit);
}

/* The three steps of a freed block: end_ownership when the program frees it, end_use when the device no
 * longer uses it, and enter_idle when any request may reuse it. */
static inline void gp_block_end_ownership(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns)
{
  gp_stats_t *stats = gp_device_stats(block->context->device);

  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_assert_internal(!block->is_kept);
  atomic_store_explicit(&block->home, NULL, memory_order_relaxed);
  gp_gauge_sub(&stats->allocation, 1);
  gp_gauge_sub(&stats->allocated_bytes, block->size);
  gp_gauge_sub(&stats->requested_bytes, block->requested);
  gp_gauge_add(&stats->deferred_bytes, block->size);
  if (gp_block_is_async(block))
    block->context->device->pooled_async_live -= block->size;
  if (gp_event_is_wanted(engine, &block->observer_cookie))
    gp_block_tell_free(engine, block, why, time_ns);
}

static inline void gp_block_end_use(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns)
{
  gp_stats_t *stats = gp_device_stats(block->context->device);

  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_gauge_sub(&stats->deferred_bytes, block->size);
  gp_gauge_sub(&stats->active_bytes, block->size);
  if (__builtin_expect(block->segment != NULL, 0))
    block->context->device->part_active -= block->size;
  else
    gp_budget_return(block->context->device, block);
  if (gp_event_is_wanted(engine, &block->observer_cookie))
    gp_block_tell_completed(engine, block, time_ns);
}

/* Returns since_ns, or the newest time in the list of idle blocks if that is later: the list is in the order
 * of these times. */
static inline uint64_t gp_block_idle_since(const gp_device_t *device, uint64_t since_ns)
{
  if (gp_list_is_empty(&device->idle))
    return since_ns;
  uint64_t newest_ns = gp_list_entry(device->idle.prev, gp_block_t, order)->idle_ns;
  return newest_ns > since_ns ? newest_ns : since_ns;
}

static inline void gp_block_enter_idle(gp_engine_t *engine, gp_block_t *block, uint64_t since_ns)
{
  gp_device_t *device = block->context->device;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  since_ns = gp_block_idle_since(device, since_ns);
  if (block->segment) {
    gp_block_join_idle(engine, block, since_ns);
    return;
  }
  block->state = GP_STATE_IDLE;
  block->idle_ns = since_ns;
  gp_bin_push(block->bin, &block->in_bin);
  gp_list_push_back(&device->idle, &block->order);
  gp_gauge_add(&gp_device_stats(device)->cached_bytes, block->size);
}

/* Returns true if the block, which is freed and complete, must be searched for damage before it becomes idle
 * (serve/damage.h). Exported memory is not searched, because other processes may write to it. */
static inline bool gp_block_needs_search(const gp_engine_t *engine, const gp_block_t *block)
{
  unsigned checks = atomic_load_explicit(&engine->checks, memory_order_relaxed);

  return __builtin_expect(checks != 0, 0) && !block->tainted &&
         !(block->segment && block->segment->is_closed) &&
         (checks & GP_CHECK_STALE || (checks & GP_CHECK_EDGES && block->red_zone > 0));
}

static inline void gp_block_enter_quarantine(gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  block->state = GP_STATE_QUARANTINED;
  block->is_filled = block->is_searched = false;
  gp_list_push_back(&block->context->quarantine, &block->order);
}

static inline void gp_block_leave_quarantine(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns)
{
  gp_assert_internal(block->state == GP_STATE_QUARANTINED);
  gp_list_remove(&block->order);
  block->red_zone = 0;
  gp_block_end_use(engine, block, now_ns);
  gp_block_enter_idle(engine, block, now_ns);
}

/* Takes an idle block that is a whole driver allocation out of its lists. */
static inline void gp_block_leave_bin(gp_block_t *block)
{
  gp_assert_internal(block->state == GP_STATE_IDLE);
  gp_bin_remove(block->bin, &block->in_bin);
  gp_list_remove(&block->order);
  gp_gauge_sub(&gp_device_stats(block->context->device)->cached_bytes, block->size);
}

/* Returns true if the block may serve the request, with no more than `most` bytes. */
static inline bool gp_block_serves(const gp_block_t *block, const gp_fit_t *fit, uint64_t most)
{
  return block->size >= fit->least && block->size <= most;
}

/*
 * Takes the best idle block out of its lists: the smallest that fits, and the newest among equals. With
 * is_cut it takes a part of a segment of at least fit->fresh bytes instead, and puts it into the map. Returns
 * NULL if there is none.
 */
static inline gp_block_t *gp_block_take_idle(
    gp_engine_t *engine, gp_context_t *context, const gp_fit_t *fit, bool is_cut)
{
  if (is_cut)
    return gp_block_take_part(engine, context, fit->fresh);
  const gp_bin_t *bin = gp_bins_find(&context->bins, fit->class_bytes);
  gp_block_t *block = bin && bin->idle ? gp_block_of_entry(bin->idle) : NULL;
  /* If all blocks have the size of their class, the first one is the best. */
  if (!block || !gp_block_serves(block, fit, fit->fresh))
    block = gp_block_find_whole(context, fit);
  gp_assert_internal(!block || block->context == context);
  if (block)
    gp_block_leave_bin(block);
  return block;
}

#endif
