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

uint64_t gp_covered_raise(gp_engine_t *engine)
{
  uint64_t completed = UINT64_MAX;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (gp_list_is_empty(&engine->contexts))
    return gp_covered(engine);
  GP_LIST_EACH(&engine->contexts, gp_context_t, live_link, context) {
    uint64_t own = atomic_load(&context->completed);
    if (own < completed)
      completed = own;
  }
  gp_assert_internal(completed < atomic_load(&engine->epoch));
  uint64_t before = gp_covered(engine);
  if (completed > before) {
    if (before < atomic_load(&engine->newest_free_epoch))
      atomic_store(&engine->covered_ns, gp_now(engine)); /* first, so that no block seems older than it is */
    atomic_store(&engine->covered, completed);
  }
  return gp_covered(engine);
}

void gp_stamp(gp_engine_t *engine, gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  /* The fence is one half of what stamps.h argues. Under the lock, so that the queue is in the order of its
   * stamps. */
  atomic_thread_fence(memory_order_seq_cst);
  block->free_epoch = atomic_load(&engine->epoch);
  raise(&engine->newest_free_epoch, block->free_epoch);
}

void gp_stamp_and_defer(gp_engine_t *engine, gp_block_t *block)
{
  gp_context_t *context = block->context;

  gp_stamp(engine, block);
  block->state = GP_STATE_DEFERRED;
  gp_list_push_back(&context->deferred, &block->order);
  if (!block->segment)
    gp_bins_find(&context->bins, block->class_bytes)->deferred_count++;
}

void gp_stamp_leave_deferred(gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_assert_internal(block->state == GP_STATE_DEFERRED);
  gp_list_remove(&block->order);
  if (block->segment)
    return;
  gp_bin_t *bin = gp_bins_find(&block->context->bins, block->class_bytes);
  gp_assert_internal(bin->deferred_count > 0);
  bin->deferred_count--;
}
