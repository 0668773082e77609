/* A context's range of mapped memory (pool type vmm). These functions update the range's blocks and chunks
 * while memory is mapped, moved and unmapped. Sizes are in bytes. The caller holds the device's lock. */
#ifndef GP_POOL_SPACE_MAPPED_H
#define GP_POOL_SPACE_MAPPED_H

#include "pool/space/block_record.h"

/* Adds a range to its context. The addresses of its segment are reserved, and its address, size and context
 * are set. `block` covers the whole range. */
void gp_mapped_add(gp_range_t *range, gp_block_t *block);

/* Splits `bytes` at the address from an idle or unmapped block and returns them as a MAPPING block. The rest
 * keeps its state. Returns NULL, without any change, if the host has no memory for records. */
gp_block_t *gp_mapped_carve(gp_engine_t *engine, gp_block_t *block, uint64_t address, uint64_t bytes);

/* gp_mapped_become_hole makes a MAPPING or RELEASING block UNMAPPED (a hole), and gp_mapped_become_idle makes
 * it IDLE. Both may join the block's record with its neighbours. */
void gp_mapped_become_hole(gp_engine_t *engine, gp_block_t *block);
void gp_mapped_become_idle(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns);

/* Adds a chunk for which gp_chunks_promise has reserved a place, and updates the observer and the statistics.
 */
void gp_mapped_adopt(
    gp_engine_t *engine, gp_range_t *range, const gp_chunk_t *chunk, uint64_t time_ns, uint64_t duration_ns);

/* Removes a chunk that was released to the driver. `why` is GP_DETAIL_NONE or the reason for the release. */
void gp_mapped_forget(gp_engine_t *engine, gp_range_t *range, gp_chunk_t *chunk, gp_detail_t why,
    uint64_t time_ns, uint64_t duration_ns);

/* Updates the address of a chunk that was mapped elsewhere. */
void gp_mapped_move(gp_engine_t *engine, gp_range_t *range, uint64_t from, uint64_t to, uint64_t time_ns);

/* Returns the block that has been idle longest among those that have whole chunks, which could be released or
 * moved, and a free_epoch of at most `newest`. Returns NULL if there is none. `newest` is the epoch that
 * every context has completed. *ret_chunks and *ret_count are the chunks of that block. */
gp_block_t *gp_mapped_oldest(
    const gp_context_t *context, uint64_t newest, gp_chunk_t **ret_chunks, size_t *ret_count);

/*
 * Carves one idle chunk, which is to be moved, out of a block whose free_epoch is at most `newest`. Returns
 * it as a MAPPING block. Takes the largest chunk of at most `fit` bytes, otherwise the smallest of at most
 * `room` bytes. Returns NULL if there is none, or if the host has no memory for records.
 */
gp_block_t *gp_mapped_cut_to_fit(
    gp_engine_t *engine, const gp_context_t *context, uint64_t newest, uint64_t fit, uint64_t room);

/* Carves out one idle chunk in the same way, to release it. Takes the largest chunk, or with by_age a chunk
 * that has been idle longest. Returns NULL if there is none, or if the host has no memory for records. */
gp_block_t *gp_mapped_cut_out(gp_engine_t *engine, const gp_context_t *context, uint64_t newest, bool by_age);

/* Returns true if the invariants of the context's range hold. Prints each mismatch. */
bool gp_mapped_check(const gp_context_t *context);

/*
 * Pool type vmm: the size of new chunks, and the place of a request in the range. doc/memory-types.md
 * explains the constants. Sizes are in bytes. The caller holds the device's lock unless a comment says
 * otherwise.
 */

/* Returns the bytes by which the pool grows at once if the context has reserved `held` bytes
 * (gp_segment_held). The result is a power of two, at least GP_CHUNK_STEP. Needs no lock. */
uint64_t gp_mapped_growth(uint64_t held);

/* Returns the most bytes of a new chunk for a request if the context has reserved `held` bytes. The result is
 * a multiple of GP_CHUNK_STEP. Needs no lock. */
uint64_t gp_mapped_chunk_size(uint64_t held, uint64_t request);

/* Returns true if the pool should move memory instead of growing by `bytes`. That is so if growth would
 * exceed the highest use plus a few percent, even if use rises by `need` bytes now. The percentage rises with
 * the number of chunks that have moved more than once. */
bool gp_mapped_should_move(const gp_device_t *device, uint64_t need, uint64_t bytes);

/* A place for a request in the range. Some of it may not be mapped yet. */
typedef struct gp_place {
  gp_block_t *first; /* block with `address`; all from it to the place's end are idle or unmapped */
  uint64_t address;
  uint64_t missing; /* bytes to be mapped, in multiples of GP_CHUNK_STEP */
} gp_place_t;

/* Finds the place for `bytes` that needs the least mapping. Among equals, chooses the lowest address. The
 * place may include idle blocks. Returns false if the range has no place. Visits every block. */
bool gp_mapped_place(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place);

/* Finds the lowest place without any memory, for memory reserved in advance. Returns false if there is none.
 */
bool gp_mapped_place_ahead(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place);

/*
 * The table of a range's physical memory (gp_range_t in block_record.h). Sizes are in bytes. The caller holds
 * the device's lock.
 */

/* Chunks begin and end at multiples of this size, the largest granularity at which drivers map memory. */
#define GP_CHUNK_STEP (2 * GP_MIB)

/* gp_chunks_promise reserves room for `count` more chunks, counted as promised. Returns false if the host has
 * no memory. gp_chunks_unpromise cancels the reservation. */
bool gp_chunks_promise(gp_range_t *range, size_t count);
void gp_chunks_unpromise(gp_range_t *range, size_t count);

/* gp_chunks_find returns the chunk that contains the address, or NULL. gp_chunks_bytes_within returns the
 * bytes of the chunks that lie entirely in [address, address + size), all of which must be mapped. */
gp_chunk_t *gp_chunks_find(const gp_range_t *range, uint64_t address);
uint64_t gp_chunks_bytes_within(const gp_range_t *range, uint64_t address, uint64_t size);

/* Finds the contiguously mapped memory around the address. Returns false if nothing is mapped there. */
bool gp_chunks_run(const gp_range_t *range, uint64_t address, uint64_t *ret_address, uint64_t *ret_size);

#endif
