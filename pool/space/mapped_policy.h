/*
 * Type vmm: the size of new chunks, and the place of a request. doc/memory-types.md has the figures
 * behind the constants. Sizes in bytes. The caller holds the device's lock unless a comment says
 * otherwise.
 */
#ifndef GP_POOL_SPACE_MAPPED_POLICY_H
#define GP_POOL_SPACE_MAPPED_POLICY_H

#include "pool/records.h"

/* Bytes by which the pool grows at once, if the context then holds `held` (gp_segment_held): a power of two,
 * of GP_CHUNK_STEP at least. Takes no lock. */
uint64_t gp_mapped_growth(uint64_t held);

/* The most bytes of a new chunk for a request, likewise: a multiple of GP_CHUNK_STEP. Takes no lock. */
uint64_t gp_mapped_chunk_size(uint64_t held, uint64_t request);

/* After growing by `bytes` the pool would hold more than its use has ever needed, even if that is `need`
 * bytes more than now: so it should move memory. The more chunks have moved twice, the more it may hold. */
bool gp_mapped_should_move(const gp_device_t *device, uint64_t need, uint64_t bytes);

/* A place for a request, where some memory must first be mapped. */
typedef struct gp_place {
  gp_block_t *first; /* has the beginning; all blocks up to the end are idle or unmapped */
  uint64_t address;
  uint64_t missing; /* bytes to be mapped, in multiples of GP_CHUNK_STEP */
} gp_place_t;

/* The place for `bytes` that needs least mapping, of equals the lowest. It may cover idle blocks.
 * False: the range has none. Looks at every block. */
bool gp_mapped_place(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place);

/* The same for memory made ahead of need: the lowest place that has no memory at all. */
bool gp_mapped_place_ahead(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place);

#endif
