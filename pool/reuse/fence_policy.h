/*
 * Decides when the pool records and queries fences. The purpose is to know which work the device has
 * completed before memory is short. test/bench/bench_fences.c measures the benefit and the cost; doc/reuse.md
 * has the results.
 *
 * Any thread may call. The caller holds no lock unless a comment says otherwise. Sizes are in bytes.
 */
#ifndef GP_POOL_REUSE_FENCE_POLICY_H
#define GP_POOL_REUSE_FENCE_POLICY_H

#include "pool/reuse/stamps.h"

/* The fence to record after a free. */
typedef enum gp_fence_wish {
  GP_FENCE_NONE,
  GP_FENCE_AHEAD,  /* records early, so that the pool can soon reuse the memory */
  GP_FENCE_NEEDED, /* needed, because a later wait must distinguish work before the free from newer work */
} gp_fence_wish_t;

#define GP_FENCED_LEAST (2 * GP_MIB) /* freed bytes for which a fence is worth its cost */

/* The out-of-line part of gp_fence_policy_judge, called if enough was freed to be worth a fence. `live` is
 * the number of bytes in use before the free. */
gp_fence_wish_t gp_fence_policy_judge_much(
    const gp_engine_t *engine, const gp_context_t *context, uint64_t live, uint64_t now_ns);

/* Returns true if a future free of the block, which is in use, will need a fence. The caller holds the
 * device's lock. */
bool gp_fence_policy_needs(const gp_engine_t *engine, const gp_block_t *block);

/*
 * Returns true if the program's free of this block must be forwarded to the driver. This happens only on a
 * driver without fences, where only the program's own synchronizations prove that work is complete. The free
 * is forwarded if it would defer more than GPUPOOL_MAX_DEFERRED allows, or if the device is nearly full and a
 * later allocation may need the block. is_async: the free is stream-ordered, so without the library no
 * allocation would wait for the stream. The caller holds the device's lock.
 */
bool gp_fence_policy_refuses(const gp_engine_t *engine, const gp_block_t *block, bool is_async);

/* Returns the fence to record for the free of a block that has just become deferred. The caller holds the
 * device's lock. */
static inline gp_fence_wish_t gp_fence_policy_judge(
    const gp_engine_t *engine, const gp_block_t *block, uint64_t now_ns)
{
  gp_device_t *device = block->context->device;
  const gp_stats_t *stats = gp_device_stats(device);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_assert_internal(block->state == GP_STATE_DEFERRED);
  /* Do not count blocks that have left the queue, or blocks in the queue whose work is complete. */
  if (device->newest_free_epoch <= gp_covered(engine))
    device->freed_since_fence = 0;
  device->newest_free_epoch = block->free_epoch;
  device->freed_since_fence += block->size;
  if (device->freed_since_fence > stats->deferred_bytes.current && /* the exact sum is needed only now */
      device->freed_since_fence > gp_device_pending(device))
    device->freed_since_fence = gp_device_pending(device);
  if (device->freed_since_fence < GP_FENCED_LEAST)
    return GP_FENCE_NONE;
  return gp_fence_policy_judge_much(
      engine, block->context, stats->allocated_bytes.current + block->size, now_ns);
}

/*
 * Records the fence for a free; `wish` is not GP_FENCE_NONE. Blocks whose work is found to be complete become
 * idle. `waits`: the program's own call could have waited for the pending work. Work before a cudaFreeAsync
 * may need the calling thread to continue. So a later allocation must not wait for that work as it may for
 * work before a cudaFree.
 */
void gp_fence_policy_note_free(
    gp_engine_t *engine, const gp_device_t *device, gp_fence_wish_t wish, bool waits);

/* Called after a miss in the class. Polls fences if that may provide a block for the request. With is_cut,
 * the request needs a part of a segment. Returns false if it did not poll. */
bool gp_fence_policy_ask(gp_engine_t *engine, gp_context_t *context, uint64_t class_bytes, bool is_cut);

#endif
