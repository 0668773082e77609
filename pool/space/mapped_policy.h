/*
 * Type vmm: how large a chunk is made, and where a request has its place. doc/memory-types.md has the figures
 * behind the constants. Sizes in bytes. The caller holds the device's lock unless a comment says otherwise.
 * Uses: segment.h, chunks.h.
 */
#ifndef GP_POOL_SPACE_MAPPED_POLICY_H
#define GP_POOL_SPACE_MAPPED_POLICY_H

#include "pool/state.h"

/* Bytes of a new chunk when so many bytes are held, the request's own included: a power of two. No lock. */
uint64_t gp_mapped_chunk_size(uint64_t held);

/* More is held after growing by `bytes` than use, `need` bytes more than now, has ever needed: memory should
 * move. */
bool gp_mapped_should_move(const gp_device_t *device, uint64_t need, uint64_t bytes);

/* Where a request could be served after some mapping. */
typedef struct gp_place {
  gp_block_t *first; /* in which it begins: idle or unmapped, as all that follow up to its end */
  uint64_t address;
  uint64_t missing; /* bytes to be mapped, in multiples of GP_CHUNK_STEP */
} gp_place_t;

/*
 * The place for `bytes` at which least is missing, the lowest of equals, over idle blocks whose free_epoch is
 * newest or less. False: the range has none. Looks at every block.
 */
bool gp_mapped_place(const gp_range_t *range, uint64_t bytes, uint64_t newest, gp_place_t *ret_place);

/* The same for memory that is made ahead of need: the lowest place where all of it is missing. */
bool gp_mapped_place_ahead(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place);

#endif
