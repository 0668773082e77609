/*
 * Waits for the device inside the program's cudaFree, which may wait without the library, too: it "may
 * perform implicit synchronization" (cuda.h at cuMemFree). Otherwise a program that never synchronizes would
 * run ahead of the device, and its freed memory would accumulate.
 *
 * The bound is GPUPOOL_MAX_DEFERRED, or half of the memory that is left for the program if that is less. A
 * free that leaves more deferred memory in its context waits until the work before the oldest frees is
 * complete and only half of the bound is deferred. It queries fences, with pauses in between, holds no lock,
 * and does not wait for newer work. After LONGEST_POLL_NS it waits in the driver, exactly as the program's
 * own free would. In mode `strict` every free waits in the driver.
 *
 * - A free waits only for work of its own context that was submitted before the call. If only another context
 *   has pending work, the free does not wait, and neither does the driver's (doc/gpu-results.md, G13).
 * - The wait ends when a capture begins, an error occurs, or pooling stops.
 * - If the driver's own free turns out not to wait, no free waits from then on.
 * - Stream-ordered frees, frees of memory of cudaMallocAsync, and the release of the last reference to a
 *   block do not wait. doc/waits.md has the reasons.
 *
 * Any thread may call. The caller holds no lock unless a comment says otherwise. Sizes are in bytes.
 */
#ifndef GP_POOL_REUSE_WAIT_IN_FREE_H
#define GP_POOL_REUSE_WAIT_IN_FREE_H

#include "pool/engine_record.h"

/* Returns true if a cudaFree that leaves `bytes` deferred in the context has to wait. The caller holds the
 * device's lock. */
bool gp_wait_in_free_is_beyond(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* Does what gp_wait_in_free_is_beyond does, for the bytes that are deferred now plus `more`. */
static inline bool gp_wait_in_free_is_due(gp_engine_t *engine, gp_context_t *context, uint64_t more)
{
  uint64_t bytes = context->deferred_bytes + more;
  return bytes > engine->least_bound && gp_wait_in_free_is_beyond(engine, context, bytes);
}

/* Waits as described above. `block` is the block just freed, with its block_id. Returns the result for
 * cudaFree: 0, or a sticky error, which the driver's free would also return. */
int gp_wait_in_free(gp_engine_t *engine, gp_context_t *context, gp_block_t *block, uint64_t block_id);

/* Called in a cudaFree that finds memory to release while the device is busy. Waits as the driver's free
 * would, if only the free's own context has work. Returns true if the device is quiet now. */
bool gp_wait_in_free_for_quiet(gp_engine_t *engine, gp_context_t *context);

/* Waits for all work for which the driver's own free would wait, in mode `strict`. Returns the same results
 * as gp_wait_in_free. */
int gp_free_strictly(gp_engine_t *engine, gp_context_t *context, gp_block_t *block, uint64_t block_id);

/* Allocates a little memory in the driver and frees it. That waits and fails as the driver's free of a block
 * would. Returns the driver's code, or code_out_of_memory if the limit has no room. */
int gp_free_a_little(gp_engine_t *engine, gp_context_t *context);

#endif
