/* A context's range of mapped memory, type vmm: its blocks while memory is mapped, moved and unmapped.
 * Sizes in bytes. The caller holds the device's lock. */
#ifndef GP_POOL_SPACE_MAPPED_H
#define GP_POOL_SPACE_MAPPED_H

#include "pool/space/segment_record.h"

/* The context has reserved the addresses of the range's segment, whose address, size and context are set:
 * `block` is all of it. */
void gp_mapped_add(gp_range_t *range, gp_block_t *block);

/* Takes `bytes` at address out of an idle or unmapped block, as a block of its own that is MAPPING; the
 * rest of the block keeps its state. NULL: the host has no memory for records, and nothing has changed. */
gp_block_t *gp_mapped_carve(gp_engine_t *engine, gp_block_t *block, uint64_t address, uint64_t bytes);

/* Ends the state MAPPING or RELEASING of a block without memory (hole) or with memory (idle). May join the
 * record with its neighbours. */
void gp_mapped_become_hole(gp_engine_t *engine, gp_block_t *block);
void gp_mapped_become_idle(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns);

/* Files a chunk that was promised, and updates the observer and the statistics. */
void gp_mapped_adopt(
    gp_engine_t *engine, gp_range_t *range, const gp_chunk_t *chunk, uint64_t time_ns, uint64_t duration_ns);

/* The driver has a chunk back; why: GP_DETAIL_NONE or a reason of its release. */
void gp_mapped_forget(gp_engine_t *engine, gp_range_t *range, gp_chunk_t *chunk, gp_detail_t why,
    uint64_t time_ns, uint64_t duration_ns);

/* A chunk is somewhere else now. */
void gp_mapped_move(gp_engine_t *engine, gp_range_t *range, uint64_t from, uint64_t to, uint64_t time_ns);

/* The longest idle block with chunks that could go back or move, whose free_epoch is `newest` or less, so
 * that every context has completed it. NULL: there is none. *ret_chunks, *ret_count: these chunks. */
gp_block_t *gp_mapped_oldest(
    const gp_context_t *context, uint64_t newest, gp_chunk_t **ret_chunks, size_t *ret_count);

/*
 * For a move: carves out one idle chunk as above, as a MAPPING block. Takes the largest chunk of
 * `fit` bytes or less, else the smallest of `room` bytes or less. NULL: there is none, or the host
 * has no memory for records.
 */
gp_block_t *gp_mapped_cut_to_fit(
    gp_engine_t *engine, const gp_context_t *context, uint64_t newest, uint64_t fit, uint64_t room);

/* For a release: carves out one such chunk, as a MAPPING block. Takes the largest chunk, or with by_age one
 * that has been idle longest. NULL: there is none, or the host has no memory for records. */
gp_block_t *gp_mapped_cut_out(gp_engine_t *engine, const gp_context_t *context, uint64_t newest, bool by_age);

/* Checks the invariants of the context's range; prints each mismatch. */
bool gp_mapped_check(const gp_context_t *context);

#endif
