/*
 * Blocks that were freed in the order of a stream and wait in their context's queue for facts. Filed by the
 * identity of the stream, which may use them earlier (reuse/identities.h says when); parts of segments are
 * apart (bound_parts.h). The caller holds the device's lock.
 */
#ifndef GP_POOL_ASYNC_ORDERED_BLOCKS_H
#define GP_POOL_ASYNC_ORDERED_BLOCKS_H

#include "pool/records.h"
#include "pool/space/size_classes.h"

/*
 * Files a DEFERRED block of the stream's device with the stream in which it was freed. may_serve: later
 * requests in that stream may get the block, which is no part of a segment; otherwise it goes to `others`,
 * where only points of the stream count (reuse/stream_points.h). If the host has no memory for this, the
 * block just waits for its facts.
 */
void gp_ordered_file(gp_identity_t *identity, gp_block_t *block, bool may_serve);

/* Takes a block with a freed_in out again, because it leaves the queue or its stream has ended. */
void gp_ordered_unfile(gp_block_t *block);

/* The best block filed with the stream, or NULL. It stays filed. */
gp_block_t *gp_ordered_find(const gp_identity_t *identity, const gp_fit_t *fit);

/* The same, among the first `frees` blocks freed in the stream. Does not look at all of them. */
gp_block_t *gp_ordered_find_before(const gp_identity_t *identity, const gp_fit_t *fit, uint64_t frees);

/* The stream has ended: its blocks now only wait for facts. */
void gp_ordered_unfile_all(gp_identity_t *identity);

#endif
