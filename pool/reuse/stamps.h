/*
 * The rule by which a freed block may be reused.
 *
 * A program may call cudaFree while kernels still use the block, and the next owner of the block may use it
 * at once, in any stream or from the host. So the block is reusable only when the host knows that all device
 * work submitted before the free is complete, in every context, because a context can access the memory of
 * other contexts through peer access and copies.
 *
 * Epochs make this check cheap. `epoch` only grows. A free stamps its block with the current epoch. An action
 * that can prove a context's work complete (a synchronization, a fence) first begins a new epoch; the old
 * epoch e is its token. When the action has succeeded, all work of the context submitted before it began is
 * complete, and so is the work before every free stamped e or less: such a free read `epoch` before
 * gp_epoch_begin changed it, and all submissions of the freeing thread, and those that happened before its
 * cudaFree, come before that read. There is a sequentially consistent fence between the submissions and the
 * stamp, and another between the new epoch and the driver's call. So the driver sees the submissions if the
 * stamp is the old epoch, even on processors that reorder a later load with earlier stores. The first of
 * these fences is gp_lock_fence: the free takes the device's lock after the submissions, which on x86-64 is
 * already such a fence.
 *
 * `covered` is the newest epoch that every live context has completed. It only grows. A freed block with a
 * stamp of at most `covered` may be reused, although it may still be queued (drain.h). A new context has
 * completed nothing, but does not lower `covered`, because the library knows the context before it can submit
 * work (doc/reuse.md).
 */
#ifndef GP_POOL_REUSE_STAMPS_H
#define GP_POOL_REUSE_STAMPS_H

#include "pool/space/block_life.h"
#include "pool/space/bound_parts.h"
#include "pool/space/free_events.h"
#include "pool/async/stream_blocks.h"
#include "pool/engine_record.h"

/* Begins a new epoch, and returns the previous one, which is at least the stamp of every free so far. */
static inline uint64_t gp_epoch_begin(gp_engine_t *engine)
{
  uint64_t epoch = atomic_fetch_add(&engine->epoch, 1);
  atomic_thread_fence(memory_order_seq_cst);
  return epoch;
}

/* Notes that the context has completed an epoch. */
void gp_epoch_complete(gp_context_t *context, uint64_t epoch);

/* Raises `covered` to the newest epoch that all live contexts have completed, and returns it. The caller
 * holds contexts_lock. */
uint64_t gp_covered_raise(gp_engine_t *engine);

/* Calls gp_covered_raise for callers without a lock. Changes no block: drain.h makes blocks idle later. */
void gp_advance(gp_engine_t *engine);

static inline uint64_t gp_covered(const gp_engine_t *engine)
{
  return atomic_load_explicit(&engine->covered, memory_order_acquire);
}

/* Returns true if the context has completed the epoch of the newest free. */
static inline bool gp_epoch_is_current(const gp_engine_t *engine, const gp_context_t *context)
{
  return atomic_load(&context->completed) >= atomic_load(&engine->newest_free_epoch);
}

/* Raises *value atomically to `to`, if it is less. */
void gp_stamps_raise(_Atomic uint64_t *value, uint64_t to);

/* Stamps a freed block with the epoch; gp_stamp_and_defer also queues it. The caller holds the device's lock.
 */
static inline void gp_stamp(gp_engine_t *engine, gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  /* The first fence of the comment at the top. The stamp is read under the lock, so the queue is in the order
   * of stamps. */
  gp_lock_fence();
  block->free_epoch = atomic_load(&engine->epoch);
  if (atomic_load(&engine->newest_free_epoch) < block->free_epoch)
    gp_stamps_raise(&engine->newest_free_epoch, block->free_epoch);
}

static inline void gp_stamp_and_defer(gp_engine_t *engine, gp_block_t *block)
{
  gp_stamp(engine, block);
  block->state = GP_STATE_DEFERRED;
  gp_list_push_back(&block->context->deferred, &block->order);
  block->context->deferred_bytes += block->size;
  if (!block->segment)
    block->bin->deferred_count++;
}

/* Takes a deferred block out of its queue. The caller holds the device's lock. */
static inline void gp_stamp_leave_deferred(gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_assert_internal(block->state == GP_STATE_DEFERRED);
  gp_list_remove(&block->order);
  if (block->freed_in)
    gp_stream_block_remove(block);
  if (__builtin_expect(block->freed_bytes != NULL, 0))
    gp_free_events_forget(block);
  block->context->deferred_bytes -= block->size;
  if (block->segment)
    return;
  gp_assert_internal(block->bin->deferred_count > 0);
  block->bin->deferred_count--;
}

/* Makes a deferred or bound block idle, as of since_ns, after its work was proven complete; with
 * GPUPOOL_CHECK it is quarantined first. The caller holds the device's lock. */
static inline void gp_stamp_complete(
    gp_engine_t *engine, gp_block_t *block, uint64_t now_ns, uint64_t since_ns)
{
  if (__builtin_expect(block->state == GP_STATE_BOUND, 0)) {
    gp_bound_leave(block); /* its use ended with the free */
  } else {
    gp_stamp_leave_deferred(block);
    if (gp_block_needs_search(engine, block)) {
      gp_block_enter_quarantine(block);
      return;
    }
    gp_block_end_use(engine, block, now_ns);
  }
  gp_block_enter_idle(engine, block, since_ns);
}

#endif
