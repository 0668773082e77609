/*
 * Waits for the device inside the program's cudaFree, which natively may wait, too: "may perform implicit
 * synchronization" (cuda.h at cuMemFree). Otherwise a program that never synchronizes would run ahead of the
 * device, and its freed memory would pile up.
 *
 * A free that leaves more deferred in its context than GPUPOOL_MAX_DEFERRED, or than half of what is left for
 * the program, waits until the oldest of that memory is complete and half of the bound remains. It queries
 * fences, with pauses in between, holds no lock, and does not wait for newer work. After LONGEST_POLL_NS it
 * waits in the driver, as every free does in mode `strict`: exactly as the program's own free would.
 *
 * - It waits only for work of its own context, submitted before the call. If only another context's work is
 *   pending, it does not wait, and neither does cudaFree natively (doc/gpu-results.md, G13).
 * - The wait ends when a capture begins, an error occurs, or pooling stops.
 * - If the driver's own free turns out not to wait, no free waits from then on.
 * - Frees in the order of a stream, frees of memory of cudaMallocAsync and the last holder's release do not
 *   wait. doc/waits.md has the reasons.
 *
 * Any thread; the caller holds no lock unless a comment says otherwise. Bytes.
 */
#ifndef GP_POOL_REUSE_WAIT_IN_FREE_H
#define GP_POOL_REUSE_WAIT_IN_FREE_H

#include "pool/engine_record.h"

/* True if a cudaFree has to wait after which the context has so many bytes deferred. The caller holds the
 * device's lock. */
bool gp_wait_in_free_is_beyond(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* The same for the bytes that are deferred now plus `more`. */
static inline bool gp_wait_in_free_is_due(gp_engine_t *engine, gp_context_t *context, uint64_t more)
{
  uint64_t bytes = context->deferred_bytes + more;
  return bytes > engine->least_bound && gp_wait_in_free_is_beyond(engine, context, bytes);
}

/* Waits. block: the one just freed, with its block_id. Returns the result for cudaFree: a sticky error, which
 * the driver's free would return, too, or 0. */
int gp_wait_in_free(gp_engine_t *engine, gp_context_t *context, gp_block_t *block, uint64_t block_id);

/* Called in a cudaFree that finds memory to release, but the device busy: waits as the driver's free would,
 * if the work is of the free's own context. True: the device is quiet now. */
bool gp_wait_in_free_for_quiet(gp_engine_t *engine, gp_context_t *context);

/* Mode `strict`: waits for all work that the driver's own free would wait for. Returns as gp_wait_in_free. */
int gp_free_strictly(gp_engine_t *engine, gp_context_t *context, gp_block_t *block, uint64_t block_id);

/* Allocates a little memory and frees it by the driver, which waits and fails as the free of a block would.
 * Returns the driver's code, which is out of memory also if the limit has no room. */
int gp_free_a_little(gp_engine_t *engine, gp_context_t *context);

#endif
