/*
 * Serves a miss with more memory from the driver: with pool type segment, by a new segment, from which the
 * request is cut; with mapped memory (type vmm, and stream-ordered requests), by mapping memory at the
 * request's place.
 */
#ifndef GP_POOL_SERVE_GROW_H
#define GP_POOL_SERVE_GROW_H

#include "pool/records.h"

/* A request that the pool grows for. */
typedef struct gp_need {
  gp_context_t *context; /* context of the request */
  gp_context_t *arena;   /* the record that grows: the context, or device->async_context */
  uint64_t requested;    /* bytes */
  uint64_t bytes;        /* bytes, rounded up */
  uint64_t stream;       /* stream of the request; 0: none, and the context is current in the thread */
} gp_need_t;

/*
 * Serves a request from a new segment. segment.h decides the segment's size. If that would leave too little
 * of the device or of the limit, the size is `bytes` rounded up to GP_SEGMENT_STEP, or just `bytes`. Returns
 * the driver's code; *by_limit is true if the limit refused. On failure *ret_address is untouched. If the
 * host has no memory for the records, the program gets a forwarded allocation, whose free goes to the driver.
 * The caller holds no lock.
 */
int gp_grow(gp_engine_t *engine, const gp_need_t *need, bool *by_limit, uint64_t *ret_address);

/*
 * Allocates an idle segment of `bytes`, a multiple of GP_SEGMENT_STEP, from the driver. Returns the driver's
 * code, or the driver's code for out of memory if the limit (*by_limit) or the host refuses. The context is
 * current in the calling thread, which cannot be cancelled and holds no lock.
 */
int gp_grow_ahead(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool *by_limit);

/* Returns true if the device and the limit have enough left after `size` bytes more. Uses the driver's
 * last figures for the device, and queries the driver if these are old. The caller holds no lock. */
bool gp_grow_leaves_enough(gp_engine_t *engine, gp_context_t *context, uint64_t size);

/*
 * Serves a request by mapping memory at its place: new memory, or idle memory that moves there. It moves
 * memory in the cases that mapped.h names, and before it returns a refusal of the driver or of the limit. If
 * the arena has no range, or the range no place, it calls gp_grow; for device->async_context it returns
 * code_not_ready instead. Parameters and result are those of gp_grow, except that it also returns out of
 * memory if the host has no memory for the records. On failure no memory has moved.
 */
int gp_grow_mapped(gp_engine_t *engine, const gp_need_t *need, bool *by_limit, uint64_t *ret_address);

/* Does what gp_grow_ahead does, but with mapped memory: bytes is a multiple of GP_CHUNK_STEP. Chunks have
 * the size for a pool of `held` reserved bytes. */
int gp_grow_mapped_ahead(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t held, bool *by_limit);

#endif
