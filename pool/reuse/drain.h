/*
 * Covered blocks (stamps.h) move from the queue of deferred ones to idle: a few with each operation, so that
 * a synchronization costs nothing per block and no caller pays for many; all of them where the exact state
 * counts: at a miss, for a question about free memory, a trim, a snapshot.
 *
 * Any thread. Uses: stamps.h, space/block.h.
 */
#ifndef GP_POOL_REUSE_DRAIN_H
#define GP_POOL_REUSE_DRAIN_H

#include "pool/reuse/stamps.h"
#include "pool/space/block_life.h"

/* At most this many with one allocation or free: more than a program can free with one. */
#define GP_DRAIN_SOME 4u

/* With one look at a queue; other threads wait for the lock that long: some ten microseconds. */
#define GP_DRAIN_AT_ONCE 128u

/* The context's oldest, GP_DRAIN_SOME at most. The caller holds the device's lock. few: of gp_drain_some,
 * where there is one. */
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
 * The context's oldest, out of its queue, if it is covered and what the request needs: a driver allocation by
 * itself that is as small as a block for the request can be, or, with is_cut, a part of a segment of just
 * that size. It goes from one owner to the next, and is idle between them for the statistics only. Else NULL.
 * The caller holds the device's lock.
 */
static inline gp_block_t *gp_drain_for(
    gp_engine_t *engine, gp_context_t *context, const gp_fit_t *fit, bool is_cut, uint64_t now_ns)
{
  if (gp_list_is_empty(&context->deferred))
    return NULL;
  gp_block_t *block = gp_list_entry(context->deferred.next, gp_block_t, order);
  if (block->free_epoch > gp_covered(engine) || block->size < fit->least || block->size > fit->fresh)
    return NULL;
  if (is_cut ? !block->segment || block->size < fit->fresh || block->segment->is_closed
             : !block->bin || block->bin->size != fit->class_bytes)
    return NULL;
  gp_stats_t *stats = gp_device_stats(context->device);
  gp_stamp_leave_deferred(block);
  gp_block_end_use(engine, block, now_ns);
  gp_gauge_pass(&stats->cached_bytes, block->size); /* its events tell that it was idle */
  return block;
}

/*
 * All of the device, or of every device. The caller holds no lock; the device's is held for a bounded number
 * of blocks at a time.
 */
void gp_drain_device(gp_engine_t *engine, gp_device_t *device);
void gp_drain(gp_engine_t *engine);

/*
 * Blocks of the device that were freed in the order of a stream, and whose free the context of that stream
 * has completed, whatever other contexts are at: all their uses lie before it. The oldest `most` deferred
 * blocks are looked at. False: none became idle. The caller holds no lock.
 */
bool gp_drain_by_own_context(gp_engine_t *engine, gp_device_t *device, unsigned most);

/* All of the device in one go, for a look at one moment. The caller holds the device's lock. */
void gp_drain_locked(gp_engine_t *engine, gp_device_t *device);

#endif
