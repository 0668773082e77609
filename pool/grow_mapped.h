/*
 * Type vmm at a miss: memory is mapped where the request is to be, made anew or moved from where nothing uses
 * it. Uses: grow.h, map_range.h, map_steps.h, space/.
 */
#ifndef GP_POOL_GROW_MAPPED_H
#define GP_POOL_GROW_MAPPED_H

#include "pool/state.h"

/*
 * As gp_grow, which takes over where the context has no range, or the range no place. Memory moves rather
 * than more is made where mapped_policy.h says so, and before the driver's or the limit's refusal is the
 * answer. On failure all memory is where it was. Where the host has no memory for records that is out of
 * memory, too.
 */
int gp_grow_mapped(gp_engine_t *engine, gp_context_t *context, uint64_t requested, uint64_t bytes,
    bool *by_limit, uint64_t *ret_address);

/*
 * As gp_grow_ahead, mapped: bytes is a multiple of GP_CHUNK_STEP. It is made in chunks as large as suit a
 * pool that holds `held` bytes.
 */
int gp_grow_mapped_ahead(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t held, bool *by_limit);

#endif
