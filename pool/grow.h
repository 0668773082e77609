/*
 * Type segment at a miss: the pool grows by a segment, from which the request is cut. Uses: limit.h,
 * driver_calls.h, space/.
 */
#ifndef GP_POOL_GROW_H
#define GP_POOL_GROW_H

#include "pool/state.h"

/*
 * Serves a request of `requested` bytes, `bytes` with rounding, in the context, which is current in the
 * calling thread. The segment is as large as segment_policy.h says; where that would leave too little of the
 * device or of the limit, `bytes` rounded to GP_SEGMENT_STEP, or just `bytes`. Returns the driver's code;
 * *by_limit: the limit refused. On failure *ret_address is untouched. Where the host has no memory for the
 * records, the program gets an untracked allocation, whose free will be the driver's. The caller holds no
 * lock.
 */
int gp_grow(gp_engine_t *engine, gp_context_t *context, uint64_t requested, uint64_t bytes, bool *by_limit,
    uint64_t *ret_address);

/*
 * A segment of `bytes`, a multiple of GP_SEGMENT_STEP, is taken from the driver and is idle. Returns the
 * driver's code, or that of out of memory where the limit (*by_limit) or the host refuses. The context is
 * current in the calling thread, which cannot be cancelled; it holds no lock.
 */
int gp_grow_ahead(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool *by_limit);

/*
 * The device has enough left after `size` bytes more, by the driver's word on it, which is asked for if it is
 * old; and the limit has, too. The caller holds no lock.
 */
bool gp_grow_leaves_enough(gp_engine_t *engine, gp_context_t *context, uint64_t size);

#endif
