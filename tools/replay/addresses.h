/*
 * Addresses of a device on paper, handed out as devices do: what was given back is handed out again. It
 * matters to memory that is cut, since the pool serves requests from the lowest address that fits.
 *
 * Invariants: free ranges are not empty, do not overlap or touch, and end below `next`; `sizes` has them
 * sorted by size, then by address, and both maps have each of them.
 */
#ifndef GP_TOOLS_REPLAY_ADDRESSES_H
#define GP_TOOLS_REPLAY_ADDRESSES_H

#include "tools/read/block_map.h"

typedef struct gp_address_range {
  uint64_t size; /* bytes */
  uint64_t begin;
} gp_address_range_t;

typedef struct gp_addresses {
  gp_address_range_t *sizes;
  size_t count;
  gp_block_map_t by_begin; /* size: the range's */
  gp_block_map_t by_end;   /* the same */
  uint64_t next;           /* all addresses from here on are free */
} gp_addresses_t;

/* The begin of the smallest free range that is large enough, the lowest of equal ones; else `next`. */
uint64_t gp_addresses_take(gp_addresses_t *addresses, uint64_t bytes);

/* Without memory of the host the range is not handed out again. */
void gp_addresses_give(gp_addresses_t *addresses, uint64_t begin, uint64_t bytes);

void gp_addresses_fini(gp_addresses_t *addresses);

#endif
