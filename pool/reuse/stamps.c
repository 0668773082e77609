#include "pool/reuse/stamps.h"

#include "pool/space/block.h"

static void raise(_Atomic uint64_t *value, uint64_t to)
{
  uint64_t before = atomic_load(value);
  while (before < to && !atomic_compare_exchange_weak(value, &before, to)) {
  }
}

void gp_epoch_complete(gp_context_t *context, uint64_t epoch)
{
  raise(&context->completed, epoch);
}

uint64_t gp_epoch_completed_by_all(gp_engine_t *engine)
{
  uint64_t completed = UINT64_MAX;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  GP_LIST_EACH(&engine->contexts, gp_context_t, live_link, context) {
    uint64_t own = atomic_load(&context->completed);
    if (own < completed)
      completed = own;
  }
  return completed;
}

void gp_stamp(gp_engine_t *engine, gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  /* A read-modify-write, not a load: see above. Under the lock, so that the queue is in the order of its
   * stamps. */
  block->free_epoch = atomic_fetch_add(&engine->epoch, 0);
  raise(&engine->newest_free_epoch, block->free_epoch);
}

void gp_stamp_and_defer(gp_engine_t *engine, gp_block_t *block)
{
  gp_context_t *context = block->context;

  gp_stamp(engine, block);
  block->state = GP_STATE_DEFERRED;
  gp_list_push_back(&context->deferred, &block->order);
  gp_bins_find(&context->bins, block->size)->deferred_count++;
}

void gp_stamp_leave_deferred(gp_block_t *block)
{
  gp_bin_t *bin = gp_bins_find(&block->context->bins, block->size);

  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_assert_internal(block->state == GP_STATE_DEFERRED && bin->deferred_count > 0);
  gp_list_remove(&block->order);
  bin->deferred_count--;
}

void gp_stamp_reclaim(gp_engine_t *engine, gp_context_t *context, uint64_t completed, uint64_t now_ns)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  GP_LIST_EACH_SAFE(&context->deferred, gp_block_t, order, block) {
    if (block->free_epoch > completed)
      break;
    gp_stamp_leave_deferred(block);
    gp_block_end_use(engine, block, now_ns);
    gp_block_enter_idle(block, now_ns);
  }
}
