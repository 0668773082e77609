/*
 * What is at an address inside the segments of the pool, whose holes the address map does not know.
 */
#ifndef GP_POOL_CUT_MEMORY_H
#define GP_POOL_CUT_MEMORY_H

#include "pool/state.h"

/*
 * The block of cut memory in which address lies, idle ones included, with its device's lock held, or NULL
 * with no lock.
 */
gp_block_t *gp_cut_find_and_lock(gp_engine_t *engine, uint64_t address);

#endif
