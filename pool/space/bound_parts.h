/*
 * Parts of segments that the program freed in stream order (state BOUND). Later requests in that stream may
 * reuse them at once, as described in reuse/stream_records.h. Other requests may reuse them only after a
 * completion proof. So the parts of one stream are split and joined like idle memory, but separately. The
 * owner's use ends with the free: the statistics and the observer see the memory as idle, although it cannot
 * be released yet. Sizes are in bytes. The caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_BOUND_PARTS_H
#define GP_POOL_SPACE_BOUND_PARTS_H

#include "pool/records.h"

/*
 * Binds a DEFERRED part of an open segment to the stream in which the program has just freed it, and joins it
 * with its neighbours of that stream. The joined part, in the same record, has the stamp and the number of
 * this free. Returns false, without any change, if the host has no memory for the stream's bins.
 */
bool gp_bound_enter(
    gp_engine_t *engine, gp_stream_record_t *stream_record, gp_block_t *block, uint64_t now_ns);

/* Returns a part of at least `bytes` whose newest free is among the first `frees` in the stream, or NULL. The
 * part stays bound. */
gp_block_t *gp_bound_find(const gp_stream_record_t *stream_record, uint64_t bytes, uint64_t frees);

/*
 * Takes the low `bytes` of a part that is bound to a stream, and puts them into the address map; the rest
 * stays bound. Takes the whole part if the host has no memory for a record of the rest. Returns false,
 * without any change, if the host has no memory for the map's entry.
 */
bool gp_bound_take(gp_engine_t *engine, gp_block_t *block, uint64_t bytes);

/* Does what gp_bound_take does, for any BOUND part, but does not put the part into the map. Cannot fail. */
void gp_bound_take_low(gp_engine_t *engine, gp_block_t *block, uint64_t bytes);

/* Removes a BOUND part from its queue and its stream's bins, because it becomes idle or its context has
 * ended. */
void gp_bound_leave(gp_block_t *block);

/* Remove all parts of a stream that has ended, or of a segment that closes, from the bins of their stream.
 * The parts stay BOUND, and become idle only after a completion proof. */
void gp_bound_remove_all(gp_stream_record_t *stream_record);
void gp_bound_remove_segment(const gp_segment_t *segment);

#endif
