/*
 * Allocates block records from slabs and recycles them. Frees them only when the engine ends, so that a free
 * that races with the end of its block never reads freed memory. Any thread may call. The caller may hold the
 * device's lock.
 */
#ifndef GP_POOL_SPACE_BLOCK_SLAB_H
#define GP_POOL_SPACE_BLOCK_SLAB_H

#include "pool/records.h"

void gp_block_slab_init(gp_engine_t *engine);
void gp_block_slab_fini(gp_engine_t *engine);

gp_block_t *gp_block_slab_take(gp_engine_t *engine); /* is in no list; NULL: out of host memory */
void gp_block_slab_give(gp_engine_t *engine, gp_block_t *block);

#endif
