/*
 * Parts of segments that the program freed in the order of a stream (state BOUND). Later requests in that
 * stream may reuse them at once (reuse/identities.h says when), other requests only after a completion proof.
 * So the parts of one stream are cut and joined as idle memory is, but separately. The owner's use ends with
 * the free: the statistics and the observer see the memory as idle, although it cannot be released yet. Sizes
 * are in bytes. The caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_BOUND_PARTS_H
#define GP_POOL_SPACE_BOUND_PARTS_H

#include "pool/records.h"

/*
 * Binds a DEFERRED part of an open segment to the stream in whose order the program has just freed it, and
 * joins it with its neighbours of that stream. The joined part, in the same record, has the stamp and the
 * number of this free. False: the host has no memory for the stream's bins, and nothing has changed.
 */
bool gp_bound_enter(gp_engine_t *engine, gp_identity_t *identity, gp_block_t *block, uint64_t now_ns);

/* A part of at least `bytes` whose newest free is among the first `frees` in the stream; NULL: there is none.
 * It stays bound. */
gp_block_t *gp_bound_find(const gp_identity_t *identity, uint64_t bytes, uint64_t frees);

/*
 * Takes the low end of a part that is with a stream, whose rest stays there, and puts it into the map. More
 * than `bytes` only if the host has no memory for a record of the rest. False: the host has no memory for the
 * map's entry, and nothing has changed.
 */
bool gp_bound_take(gp_engine_t *engine, gp_block_t *block, uint64_t bytes);

/* The same for any BOUND part, which stays out of the map; it cannot fail. */
void gp_bound_take_low(gp_engine_t *engine, gp_block_t *block, uint64_t bytes);

/* Takes a BOUND part out of its queue and its stream's bins: it becomes idle, or its context has ended. */
void gp_bound_leave(gp_block_t *block);

/* The stream has ended, or the segment closes: the parts now only wait for facts. */
void gp_bound_unfile_all(gp_identity_t *identity);
void gp_bound_unfile_segment(const gp_segment_t *segment);

#endif
