/*
 * Blocks that were freed in stream order and wait in their context's queue for a completion proof. Each is
 * also linked to the record of its stream. That stream may reuse the block earlier, as described in
 * reuse/stream_records.h. Parts of segments are kept separately (bound_parts.h). The caller holds the
 * device's lock.
 */
#ifndef GP_POOL_ASYNC_STREAM_BLOCKS_H
#define GP_POOL_ASYNC_STREAM_BLOCKS_H

#include "pool/records.h"
#include "pool/space/size_classes.h"

/*
 * Links a DEFERRED block of the stream's device to the record of the stream in which it was freed. With
 * may_serve, later requests in that stream may reuse the block, which must not be a part of a segment.
 * Without may_serve, the block goes to the list `others`, and becomes reusable early only when the device has
 * passed a point of the stream (reuse/stream_points.h). If the host is out of memory, the block stays
 * unlinked and only waits for its completion proof.
 */
void gp_stream_block_add(gp_stream_record_t *stream_record, gp_block_t *block, bool may_serve);

/* Unlinks a block from the stream record in its freed_in, because the block leaves the queue or the stream
 * has ended. */
void gp_stream_block_remove(gp_block_t *block);

/* Returns the best-fitting block of the stream record, or NULL. The block remains linked to the record. */
gp_block_t *gp_stream_block_find(const gp_stream_record_t *stream_record, const gp_fit_t *fit);

/* Returns a fitting block among the first `frees` blocks freed in the stream, or NULL. The search is limited
 * to a few blocks, so it may miss one. */
gp_block_t *gp_stream_block_find_before(
    const gp_stream_record_t *stream_record, const gp_fit_t *fit, uint64_t frees);

/* Unlinks all blocks from the record of a stream that has ended. From now on the blocks only wait for a
 * completion proof. */
void gp_stream_blocks_remove_all(gp_stream_record_t *stream_record);

#endif
