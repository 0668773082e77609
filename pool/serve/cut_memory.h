/* Finds the block at an address inside a segment. The address map does not contain the idle parts of
 * segments. */
#ifndef GP_POOL_SERVE_CUT_MEMORY_H
#define GP_POOL_SERVE_CUT_MEMORY_H

#include "pool/records.h"

/* Returns the block that starts at `address`, whether a whole allocation or a part, with its device's lock
 * held. Returns NULL, with no lock held, if there is none, or if the block is being released to the driver.
 */
gp_block_t *gp_find_and_lock(gp_engine_t *engine, uint64_t address);

/* Returns the block of cut memory that contains `address`, with its device's lock held. The block may be
 * idle. Returns NULL, with no lock held, if there is none. */
gp_block_t *gp_cut_find_and_lock(gp_engine_t *engine, uint64_t address);

#endif
