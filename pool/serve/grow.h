/*
 * Type segment at a miss: the pool grows by a segment, from which the request is cut.
 */
#ifndef GP_POOL_SERVE_GROW_H
#define GP_POOL_SERVE_GROW_H

#include "pool/records.h"

/* A request that the pool grows for. */
typedef struct gp_need {
  gp_context_t *context; /* of the request */
  gp_context_t *arena;   /* that grows: the context, or device->ordered */
  uint64_t requested;    /* bytes */
  uint64_t bytes;        /* with rounding */
  uint64_t stream; /* in which the program asks for it; 0: none, and the context is current in the thread */
} gp_need_t;

/*
 * Serves a request. segment.h decides how large the segment is. If that would leave too
 * little of the device or of the limit, it is `bytes` rounded to GP_SEGMENT_STEP, or just `bytes`.
 * Returns the driver's code; *by_limit: the limit refused. On failure *ret_address is untouched. If
 * the host has no memory for the records, the program gets an untracked allocation, which the driver
 * will free. The caller holds no lock.
 */
int gp_grow(gp_engine_t *engine, const gp_need_t *need, bool *by_limit, uint64_t *ret_address);

/*
 * Takes a segment of `bytes`, a multiple of GP_SEGMENT_STEP, from the driver, all of it idle. Returns the
 * driver's code, or its code for out of memory where the limit (*by_limit) or the host refuses. The context
 * is current in the calling thread, which cannot be cancelled and holds no lock.
 */
int gp_grow_ahead(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool *by_limit);

/* The device has enough left after `size` bytes more, and so has the limit. Goes by the driver's last word
 * on the device, and asks the driver if that word is old. The caller holds no lock. */
bool gp_grow_leaves_enough(gp_engine_t *engine, gp_context_t *context, uint64_t size);

/* Type vmm, and stream-ordered memory, at a miss: maps memory at the request's place; the memory is new, or
 * moves there from where nothing uses it. */

/*
 * As gp_grow, which takes over if the arena has no range or the range no place; for device->ordered the
 * result is then code_not_ready. Moves memory
 * instead of making more where mapped.h says so, and before it returns a refusal of the driver
 * or of the limit. On failure all memory is where it was. It also returns out of memory if the host
 * has no memory for the records.
 */
int gp_grow_mapped(gp_engine_t *engine, const gp_need_t *need, bool *by_limit, uint64_t *ret_address);

/* As gp_grow_ahead, with mapped memory: bytes is a multiple of GP_CHUNK_STEP. Chunks are as large as suits
 * a pool that holds `held` bytes. */
int gp_grow_mapped_ahead(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t held, bool *by_limit);

#endif
