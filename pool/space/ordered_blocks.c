#include "pool/space/ordered_blocks.h"

#include "pool/space/block.h"

static gp_lock_t *lock_of(const gp_identity_t *identity)
{
  return &identity->context->device->lock;
}

void gp_ordered_file(gp_identity_t *identity, gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(lock_of(identity)));
  gp_assert_internal(block->state == GP_STATE_DEFERRED && !block->freed_in && !identity->has_ended);
  gp_bin_t *bin = gp_bins_make(&identity->freed, block->bin->size);
  if (!bin)
    return;
  bin->block_count++; /* or the bin would not last */
  gp_bin_push(bin, &block->in_bin);
  block->freed_in = identity;
  block->freed_as = ++identity->frees;
}

void gp_ordered_unfile(gp_block_t *block)
{
  gp_identity_t *identity = block->freed_in;

  gp_assert_internal(gp_lock_is_held(lock_of(identity)) && block->state == GP_STATE_DEFERRED);
  gp_bin_t *bin = gp_bins_find(&identity->freed, block->bin->size);
  gp_bin_remove(bin, &block->in_bin);
  bin->block_count--;
  block->freed_in = NULL;
}

gp_block_t *gp_ordered_find(const gp_identity_t *identity, const gp_fit_t *fit)
{
  gp_assert_internal(gp_lock_is_held(lock_of(identity)));
  return gp_block_find_in_bins(&identity->freed, fit, UINT64_MAX);
}

void gp_ordered_unfile_all(gp_identity_t *identity)
{
  gp_assert_internal(gp_lock_is_held(lock_of(identity)));
  for (size_t i = 0; i < identity->freed.capacity; i++) {
    const gp_bin_t *bin = identity->freed.slots[i].bin;
    while (bin && bin->idle)
      gp_ordered_unfile(gp_block_of_entry(bin->idle));
  }
}
