/*
 * Serves a miss with more memory from the driver. With pool type segment, allocates a new segment and cuts
 * the request from it. With mapped memory (type vmm, and stream-ordered requests), maps memory at the
 * request's place.
 */
#ifndef GP_POOL_SERVE_GROW_H
#define GP_POOL_SERVE_GROW_H

#include "pool/records.h"

/* A request for which the pool grows. */
typedef struct gp_need {
  gp_context_t *context; /* context of the request */
  gp_context_t *arena;   /* record that grows: the context, or device->async_context */
  uint64_t requested;    /* requested bytes */
  uint64_t bytes;        /* requested bytes, rounded up */
  uint64_t stream;       /* stream of the request; 0: none, and the context is current in the thread */
} gp_need_t;

/*
 * Serves a request from a new segment, whose size segment.h decides. If that size would leave too little of
 * the device or of the limit, the segment has `bytes` rounded up to GP_SEGMENT_STEP, or just `bytes`. Returns
 * the driver's code; *by_limit is true if the limit refused. On failure *ret_address is untouched. If the
 * host has no memory for the records, the program gets a forwarded allocation, whose free the library also
 * forwards. The caller holds no lock.
 */
int gp_grow(gp_engine_t *engine, const gp_need_t *need, bool *by_limit, uint64_t *ret_address);

/*
 * Allocates an idle segment of `bytes`, a multiple of GP_SEGMENT_STEP, from the driver. Returns the driver's
 * code. Returns the code for out of memory if the limit refuses (*by_limit is then true) or the host has no
 * memory. The context is current in the calling thread, which cannot be cancelled and holds no lock.
 */
int gp_grow_ahead(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool *by_limit);

/* Returns true if the device and the limit have enough left after `size` more bytes are allocated. Uses the
 * driver's last report for the device, and queries the driver if the report is old. The caller holds no lock.
 */
bool gp_grow_leaves_enough(gp_engine_t *engine, gp_context_t *context, uint64_t size);

/*
 * Serves a request by mapping memory at its place: new memory, or idle memory that moves there. Moves memory
 * in the cases listed in mapped.h, and before it returns a refusal of the driver or of the limit. If the
 * arena has no range, or the range has no place, calls gp_grow; for device->async_context returns
 * code_not_ready instead. Parameters and result are those of gp_grow, except that this function also returns
 * out of memory if the host has no memory for the records. On failure no memory has moved.
 */
int gp_grow_mapped(gp_engine_t *engine, const gp_need_t *need, bool *by_limit, uint64_t *ret_address);

/* Does what gp_grow_ahead does, but with mapped memory: `bytes` is a multiple of GP_CHUNK_STEP. Chunks have
 * the size for a pool that has reserved `held` bytes. */
int gp_grow_mapped_ahead(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t held, bool *by_limit);

#endif
