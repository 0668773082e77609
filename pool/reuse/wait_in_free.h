/*
 * Waits for the device inside the program's cudaFree, which natively may wait, too: "may perform implicit
 * synchronization" (cuda.h at cuMemFree). Without them a program that never synchronizes runs ahead of the
 * device, and what it frees piles up.
 *
 * A free that leaves more deferred in its context than GPUPOOL_MAX_DEFERRED, or than half of what is left for
 * the program, waits until the oldest of that is
 * complete and half of the bound remains. It asks fences, with pauses in between, holds nothing, and leaves
 * the device its newer work. After LONGEST_POLL_NS it waits in the driver, as mode `strict` does in each
 * free: exactly as the program's own free would.
 *
 * - It waits for work of its own context only, from before the call. Where only another context keeps the
 *   memory from being complete, it does not wait: nor does cudaFree natively (doc/gpu-results.md, G13).
 * - A capture that begins, an error, and the end of pooling end the wait.
 * - Where the driver's own free turns out not to wait, no free waits from then on.
 * - Frees in the order of a stream, frees of memory of cudaMallocAsync and the last holder's release do not
 *   wait. doc/waits.md has the reasons.
 *
 * Any thread; the caller holds no lock unless a comment says otherwise. Bytes.
 */
#ifndef GP_POOL_REUSE_WAIT_IN_FREE_H
#define GP_POOL_REUSE_WAIT_IN_FREE_H

#include "pool/engine_record.h"

/* A cudaFree after which the context has so many bytes deferred is to wait. The caller holds the device's
 * lock. */
bool gp_wait_in_free_is_beyond(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* The same for what is deferred now, and `more`. */
static inline bool gp_wait_in_free_is_due(gp_engine_t *engine, gp_context_t *context, uint64_t more)
{
  uint64_t bytes = context->deferred_bytes + more;
  return bytes > engine->least_bound && gp_wait_in_free_is_beyond(engine, context, bytes);
}

/* Waits. block: the one just freed, which was block_id. Returns what cudaFree returns: an error that stays,
 * as the driver's free would, or 0. */
int gp_wait_in_free(gp_engine_t *engine, gp_context_t *context, gp_block_t *block, uint64_t block_id);

/* In a cudaFree that finds memory which should go back, but the device busy: waits as the driver's free
 * would, if that is work of the free's own context. True: the device is quiet now. */
bool gp_wait_in_free_for_quiet(gp_engine_t *engine, gp_context_t *context);

/* Mode `strict`: waits for all work that the driver's own free would wait for. Returns the same. */
int gp_free_strictly(gp_engine_t *engine, gp_context_t *context, gp_block_t *block, uint64_t block_id);

/* Has the driver free a little memory in place of a block, with whatever that call waits for or refuses.
 * Returns the driver's code; out of memory also where the limit has no room. */
int gp_free_a_little(gp_engine_t *engine, gp_context_t *context);

#endif
