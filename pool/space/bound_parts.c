#include "pool/space/bound_parts.h"

#include <stdlib.h>

#include "pool/space/block_life.h"
#include "pool/space/block_slab.h"
#include "pool/space/free_events.h"
#include "pool/space/segment.h"

static void count(gp_block_t *block)
{
  gp_device_t *device = block->context->device;

  block->releasable = gp_segment_releasable(block);
  gp_gauge_add(&gp_device_stats(device)->cached_bytes, block->size);
  gp_gauge_add(&gp_device_stats(device)->inactive_split_bytes, block->size - block->releasable);
  device->part_cached += block->size;
  device->bound_bytes += block->size;
  device->bound_releasable += block->releasable;
}

static void uncount(const gp_block_t *block)
{
  gp_device_t *device = block->context->device;

  gp_gauge_sub(&gp_device_stats(device)->cached_bytes, block->size);
  gp_gauge_sub(&gp_device_stats(device)->inactive_split_bytes, block->size - block->releasable);
  device->part_cached -= block->size;
  device->bound_bytes -= block->size;
  device->bound_releasable -= block->releasable;
}

/* Puts a part, which has its final size, into the bins of a stream. */
static void file(gp_stream_record_t *stream_record, gp_block_t *block, uint64_t freed_as)
{
  block->freed_in = stream_record;
  block->freed_as = freed_as;
  block->in_cut.address = block->address;
  block->in_cut.size = block->size;
  block->in_cut.free_epoch = freed_as; /* compared with the number that gp_bound_find gets */
  gp_cut_bins_add(stream_record->bound, &block->in_cut);
  stream_record->block_count++;
}

static void unfile(gp_block_t *block)
{
  gp_stream_record_t *stream_record = block->freed_in;

  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_assert_internal(block->state == GP_STATE_BOUND && stream_record->block_count > 0);
  gp_cut_bins_remove(stream_record->bound, &block->in_cut);
  stream_record->block_count--;
  block->freed_in = NULL;
}

void gp_bound_leave(gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_assert_internal(block->state == GP_STATE_BOUND);
  gp_list_remove(&block->order);
  if (block->freed_in)
    unfile(block);
  uncount(block);
  gp_free_events_forget(block);
}

bool gp_bound_enter(
    gp_engine_t *engine, gp_stream_record_t *stream_record, gp_block_t *block, uint64_t now_ns)
{
  gp_block_t *neighbours[] = {gp_segment_below(block), gp_segment_above(block)};

  gp_assert_internal(gp_lock_is_held(&stream_record->context->device->lock));
  gp_assert_internal(block->state == GP_STATE_DEFERRED && !block->freed_in && !stream_record->has_ended);
  gp_assert_internal(block->segment && !block->segment->is_closed);
  if (!stream_record->bound)
    stream_record->bound = calloc(1, sizeof(*stream_record->bound));
  if (!stream_record->bound)
    return false;
  block->context->deferred_bytes -= block->size;
  gp_block_end_use(engine, block, now_ns);
  gp_block_set_stream(block, 0);
  gp_address_map_remove_value(&engine->blocks, block->address, block); /* joining may move the block */
  for (int i = 0; i < 2; i++) {
    if (!neighbours[i] || neighbours[i]->state != GP_STATE_BOUND || neighbours[i]->freed_in != stream_record)
      continue;
    gp_free_events_join(block, neighbours[i]);
    gp_bound_leave(neighbours[i]);
    gp_segment_join(engine, block, neighbours[i]);
  }
  block->state = GP_STATE_BOUND;
  block->requested = 0;
  block->block_id = 0;
  count(block);
  file(stream_record, block, ++stream_record->frees);
  return true;
}

gp_block_t *gp_bound_find(const gp_stream_record_t *stream_record, uint64_t bytes, uint64_t frees)
{
  gp_assert_internal(gp_lock_is_held(&stream_record->context->device->lock));
  gp_cut_entry_t *entry = stream_record->bound ? gp_cut_bins_find(stream_record->bound, bytes, frees) : NULL;
  return entry ? gp_block_of_cut(entry) : NULL;
}

void gp_bound_take_low(gp_engine_t *engine, gp_block_t *block, uint64_t bytes)
{
  gp_stream_record_t *stream_record = block->freed_in;

  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_block_t *rest = block->size > bytes ? gp_block_slab_take(engine) : NULL;
  if (stream_record)
    unfile(block);
  uncount(block);
  if (rest) {
    gp_segment_split(block, bytes, rest);
    gp_free_events_split(block, rest);
    gp_list_insert_after(&block->order, &rest->order); /* the list stays in the order of stamps */
    count(rest);
    if (stream_record)
      file(stream_record, rest, block->freed_as);
  }
  gp_list_remove(&block->order);
  gp_free_events_forget(block);
}

bool gp_bound_take(gp_engine_t *engine, gp_block_t *block, uint64_t bytes)
{
  if (!gp_address_map_insert(&engine->blocks, block->address, block))
    return false;
  gp_bound_take_low(engine, block, bytes);
  return true;
}

void gp_bound_remove_all(gp_stream_record_t *stream_record)
{
  gp_block_t *block;

  while ((block = gp_bound_find(stream_record, GP_CUT_GRANULE, UINT64_MAX)))
    unfile(block);
}

void gp_bound_remove_segment(const gp_segment_t *segment)
{
  for (gp_block_t *block = segment->first; block; block = gp_segment_above(block))
    if (block->state == GP_STATE_BOUND && block->freed_in)
      unfile(block);
}
