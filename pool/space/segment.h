/*
 * Segments are driver allocations that are split into blocks. These functions split blocks, join neighbours,
 * and manage the idle memory of segments. Sizes are in bytes, multiples of GP_CUT_GRANULE. The caller holds
 * the device's lock.
 */
#ifndef GP_POOL_SPACE_SEGMENT_H
#define GP_POOL_SPACE_SEGMENT_H

#include "pool/space/block_record.h"

/* Returns true if the block is its whole segment. */
static inline bool gp_segment_is_whole(const gp_block_t *block)
{
  return block->size == block->segment->size;
}

/* Adds a new segment from the driver, whose address, size and context are set. `block`, with the same values,
 * covers the whole segment, and has no state yet. */
void gp_segment_add(gp_segment_t *segment, gp_block_t *block);

/* Removes a segment that the driver has freed, and detaches its only block. The caller then owns both
 * records. */
void gp_segment_remove(gp_segment_t *segment, gp_block_t *block);

/*
 * Takes the low `bytes` of an idle block in the context's open segments; the rest stays idle. If the host has
 * no memory for a record of the rest, takes the whole block. Returns NULL if no idle block is large enough.
 */
gp_block_t *gp_segment_take(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* Shrinks a block, which is in no bin, to its low `bytes`. The rest becomes idle. If the host has no memory
 * for a record of the rest, nothing changes. */
void gp_segment_shrink(gp_engine_t *engine, gp_block_t *block, uint64_t bytes);

/* Makes a block of a segment idle and joins it with its idle neighbours. Returns the joined block, which is
 * in the same record. Its free_epoch is the highest of its parts. */
gp_block_t *gp_segment_enter_idle(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns);

/* Return the adjacent block of the same segment at the next higher or lower address, or NULL. */
gp_block_t *gp_segment_above(const gp_block_t *block);
gp_block_t *gp_segment_below(const gp_block_t *block);

/* Splits a block, which is in no bin, after its low `bytes`. `rest` is then in no bin and has the state of
 * the block. */
void gp_segment_split(gp_block_t *block, uint64_t bytes, gp_block_t *rest);

/* Joins a neighbour to the block and recycles the neighbour's record. Both must be in no bin. */
void gp_segment_join(gp_engine_t *engine, gp_block_t *block, gp_block_t *neighbour);

/* Returns the bytes of a block that could be released to the driver if it were idle. */
uint64_t gp_segment_releasable(const gp_block_t *block);

/* Removes an idle block from the bins; its state does not change. */
void gp_segment_leave_idle(gp_block_t *block);

/* Closes a segment: the pool no longer allocates blocks from it. */
void gp_segment_close(gp_segment_t *segment);

/* gp_segment_at returns the context's segment that contains the address, or NULL. gp_segment_block_at returns
 * the block of the segment that contains the address, which always exists. */
gp_segment_t *gp_segment_at(const gp_context_t *context, uint64_t address);
gp_block_t *gp_segment_block_at(const gp_segment_t *segment, uint64_t address);

/* Returns the bytes of the context's segments and of its mapped memory, whether in use or not. */
uint64_t gp_segment_held(const gp_context_t *context);

/*
 * Measures the context's free memory, idle or still deferred. *ret_whole is the bytes of whole segments,
 * whole chunks and whole blocks, which can be released to the driver. It excludes small blocks, which may
 * share pages with memory in use. *ret_largest is the bytes of the largest free piece of an open segment or
 * of a range. Visits every block.
 */
void gp_segment_measure(const gp_context_t *context, uint64_t *ret_whole, uint64_t *ret_largest);

/* Returns true if the invariants of the context's segments and of their bins hold. Prints each mismatch. */
bool gp_segment_check(const gp_context_t *context);

/*
 * Pool type segment: the size of new segments, and when to release a free segment. doc/memory-types.md
 * explains the constants. Sizes are in bytes. The caller holds the device's lock unless a comment says
 * otherwise.
 */

/* Segment sizes are multiples of this size, unless a limit leaves less. */
#define GP_SEGMENT_STEP (2 * GP_MIB)

/*
 * Returns the bytes of a new segment for a request of `bytes` when the context has reserved `held` bytes
 * (gp_segment_held). Returns 0 on overflow. Needs no lock.
 */
uint64_t gp_segment_size(uint64_t held, uint64_t bytes);

/* Returns the bytes by which the parts of segments exceed the highest use plus slack. */
uint64_t gp_segment_spare_bytes(const gp_device_t *device);

/* Returns the context's idle segment to release because of gp_segment_spare_bytes, or NULL. */
gp_block_t *gp_segment_spare(gp_context_t *context);

/*
 * gp_segment_spared records that a spare segment is being released. Each such release increases the slack, so
 * that releases stop at some point. gp_segment_note_growth records a new segment, which no statistic counts
 * as cached or active yet. If the pool grows by as much as it has released, it needed the memory after all,
 * because idle memory may be fragmented. From then on it keeps that much.
 */
void gp_segment_spared(gp_device_t *device, const gp_block_t *block);
void gp_segment_note_growth(gp_device_t *device, const gp_block_t *block);

#endif
