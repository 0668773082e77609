/*
 * When fences are recorded and asked, so that what the device has finished is known before memory is short.
 * test/bench/bench_fences.c measures what that saves and costs; doc/reuse.md has the figures.
 *
 * Any thread; the caller holds no lock unless a comment says otherwise. Bytes. Uses: reclaim.h, limit.h,
 * reuse/fences.h, reuse/known_streams.h.
 */
#ifndef GP_POOL_FENCE_POLICY_H
#define GP_POOL_FENCE_POLICY_H

#include "pool/reuse/stamps.h"

/* What a free asks for. */
typedef enum gp_fence_wish {
  GP_FENCE_NONE,
  GP_FENCE_AHEAD,  /* so that its memory is used again soon */
  GP_FENCE_NEEDED, /* so that work from before it can be told from later work when memory runs out */
} gp_fence_wish_t;

#define GP_FENCED_LEAST (2 * GP_MIB) /* that is freed, before a fence is worth its price */

/* For gp_fence_policy_judge: so much was freed; live: bytes that were live before. */
gp_fence_wish_t gp_fence_policy_judge_much(
    const gp_engine_t *engine, gp_device_t *device, uint64_t live, uint64_t now_ns);

/* The free of the block, which the program has, will need a fence. The caller holds the device's lock. */
bool gp_fence_policy_needs(const gp_engine_t *engine, const gp_block_t *block);

/* The program freed the block, which is deferred now. The caller holds the device's lock. */
static inline gp_fence_wish_t gp_fence_policy_judge(
    const gp_engine_t *engine, const gp_block_t *block, uint64_t now_ns)
{
  gp_device_t *device = block->context->device;
  const gp_stats_t *stats = gp_device_stats(device);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_assert_internal(block->state == GP_STATE_DEFERRED);
  /* What is known to be complete does not count: all of it, and what has left the queue. */
  if (device->newest_free_epoch <= gp_covered(engine))
    device->freed_since_fence = 0;
  device->newest_free_epoch = block->free_epoch;
  device->freed_since_fence += block->size;
  if (device->freed_since_fence > stats->deferred_bytes.current)
    device->freed_since_fence = stats->deferred_bytes.current;
  if (device->freed_since_fence < GP_FENCED_LEAST)
    return GP_FENCE_NONE;
  return gp_fence_policy_judge_much(engine, device, stats->allocated_bytes.current + block->size, now_ns);
}

/*
 * In that free, with its wish, which is not NONE. What is found to be complete is idle then. waits: the
 * program's own call could have waited for the work that is pending. Work before a cudaFreeAsync may need the
 * calling thread to go on, so no later allocation may wait for it as for work before a cudaFree.
 */
void gp_fence_policy_note_free(
    gp_engine_t *engine, const gp_device_t *device, gp_fence_wish_t wish, bool waits);

/*
 * At a miss of a block of that class, is_cut: of a part of a segment: asks the driver what the device has
 * finished, where the answer may serve it. False: it does not ask.
 */
bool gp_fence_policy_ask(gp_engine_t *engine, gp_context_t *context, uint64_t class_bytes, bool is_cut);

#endif
