/*
 * Blocks that were freed in the order of a stream and wait in their context's queue for their facts: by the
 * identity of the stream, where they may be used before (reuse/identities.h says when). The caller holds the
 * device's lock. Uses: state.h, bins.h, block.h.
 */
#ifndef GP_POOL_SPACE_ORDERED_BLOCKS_H
#define GP_POOL_SPACE_ORDERED_BLOCKS_H

#include "pool/state.h"

/*
 * Files a DEFERRED block of the stream's device with the stream in which it was freed. may_serve: later
 * requests in that stream may have it; otherwise it is among the others, for which only points of the stream
 * count (reuse/stream_points.h). Without host memory for that the block only waits for its facts.
 */
void gp_ordered_file(gp_identity_t *identity, gp_block_t *block, bool may_serve);

/* Takes a block out again, whose freed_in is not NULL: it leaves the queue, or its stream has ended. */
void gp_ordered_unfile(gp_block_t *block);

/* The block that serves best of those that are with the stream, or NULL. It stays where it is. */
gp_block_t *gp_ordered_find(const gp_identity_t *identity, const gp_fit_t *fit);

/* The same, of those that were the first `frees` to be freed in it. Not all are looked at. */
gp_block_t *gp_ordered_find_before(const gp_identity_t *identity, const gp_fit_t *fit, uint64_t frees);

/* The stream has ended: its blocks wait for their facts alone. */
void gp_ordered_unfile_all(gp_identity_t *identity);

#endif
