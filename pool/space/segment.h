/*
 * Segments, driver allocations that are cut into blocks: splitting blocks, joining neighbours, and their
 * idle memory. Sizes in bytes, multiples of GP_CUT_GRANULE. The caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_SEGMENT_H
#define GP_POOL_SPACE_SEGMENT_H

#include "pool/space/block_record.h"

/* The block is all of its segment. */
static inline bool gp_segment_is_whole(const gp_block_t *block)
{
  return block->size == block->segment->size;
}

/* Adds a segment that the driver gave; its address, size and context are set. `block`, with the same
 * values, covers all of it, and has no state yet. */
void gp_segment_add(gp_segment_t *segment, gp_block_t *block);

/* The driver has the segment back, which has this one block: detaches the block. The
 * caller owns both records. */
void gp_segment_remove(gp_segment_t *segment, gp_block_t *block);

/*
 * Takes a block of at least `bytes` from the context's open segments: the low end of an idle block,
 * whose rest stays idle. More than `bytes` only if the host has no memory for a record of the rest. NULL: no
 * idle block is large enough.
 */
gp_block_t *gp_segment_take(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* A block in no bin keeps its low `bytes`; the rest becomes idle, unless the host has
 * no memory for its record. */
void gp_segment_shrink(gp_engine_t *engine, gp_block_t *block, uint64_t bytes);

/* Makes a block of a segment idle and joins it with its idle neighbours. Returns the joined block, in the
 * same record. It has the highest free_epoch of its parts. */
gp_block_t *gp_segment_enter_idle(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns);

/* The block of the same segment right above this one, or right below; NULL: there is none. */
gp_block_t *gp_segment_above(const gp_block_t *block);
gp_block_t *gp_segment_below(const gp_block_t *block);

/* The block, in no bin, keeps its low `bytes`; the rest, in no bin either, has the block's state. */
void gp_segment_split(gp_block_t *block, uint64_t bytes, gp_block_t *rest);

/* The block takes over a neighbour, whose record is recycled. Both are in no bin. */
void gp_segment_join(gp_engine_t *engine, gp_block_t *block, gp_block_t *neighbour);

/* Bytes of a block that could go back to the driver if it were idle. */
uint64_t gp_segment_releasable(const gp_block_t *block);

/* Takes an idle block out of the bins, unchanged. */
void gp_segment_leave_idle(gp_block_t *block);

/* From now on the pool hands out no block of the segment. */
void gp_segment_close(gp_segment_t *segment);

/* gp_segment_at: the context's segment that contains address, or NULL. gp_segment_block_at: its block that
 * contains address, never NULL. */
gp_segment_t *gp_segment_at(const gp_context_t *context, uint64_t address);
gp_block_t *gp_segment_block_at(const gp_segment_t *segment, uint64_t address);

/* Bytes of the context's segments and of its mapped memory, in use or not. */
uint64_t gp_segment_held(const gp_context_t *context);

/*
 * How much of the context's idle memory allocations can get, and of its deferred memory once that is idle.
 * *ret_whole: bytes of whole segments, whole chunks and whole blocks, which can also go back to the driver;
 * not of small blocks that may share pages with memory in use.
 * *ret_largest: bytes of the largest piece of an open segment or of a range. Looks at every block.
 */
void gp_segment_measure(const gp_context_t *context, uint64_t *ret_whole, uint64_t *ret_largest);

/* Checks the invariants of the context's segments and of their bins; prints each mismatch. */
bool gp_segment_check(const gp_context_t *context);

/*
 * Type segment: the size of new segments, and when a free segment is one too many. doc/memory-types.md has
 * the figures behind the constants. Sizes in bytes. The caller holds the device's lock unless a comment
 * says otherwise.
 */

/* Segment sizes are multiples of this, unless a limit leaves less. */
#define GP_SEGMENT_STEP (2 * GP_MIB)

/*
 * Bytes of a new segment for a request of `bytes`, when the context holds `held` (gp_segment_held); 0 if that
 * overflows. No lock.
 */
uint64_t gp_segment_size(uint64_t held, uint64_t bytes);

/* By how many bytes the pool holds more parts of segments than use has ever needed, slack included. */
uint64_t gp_segment_spare_bytes(const gp_device_t *device);

/* The context's idle segment that should go back because of these bytes; NULL: no segment is idle. */
gp_block_t *gp_segment_spare(gp_context_t *context);

/*
 * spared: the whole segment is on its way to the driver. Such releases come to an end, since each one allows
 * more slack. If the pool grows by as much again, it needed the memory after all, for idle memory may be in
 * pieces; from then on it holds that much. note_growth: the driver gave the segment, which no statistic
 * counts as cached or active yet.
 */
void gp_segment_spared(gp_device_t *device, const gp_block_t *block);
void gp_segment_note_growth(gp_device_t *device, const gp_block_t *block);

#endif
