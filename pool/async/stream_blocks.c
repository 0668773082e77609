#include "pool/async/stream_blocks.h"

#include "pool/space/block.h"
#include "pool/space/bound_parts.h"
#include "pool/space/budget.h"

static gp_lock_t *lock_of(const gp_stream_record_t *stream_record)
{
  return &stream_record->context->device->lock;
}

void gp_stream_block_add(gp_stream_record_t *stream_record, gp_block_t *block, bool may_serve)
{
  gp_assert_internal(gp_lock_is_held(lock_of(stream_record)));
  gp_assert_internal(block->state == GP_STATE_DEFERRED && !block->freed_in && !stream_record->has_ended);
  gp_assert_internal(block->context->device == stream_record->context->device);
  gp_bin_t *bin = may_serve ? gp_bins_make(&stream_record->freed, block->bin->size) : &stream_record->others;
  if (!bin)
    return;
  bin->block_count++; /* the table frees only bins without blocks */
  stream_record->block_count++;
  block->is_in_others = !may_serve;
  gp_bin_push(bin, &block->in_bin);
  if (may_serve)
    stream_record->context->device->stream_block_bytes += block->size - block->borrowed;
  block->freed_in = stream_record;
  block->freed_as = ++stream_record->frees;
  block->context->deferred_bytes -= block->size;
}

void gp_stream_block_remove(gp_block_t *block)
{
  gp_stream_record_t *stream_record = block->freed_in;

  gp_assert_internal(gp_lock_is_held(lock_of(stream_record)) && block->state == GP_STATE_DEFERRED);
  gp_assert_internal(stream_record->block_count > 0);
  gp_bin_t *bin =
      block->is_in_others ? &stream_record->others : gp_bins_find(&stream_record->freed, block->bin->size);
  gp_bin_remove(bin, &block->in_bin);
  bin->block_count--;
  if (!block->is_in_others)
    stream_record->context->device->stream_block_bytes -= block->size - block->borrowed;
  stream_record->block_count--;
  block->freed_in = NULL;
  block->context->deferred_bytes += block->size;
}

gp_block_t *gp_stream_block_find(const gp_stream_record_t *stream_record, const gp_fit_t *fit)
{
  gp_assert_internal(gp_lock_is_held(lock_of(stream_record)));
  return gp_block_find_in_bins(&stream_record->freed, fit);
}

#define LOOKED_AT                                                                                            \
  8u /* number of blocks searched, newest first: blocks freed after the point come before older ones */

static gp_block_t *find_before(const gp_bin_t *bin, const gp_fit_t *fit, uint64_t most, uint64_t frees)
{
  unsigned left = LOOKED_AT;

  for (gp_bin_entry_t *entry = bin ? bin->idle : NULL; entry && left > 0; entry = entry->next, left--) {
    gp_block_t *block = gp_block_of_entry(entry);
    if (block->freed_as <= frees && block->size >= fit->least && block->size <= most)
      return block;
  }
  return NULL;
}

gp_block_t *gp_stream_block_find_before(
    const gp_stream_record_t *stream_record, const gp_fit_t *fit, uint64_t frees)
{
  gp_assert_internal(gp_lock_is_held(lock_of(stream_record)));
  gp_block_t *block =
      find_before(gp_bins_find(&stream_record->freed, fit->class_bytes), fit, UINT64_MAX, frees);
  if (!block && fit->above != 0)
    block = find_before(gp_bins_find(&stream_record->freed, fit->above), fit, fit->most, frees);
  return block;
}

void gp_stream_blocks_remove_all(gp_stream_record_t *stream_record)
{
  gp_assert_internal(gp_lock_is_held(lock_of(stream_record)));
  for (size_t i = 0; i < stream_record->freed.capacity; i++) {
    const gp_bin_t *bin = stream_record->freed.slots[i].bin;
    while (bin && bin->idle)
      gp_stream_block_remove(gp_block_of_entry(bin->idle));
  }
  while (stream_record->others.idle)
    gp_stream_block_remove(gp_block_of_entry(stream_record->others.idle));
  gp_bound_remove_all(stream_record);
  gp_budget_note_use(stream_record->context->device); /* freed blocks count as in use until complete */
  gp_assert_internal(stream_record->block_count == 0);
}
