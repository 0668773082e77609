#include "pool/async/ordered_blocks.h"

#include "pool/space/block.h"
#include "pool/space/bound_parts.h"
#include "pool/space/budget.h"

static gp_lock_t *lock_of(const gp_identity_t *identity)
{
  return &identity->context->device->lock;
}

void gp_ordered_file(gp_identity_t *identity, gp_block_t *block, bool may_serve)
{
  gp_assert_internal(gp_lock_is_held(lock_of(identity)));
  gp_assert_internal(block->state == GP_STATE_DEFERRED && !block->freed_in && !identity->has_ended);
  gp_assert_internal(block->context->device == identity->context->device);
  gp_bin_t *bin = may_serve ? gp_bins_make(&identity->freed, block->bin->size) : &identity->others;
  if (!bin)
    return;
  bin->block_count++; /* keeps the bin alive */
  identity->filed++;
  block->is_in_others = !may_serve;
  gp_bin_push(bin, &block->in_bin);
  if (may_serve)
    identity->context->device->filed_bytes += block->size - block->borrowed;
  block->freed_in = identity;
  block->freed_as = ++identity->frees;
  block->context->deferred_bytes -= block->size;
}

void gp_ordered_unfile(gp_block_t *block)
{
  gp_identity_t *identity = block->freed_in;

  gp_assert_internal(gp_lock_is_held(lock_of(identity)) && block->state == GP_STATE_DEFERRED);
  gp_assert_internal(identity->filed > 0);
  gp_bin_t *bin = block->is_in_others ? &identity->others : gp_bins_find(&identity->freed, block->bin->size);
  gp_bin_remove(bin, &block->in_bin);
  bin->block_count--;
  if (!block->is_in_others)
    identity->context->device->filed_bytes -= block->size - block->borrowed;
  identity->filed--;
  block->freed_in = NULL;
  block->context->deferred_bytes += block->size;
}

gp_block_t *gp_ordered_find(const gp_identity_t *identity, const gp_fit_t *fit)
{
  gp_assert_internal(gp_lock_is_held(lock_of(identity)));
  return gp_block_find_in_bins(&identity->freed, fit);
}

#define LOOKED_AT                                                                                            \
  8u /* newest blocks to look at: a few blocks from after the point often precede those from before it */

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

gp_block_t *gp_ordered_find_before(const gp_identity_t *identity, const gp_fit_t *fit, uint64_t frees)
{
  gp_assert_internal(gp_lock_is_held(lock_of(identity)));
  gp_block_t *block = find_before(gp_bins_find(&identity->freed, fit->class_bytes), fit, UINT64_MAX, frees);
  if (!block && fit->above != 0)
    block = find_before(gp_bins_find(&identity->freed, fit->above), fit, fit->most, frees);
  return block;
}

void gp_ordered_unfile_all(gp_identity_t *identity)
{
  gp_assert_internal(gp_lock_is_held(lock_of(identity)));
  for (size_t i = 0; i < identity->freed.capacity; i++) {
    const gp_bin_t *bin = identity->freed.slots[i].bin;
    while (bin && bin->idle)
      gp_ordered_unfile(gp_block_of_entry(bin->idle));
  }
  while (identity->others.idle)
    gp_ordered_unfile(gp_block_of_entry(identity->others.idle));
  gp_bound_unfile_all(identity);
  gp_budget_note_use(identity->context->device); /* they count as in use until they are complete */
  gp_assert_internal(identity->filed == 0);
}
