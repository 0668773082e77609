/*
 * Segments, driver allocations that are cut into blocks: how a block is split, how neighbours become one, and
 * what is idle in them. Sizes in bytes, multiples of GP_CUT_GRANULE. The caller holds the device's lock.
 * Uses: state.h, cut_bins.h, block_slab.h, chunks.h.
 */
#ifndef GP_POOL_SPACE_SEGMENT_H
#define GP_POOL_SPACE_SEGMENT_H

#include "pool/state.h"

/* The block is all of its segment. */
static inline bool gp_segment_is_whole(const gp_block_t *block)
{
  return block->size == block->segment->size;
}

/*
 * The driver gave a segment, whose address, size and context are set: `block`, with the same, is all of it.
 * The block is in no state yet.
 */
void gp_segment_add(gp_segment_t *segment, gp_block_t *block);

/* The driver has the segment back, whose only block that is: the block is in no segment any more. The records
 * are the caller's. */
void gp_segment_remove(gp_segment_t *segment, gp_block_t *block);

/*
 * A block of at least `bytes` out of what is idle in the context's open segments and has a free_epoch of
 * newest or less: the low end of an idle block, whose rest stays idle. More than `bytes` only if the host has
 * no memory for a record of the rest. NULL: nothing idle is large enough.
 */
gp_block_t *gp_segment_take(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t newest);

/* A block in no bin keeps its low `bytes`; the rest becomes idle, unless the host has no memory for it. */
void gp_segment_trim(gp_engine_t *engine, gp_block_t *block, uint64_t bytes);

/*
 * A block of a segment becomes idle, and one with its idle neighbours: returns that one, whose record is
 * still the block's. It carries the highest free_epoch of what it is made of.
 */
gp_block_t *gp_segment_enter_idle(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns);

/* The block of the same segment that begins where this one ends, or ends where it
 * begins; NULL: there is none. */
gp_block_t *gp_segment_above(const gp_block_t *block);
gp_block_t *gp_segment_below(const gp_block_t *block);

/* The block, in no bin, keeps its low `bytes`; the rest, in no bin either, has the block's state. */
void gp_segment_split(gp_block_t *block, uint64_t bytes, gp_block_t *rest);

/* The block takes over a neighbour, whose record is recycled. Both are in no bin. */
void gp_segment_join(gp_engine_t *engine, gp_block_t *block, gp_block_t *neighbour);

/* An idle block leaves the bins as it is. */
void gp_segment_leave_idle(gp_block_t *block);

/* From now on nothing of the segment is handed out. */
void gp_segment_close(gp_segment_t *segment);

/* The segment of the context in which address lies, or NULL; and the block of it, which is never NULL. */
gp_segment_t *gp_segment_at(const gp_context_t *context, uint64_t address);
gp_block_t *gp_segment_block_at(const gp_segment_t *segment, uint64_t address);

/* The program, or another holder of a reference, has a block of it. */
bool gp_segment_is_used(const gp_segment_t *segment);

/*
 * What allocations can have of the context's idle memory, and of its deferred memory once that is idle: the
 * bytes of whole segments, whole chunks and whole blocks, which may also go back to the driver; and of the
 * largest piece of an open segment or of a range. Looks at every block.
 */
void gp_segment_measure(const gp_context_t *context, uint64_t *ret_whole, uint64_t *ret_largest);

/* Checks the invariants of the context's segments and of their bins; prints each mismatch. */
bool gp_segment_check(const gp_context_t *context);

#endif
