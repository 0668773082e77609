/* Type vmm, and stream-ordered memory, at a miss: maps memory at the request's place; the memory is new, or
 * moves there from where nothing uses it. */
#ifndef GP_POOL_SERVE_GROW_MAPPED_H
#define GP_POOL_SERVE_GROW_MAPPED_H

#include "pool/serve/grow.h"

/*
 * As gp_grow, which takes over if the arena has no range or the range no place; for device->ordered the
 * result is then code_not_ready. Moves memory
 * instead of making more where mapped_policy.h says so, and before it returns a refusal of the driver
 * or of the limit. On failure all memory is where it was. It also returns out of memory if the host
 * has no memory for the records.
 */
int gp_grow_mapped(gp_engine_t *engine, const gp_need_t *need, bool *by_limit, uint64_t *ret_address);

/* As gp_grow_ahead, with mapped memory: bytes is a multiple of GP_CHUNK_STEP. Chunks are as large as suits
 * a pool that holds `held` bytes. */
int gp_grow_mapped_ahead(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t held, bool *by_limit);

#endif
