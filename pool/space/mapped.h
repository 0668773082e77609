/* A context's range of mapped memory, type vmm: its blocks while memory is mapped, moved and unmapped.
 * Sizes in bytes. The caller holds the device's lock. */
#ifndef GP_POOL_SPACE_MAPPED_H
#define GP_POOL_SPACE_MAPPED_H

#include "pool/space/block_record.h"

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

/*
 * Type vmm: the size of new chunks, and the place of a request. doc/memory-types.md has the figures
 * behind the constants. Sizes in bytes. The caller holds the device's lock unless a comment says
 * otherwise.
 */

/* Bytes by which the pool grows at once, if the context then holds `held` (gp_segment_held): a power of two,
 * of GP_CHUNK_STEP at least. Takes no lock. */
uint64_t gp_mapped_growth(uint64_t held);

/* The most bytes of a new chunk for a request, likewise: a multiple of GP_CHUNK_STEP. Takes no lock. */
uint64_t gp_mapped_chunk_size(uint64_t held, uint64_t request);

/* After growing by `bytes` the pool would hold more than its use has ever needed, even if that is `need`
 * bytes more than now: so it should move memory. The more chunks have moved twice, the more it may hold. */
bool gp_mapped_should_move(const gp_device_t *device, uint64_t need, uint64_t bytes);

/* A place for a request, where some memory must first be mapped. */
typedef struct gp_place {
  gp_block_t *first; /* has the beginning; all blocks up to the end are idle or unmapped */
  uint64_t address;
  uint64_t missing; /* bytes to be mapped, in multiples of GP_CHUNK_STEP */
} gp_place_t;

/* The place for `bytes` that needs least mapping, of equals the lowest. It may cover idle blocks.
 * False: the range has none. Looks at every block. */
bool gp_mapped_place(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place);

/* The same for memory made ahead of need: the lowest place that has no memory at all. */
bool gp_mapped_place_ahead(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place);

/*
 * The table of a range's physical memory (block_record.h, gp_range_t). Sizes in bytes. The caller holds the
 * device's lock.
 */

/* Chunks begin and end at multiples of this: the largest granularity of drivers' mappings. */
#define GP_CHUNK_STEP (2 * GP_MIB)

/* Makes room for `count` more chunks, counted as promised; false: the host has no memory for it. */
bool gp_chunks_promise(gp_range_t *range, size_t count);
void gp_chunks_unpromise(gp_range_t *range, size_t count);

/* The chunk in which address lies; NULL: nothing is mapped there. */
gp_chunk_t *gp_chunks_find(const gp_range_t *range, uint64_t address);
uint64_t gp_chunks_bytes_within(const gp_range_t *range, uint64_t address, uint64_t size);

/* The memory around address that is mapped without a gap; false: nothing is mapped there. */
bool gp_chunks_run(const gp_range_t *range, uint64_t address, uint64_t *ret_address, uint64_t *ret_size);

#endif
