#include "pool/space/block_life.h"

#include <stdlib.h>

#include "pool/events.h"
#include "pool/space/account.h"
#include "pool/space/block_slab.h"
#include "pool/space/mapped.h"
#include "pool/space/segment.h"

static gp_stats_t *stats_of(const gp_block_t *block)
{
  return gp_device_stats(block->context->device);
}

bool gp_block_prepare(gp_context_t *context, gp_block_t *block, uint64_t class_bytes)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  block->bin = gp_bins_make(&context->bins, class_bytes);
  if (!block->bin)
    return false;
  block->bin->block_count++;
  return true;
}

void gp_block_unprepare(gp_context_t *context, gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  gp_assert_internal(block->bin && block->bin->block_count > block->bin->idle_count);
  block->bin->block_count--;
  block->bin = NULL;
}

void gp_block_adopt(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns, uint64_t duration_ns)
{
  gp_stats_t *stats = stats_of(block);

  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  block->origin = gp_origin(engine);
  if (!block->segment)
    gp_list_push_back(&block->context->blocks, &block->all);
  if (block->segment)
    gp_segment_note_growth(block->context->device, block);
  gp_gauge_add(&stats->segment, 1);
  gp_gauge_add(&stats->reserved_bytes, block->size);
  if (gp_block_is_async(block))
    block->context->device->pooled_async_bytes += block->size;
  gp_account_adopt(engine, block->context->device, block->address, block->size, GP_SUPPLY_PLAIN);
  stats->driver_allocs++;
  gp_event_block(engine, block, GP_ACTION_SEGMENT_ALLOC, GP_DETAIL_NONE, time_ns, duration_ns, false);
  gp_event_facts(engine, block->context->device);
}

/* Notifies the observer of one step in the life of an allocation. Returns the time that the observer
 * recorded, or 0 if the observer wants the whole event instead. */
static inline uint64_t tell_step(gp_engine_t *engine, gp_block_t *block, gp_step_fn step, uint64_t time_ns)
{
  const gp_context_t *context = block->context;
  return step(engine->observer.self, &block->observed, context->driver.id, context->device->ordinal,
      block->segment != NULL, time_ns);
}

void gp_block_tell_alloc(gp_engine_t *engine, gp_block_t *block, uint64_t duration_ns, bool hit)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  uint64_t told_ns = hit ? tell_step(engine, block, engine->observer.alloc, block->time_ns) : 0;
  if (told_ns == 0)
    told_ns = gp_event_block_wanted(
        engine, block, GP_ACTION_ALLOC, GP_DETAIL_NONE, block->time_ns, duration_ns, hit);
  block->time_ns = told_ns;
}

void gp_block_tell_free(gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  if (why != GP_DETAIL_NONE || tell_step(engine, block, engine->observer.free_requested, time_ns) == 0)
    (void)gp_event_block_wanted(engine, block, GP_ACTION_FREE_REQUESTED, why, time_ns, 0, false);
}

void gp_block_tell_completed(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  if (tell_step(engine, block, engine->observer.free_completed, time_ns) == 0)
    (void)gp_event_block_wanted(engine, block, GP_ACTION_FREE_COMPLETED, GP_DETAIL_NONE, time_ns, 0, false);
}

void gp_block_join_idle(gp_engine_t *engine, gp_block_t *block, uint64_t since_ns)
{
  gp_address_map_remove_value(&engine->blocks, block->address, block); /* joining may move the block */
  gp_block_set_stream(block, 0);
  (void)gp_segment_enter_idle(engine, block, since_ns);
}

void gp_block_leave_idle(gp_block_t *block)
{
  if (block->segment)
    gp_segment_leave_idle(block);
  else
    gp_block_leave_bin(block);
}

gp_block_t *gp_block_take_part(gp_engine_t *engine, gp_context_t *context, uint64_t size)
{
  gp_block_t *block = gp_segment_take(engine, context, size);
  if (!block || gp_address_map_insert(&engine->blocks, block->address, block))
    return block;
  /* If the host has no memory for the map, the block returns to idle. It gets a new time, because
   * device->idle is in the order of times. */
  (void)gp_segment_enter_idle(engine, block, gp_now(engine));
  return NULL;
}

/* Returns the smallest block of a bin that has fit->least to `most` bytes, or NULL. Among equal sizes,
 * returns the newest. */
static gp_block_t *find_smallest(const gp_bin_t *bin, const gp_fit_t *fit, uint64_t most)
{
  gp_block_t *best = NULL;

  for (gp_bin_entry_t *entry = bin->idle; entry; entry = entry->next) {
    gp_block_t *block = gp_block_of_entry(entry);
    if (!gp_block_serves(block, fit, most) || (best && block->size >= best->size))
      continue;
    best = block;
    if (best->size <= fit->fresh || bin->size <= GP_LARGE_CLASS) /* all blocks have the size of the class */
      break;
  }
  return best;
}

/* Returns the same block as find_smallest. If all blocks have the size of their class, that is the first one,
 * and no search is needed. */
static gp_block_t *find_in(const gp_bin_t *bin, const gp_fit_t *fit, uint64_t most)
{
  if (!bin || !bin->idle)
    return NULL;
  gp_block_t *first = gp_block_of_entry(bin->idle);
  return gp_block_serves(first, fit, fit->fresh) ? first : find_smallest(bin, fit, most);
}

/* Returns the smallest idle block of fit->least to fit->borrow bytes in any bin, or NULL. */
static gp_block_t *find_to_borrow(const gp_bins_t *bins, const gp_fit_t *fit)
{
  gp_block_t *best = NULL;

  for (size_t i = 0; i < bins->capacity; i++) {
    const gp_bin_t *bin = bins->slots[i].bin;
    if (!bin || bin->size < fit->least)
      continue;
    gp_block_t *block = find_smallest(bin, fit, best ? best->size - 1 : fit->borrow);
    if (block)
      best = block;
  }
  return best;
}

static inline gp_block_t *find_in_bins(const gp_bins_t *bins, const gp_fit_t *fit)
{
  gp_block_t *block = find_in(gp_bins_find(bins, fit->class_bytes), fit, UINT64_MAX);
  if (!block && fit->above != 0)
    block = find_in(gp_bins_find(bins, fit->above), fit, fit->most);
  if (!block && fit->borrow != 0)
    block = find_to_borrow(bins, fit);
  return block;
}

gp_block_t *gp_block_find_in_bins(const gp_bins_t *bins, const gp_fit_t *fit)
{
  return find_in_bins(bins, fit);
}

gp_block_t *gp_block_find_whole(const gp_context_t *context, const gp_fit_t *fit)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  gp_block_t *block = find_in_bins(&context->bins, fit);
  return block;
}

gp_block_t *gp_block_largest_idle(const gp_device_t *device)
{
  gp_block_t *largest = NULL;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context) {
    const gp_bin_t *bin = gp_bins_largest(&context->bins);
    for (gp_bin_entry_t *entry = bin ? bin->idle : NULL; entry; entry = entry->next) {
      gp_block_t *block = gp_block_of_entry(entry);
      if (!largest || block->size > largest->size)
        largest = block;
      if (block->size == bin->size) /* no block of the class is larger */
        break;
    }
  }
  GP_LIST_EACH(&device->idle, gp_block_t, order, block)
    if (block->segment && (!largest || block->size > largest->size))
      largest = block;
  return largest;
}

bool gp_block_has_idle(const gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  if (context->range && context->range->releasable > 0)
    return true;
  GP_LIST_EACH(&context->device->idle, const gp_block_t, order, block)
    if (block->context == context)
      return true;
  return false;
}

uint64_t gp_block_largest_bytes(const gp_device_t *device)
{
  const gp_block_t *whole = gp_block_largest_idle(device);
  uint64_t bytes = whole ? whole->size : 0;

  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context) {
    const gp_cut_entry_t *part = gp_cut_bins_largest(&context->cut);
    if (part && part->size > bytes)
      bytes = part->size;
  }
  return bytes;
}

void gp_block_forget(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns)
{
  gp_device_t *device = block->context->device;

  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  if (block->segment && block->segment->range) {
    gp_range_t *range = block->segment->range;
    gp_mapped_forget(engine, range, gp_chunks_find(range, block->address), why, time_ns, duration_ns);
    gp_mapped_become_hole(engine, block);
    return;
  }
  gp_gauge_sub(&gp_device_stats(device)->segment, 1);
  gp_gauge_sub(&gp_device_stats(device)->reserved_bytes, block->size);
  gp_event_block(engine, block, GP_ACTION_SEGMENT_FREE, why, time_ns, duration_ns, false);
  if (gp_block_is_async(block))
    device->pooled_async_bytes -= block->size;
  gp_account_drop(engine, device, block->address, block->size, GP_SUPPLY_PLAIN);
  if (block->segment) {
    gp_segment_t *segment = block->segment;
    gp_segment_remove(segment, block);
    free(segment);
  } else {
    gp_block_unprepare(block->context, block);
    gp_list_remove(&block->all);
  }
  __atomic_store_n(&block->address, 0, __ATOMIC_RELAXED); /* a concurrent free may read it, see free.c */
  block->block_id = 0; /* a free in mode `strict` may be waiting, see gp_release_deferred */
  gp_block_slab_give(engine, block);
}

void gp_block_end(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns)
{
  gp_block_end_ownership(engine, block, GP_DETAIL_NONE, time_ns);
  gp_block_end_use(engine, block, time_ns);
  gp_block_forget(engine, block, why, time_ns, duration_ns);
}
