/*
 * Makes covered blocks (stamps.h) idle, and removes them from the queue of deferred blocks. Each allocation
 * or free moves a few blocks. So a synchronization costs nothing per block, and no single call moves many
 * blocks. All covered blocks are moved when the exact state matters: at a miss, a query for free memory, a
 * trim, or a snapshot. Any thread may call these functions.
 */
#ifndef GP_POOL_REUSE_DRAIN_H
#define GP_POOL_REUSE_DRAIN_H

#include "pool/reuse/stamps.h"
#include "pool/space/block_life.h"

/* The most blocks that one allocation or free moves. This is more than a program can free with one call, so
 * the queue shrinks. */
#define GP_DRAIN_SOME 4u

/* The most blocks that are moved before the lock is released. Other threads wait for the lock meanwhile,
 * about ten microseconds. */
#define GP_DRAIN_AT_ONCE 128u

/* gp_drain_some moves the context's oldest covered blocks, at most GP_DRAIN_SOME. The caller holds the
 * device's lock. gp_drain_few is the out-of-line part of gp_drain_some, which alone calls it. */
void gp_drain_few(gp_engine_t *engine, gp_context_t *context, uint64_t covered, uint64_t now_ns);

static inline void gp_drain_some(gp_engine_t *engine, gp_context_t *context, uint64_t now_ns)
{
  if (gp_list_is_empty(&context->deferred))
    return;
  uint64_t covered = gp_covered(engine);
  if (gp_list_entry(context->deferred.next, gp_block_t, order)->free_epoch <= covered)
    gp_drain_few(engine, context, covered, now_ns);
}

/*
 * Removes the context's oldest block from its queue if the block is covered and fits the request; otherwise
 * returns NULL. A whole driver allocation fits if it has the request's class. With is_cut, the block must be
 * a part of a segment of exactly the size that a new block would have. The block goes directly to its next
 * owner; only the statistics count it as idle in between. The caller holds the device's lock.
 */
static inline gp_block_t *gp_drain_for(
    gp_engine_t *engine, gp_context_t *context, const gp_fit_t *fit, bool is_cut, uint64_t now_ns)
{
  if (gp_list_is_empty(&context->deferred))
    return NULL;
  gp_block_t *block = gp_list_entry(context->deferred.next, gp_block_t, order);
  if (block->free_epoch > gp_covered(engine) || gp_block_needs_search(engine, block))
    return NULL;
  if (is_cut ? block->size != fit->fresh || !block->segment || block->segment->is_closed ||
                   block->state == GP_STATE_BOUND
             : block->size < fit->least || block->size > fit->fresh || !block->bin ||
                   block->bin->size != fit->class_bytes)
    return NULL;
  gp_stats_t *stats = gp_device_stats(context->device);
  gp_stamp_leave_deferred(block);
  gp_block_end_use(engine, block, now_ns);
  gp_gauge_pass(&stats->cached_bytes, block->size); /* the block's events record it as idle in between */
  return block;
}

/* gp_drain_device moves all covered blocks of the device, and gp_drain those of every device. Without
 * with_heaps, gp_drain leaves the blocks that heaps keep. The caller holds no lock. Both release the device's
 * lock after a bounded number of blocks. */
void gp_drain_device(gp_engine_t *engine, gp_device_t *device);
void gp_drain(gp_engine_t *engine, bool with_heaps);

/*
 * Makes blocks idle that were freed in stream order, if the context of their stream has completed the free.
 * Other contexts do not matter, because all uses of such a block precede its free in the stream. Checks the
 * oldest `most` deferred blocks of the device. Returns true if a block became idle. The caller holds no lock.
 */
bool gp_drain_by_own_context(gp_engine_t *engine, gp_device_t *device, unsigned most);

/* Makes all covered blocks of the device idle without releasing the lock, for a consistent view. The caller
 * holds the device's lock. */
void gp_drain_locked(gp_engine_t *engine, gp_device_t *device);

#endif
