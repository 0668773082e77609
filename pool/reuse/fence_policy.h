/*
 * Decides when the pool records and queries fences, so that it knows what the device has completed before
 * memory is short. test/bench/bench_fences.c measures what that saves and costs; doc/reuse.md has the
 * figures.
 *
 * Any thread; the caller holds no lock unless a comment says otherwise. Sizes are in bytes.
 */
#ifndef GP_POOL_REUSE_FENCE_POLICY_H
#define GP_POOL_REUSE_FENCE_POLICY_H

#include "pool/reuse/stamps.h"

/* The fence that a free asks for. */
typedef enum gp_fence_wish {
  GP_FENCE_NONE,
  GP_FENCE_AHEAD,  /* one ahead of need, so that the pool can soon reuse the memory */
  GP_FENCE_NEEDED, /* one by which a later wait can distinguish work from before the free from later work */
} gp_fence_wish_t;

#define GP_FENCED_LEAST (2 * GP_MIB) /* bytes freed before a fence is worth its cost */

/* The out-of-line part of gp_fence_policy_judge, once enough was freed to be worth a fence. live: bytes that
 * were live before the free. */
gp_fence_wish_t gp_fence_policy_judge_much(
    const gp_engine_t *engine, const gp_context_t *context, uint64_t live, uint64_t now_ns);

/* True if a free of the block, which is in use, will need a fence. The caller holds the device's lock. */
bool gp_fence_policy_needs(const gp_engine_t *engine, const gp_block_t *block);

/*
 * True if the program's free of this block has to go to the driver, as natively: on a driver without fences,
 * where only the program's own synchronizations prove that a block is complete, if otherwise more would be
 * deferred than GPUPOOL_MAX_DEFERRED allows, or if the device is nearly full and a later allocation may need
 * the block. is_ordered: a stream-ordered free, after which natively no allocation waits for the stream. The
 * caller holds the device's lock.
 */
bool gp_fence_policy_refuses(const gp_engine_t *engine, const gp_block_t *block, bool is_ordered);

/* Returns which fence a free asks for; the block has just become deferred. The caller holds the device's
 * lock. */
static inline gp_fence_wish_t gp_fence_policy_judge(
    const gp_engine_t *engine, const gp_block_t *block, uint64_t now_ns)
{
  gp_device_t *device = block->context->device;
  const gp_stats_t *stats = gp_device_stats(device);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_assert_internal(block->state == GP_STATE_DEFERRED);
  /* Blocks that left the queue, and complete blocks still in it, do not count. */
  if (device->newest_free_epoch <= gp_covered(engine))
    device->freed_since_fence = 0;
  device->newest_free_epoch = block->free_epoch;
  device->freed_since_fence += block->size;
  if (device->freed_since_fence > stats->deferred_bytes.current && /* else the sum decides nothing */
      device->freed_since_fence > gp_device_pending(device))
    device->freed_since_fence = gp_device_pending(device);
  if (device->freed_since_fence < GP_FENCED_LEAST)
    return GP_FENCE_NONE;
  return gp_fence_policy_judge_much(
      engine, block->context, stats->allocated_bytes.current + block->size, now_ns);
}

/*
 * Records the fence that the free wished for; the wish is not NONE. Blocks found complete become
 * idle. waits: the program's own call could have waited for the pending work. Work before a
 * cudaFreeAsync may need the calling thread to go on, so no later allocation may wait for that work
 * as it may for work before a cudaFree.
 */
void gp_fence_policy_note_free(
    gp_engine_t *engine, const gp_device_t *device, gp_fence_wish_t wish, bool waits);

/* At a miss of that class: asks the driver what the device has finished, if the answer may serve the miss.
 * is_cut: the block is to be a part of a segment. False: it does not ask. */
bool gp_fence_policy_ask(gp_engine_t *engine, gp_context_t *context, uint64_t class_bytes, bool is_cut);

#endif
