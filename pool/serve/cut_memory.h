/* Look-up of addresses inside the pool's segments: the address map does not know the holes in segments. */
#ifndef GP_POOL_SERVE_CUT_MEMORY_H
#define GP_POOL_SERVE_CUT_MEMORY_H

#include "pool/records.h"

/* The block that starts at address, whole or a part, with its device's lock held. NULL, with no lock held:
 * there is none, or it is on its way to the driver. */
gp_block_t *gp_find_and_lock(gp_engine_t *engine, uint64_t address);

/* The block of cut memory that contains address, idle blocks included, with its device's lock held. NULL,
 * with no lock held: there is none. */
gp_block_t *gp_cut_find_and_lock(gp_engine_t *engine, uint64_t address);

#endif
