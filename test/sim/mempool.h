/*
 * Memory pools: what the objects (mempool.c), the allocations from them (mempool_alloc.c) and those of
 * other processes (mempool_ipc.c) share.
 */
#ifndef SIM_MEMPOOL_H
#define SIM_MEMPOOL_H

#include "sim.h"

/* held == used + the sizes of `cached` <= reserved <= max; without pieces reserved == held. */
struct CUmemPoolHandle_st {
  uint64_t id, process; /* of what other processes know it by; another process: it was imported */
  unsigned handle_types;
  bool is_default;
  bool destroyed;       /* lives on until its last allocation is freed */
  sim_device_t *device; /* NULL: in host memory, which is not charged */
  CUmemLocation location;
  uint64_t threshold, max;
  uint64_t reserved, reserved_high, held, used, used_high;
  sim_block_t *cached; /* freed, by pool_next; some frees may not have executed */
  sim_pool_t *next;
  int reuse[4];
  CUmemAccess_flags access[SIM_MAX_DEVICES]; /* of other devices than its own */
};

extern sim_pool_t *sim_pools;
sim_pool_t *sim_pool_new(CUmemLocation location);
CUresult sim_pool_check_location(CUmemLocation location);
bool sim_pool_is_imported(const sim_pool_t *pool); /* no memory is allocated from it */
void sim_pool_count(sim_pool_t *pool, const sim_block_t *block, bool is_new); /* one that is in use now */
bool sim_pool_has_pieces(const sim_pool_t *pool);
bool sim_pool_grow(sim_pool_t *pool, uint64_t bytes); /* by pieces, until so many bytes are idle */
bool sim_pool_is_usable(const sim_pool_t *pool);      /* it exists and is not destroyed */
void sim_pool_trim(sim_pool_t *pool, uint64_t keep);  /* of what is cached and whose free has executed */
void sim_pool_end_destroyed(sim_pool_t *pool); /* the same of a destroyed pool, and in the end the pool */

#endif
