/* A context's range of mapped memory (pool type vmm): updates its blocks and chunks while memory is mapped,
 * moved and unmapped. Sizes in bytes. The caller holds the device's lock. */
#ifndef GP_POOL_SPACE_MAPPED_H
#define GP_POOL_SPACE_MAPPED_H

#include "pool/space/block_record.h"

/* Adds a range to its context. The addresses of its segment are reserved, and address, size and context are
 * set; `block` covers all of it. */
void gp_mapped_add(gp_range_t *range, gp_block_t *block);

/* Splits `bytes` at address from an idle or unmapped block and returns them as a MAPPING block; the rest
 * keeps its state. Returns NULL, with nothing changed, if the host has no memory for records. */
gp_block_t *gp_mapped_carve(gp_engine_t *engine, gp_block_t *block, uint64_t address, uint64_t bytes);

/* Make a MAPPING or RELEASING block UNMAPPED (hole) or IDLE. They may join the record with its neighbours. */
void gp_mapped_become_hole(gp_engine_t *engine, gp_block_t *block);
void gp_mapped_become_idle(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns);

/* Adds a chunk whose place was promised, and updates the observer and the statistics. */
void gp_mapped_adopt(
    gp_engine_t *engine, gp_range_t *range, const gp_chunk_t *chunk, uint64_t time_ns, uint64_t duration_ns);

/* Removes a chunk that was released to the driver; why: GP_DETAIL_NONE or the reason of the release. */
void gp_mapped_forget(gp_engine_t *engine, gp_range_t *range, gp_chunk_t *chunk, gp_detail_t why,
    uint64_t time_ns, uint64_t duration_ns);

/* Updates the address of a chunk that was mapped elsewhere. */
void gp_mapped_move(gp_engine_t *engine, gp_range_t *range, uint64_t from, uint64_t to, uint64_t time_ns);

/* Returns the block that has been idle longest among those with whole chunks, which could be released or
 * moved, and a free_epoch of at most `newest`, the epoch that every context has completed; or NULL.
 * *ret_chunks and *ret_count: the chunks of that block. */
gp_block_t *gp_mapped_oldest(
    const gp_context_t *context, uint64_t newest, gp_chunk_t **ret_chunks, size_t *ret_count);

/*
 * For a move: carves one idle chunk out of a block with a free_epoch of at most `newest`, as a MAPPING block.
 * Takes the largest chunk of `fit` bytes or less, else the smallest of `room` bytes or less. Returns NULL if
 * there is none, or if the host has no memory for records.
 */
gp_block_t *gp_mapped_cut_to_fit(
    gp_engine_t *engine, const gp_context_t *context, uint64_t newest, uint64_t fit, uint64_t room);

/* Does the same for a release: takes the largest chunk, or with by_age one that has been idle longest.
 * Returns NULL if there is none, or if the host has no memory for records. */
gp_block_t *gp_mapped_cut_out(gp_engine_t *engine, const gp_context_t *context, uint64_t newest, bool by_age);

/* Returns true if the invariants of the context's range hold; prints each mismatch. */
bool gp_mapped_check(const gp_context_t *context);

/*
 * Pool type vmm: the size of new chunks, and the place of a request in the range. doc/memory-types.md
 * explains the constants. Sizes in bytes. The caller holds the device's lock unless a comment says otherwise.
 */

/* Returns the bytes by which the pool grows at once if the context has `held` (gp_segment_held): a power of
 * two, at least GP_CHUNK_STEP. Needs no lock. */
uint64_t gp_mapped_growth(uint64_t held);

/* Returns the most bytes of a new chunk for a request if the context has `held`: a multiple of GP_CHUNK_STEP.
 * Needs no lock. */
uint64_t gp_mapped_chunk_size(uint64_t held, uint64_t request);

/* Returns true if the pool should move memory instead of growing by `bytes`: growth would exceed the highest
 * use plus a few percent, even if use rises by `need` bytes now. The percentage grows with the chunks that
 * have moved more than once. */
bool gp_mapped_should_move(const gp_device_t *device, uint64_t need, uint64_t bytes);

/* A place for a request in the range. Some of it may not be mapped yet. */
typedef struct gp_place {
  gp_block_t *first; /* contains address; this block and those up to the end are idle or unmapped */
  uint64_t address;
  uint64_t missing; /* bytes to be mapped, in multiples of GP_CHUNK_STEP */
} gp_place_t;

/* Finds the place for `bytes` that needs the least mapping, at the lowest address among equals. It may
 * include idle blocks. Returns false if the range has no place. Looks at every block. */
bool gp_mapped_place(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place);

/* For memory reserved in advance: finds the lowest place without any memory. Returns false if there is
 * none. */
bool gp_mapped_place_ahead(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place);

/*
 * The table of a range's physical memory (block_record.h, gp_range_t). Sizes in bytes. The caller holds the
 * device's lock.
 */

/* Chunks begin and end at multiples of this, the largest granularity at which drivers map memory. */
#define GP_CHUNK_STEP (2 * GP_MIB)

/* Reserves room for `count` more chunks, counted as promised. Returns false if the host has no memory. */
bool gp_chunks_promise(gp_range_t *range, size_t count);
void gp_chunks_unpromise(gp_range_t *range, size_t count);

/* find returns the chunk that contains address, or NULL. bytes_within returns the bytes of the chunks that
 * lie entirely in [address, address + size), all of which must be mapped. */
gp_chunk_t *gp_chunks_find(const gp_range_t *range, uint64_t address);
uint64_t gp_chunks_bytes_within(const gp_range_t *range, uint64_t address, uint64_t size);

/* Finds the contiguously mapped memory around address. Returns false if nothing is mapped there. */
bool gp_chunks_run(const gp_range_t *range, uint64_t address, uint64_t *ret_address, uint64_t *ret_size);

#endif
