/*
 * The table of a range's physical memory (segment_record.h, gp_range_t). Sizes in bytes. The caller holds the
 * device's lock.
 */
#ifndef GP_POOL_SPACE_CHUNKS_H
#define GP_POOL_SPACE_CHUNKS_H

#include "pool/space/segment_record.h"

/* Chunks begin and end at multiples of this: the largest granularity of drivers' mappings. */
#define GP_CHUNK_STEP (2 * GP_MIB)

/* Makes room for `count` more chunks, counted as promised; false: the host has no memory for it. */
bool gp_chunks_promise(gp_range_t *range, size_t count);
void gp_chunks_unpromise(gp_range_t *range, size_t count);

/* Files a chunk that was promised. */
void gp_chunks_add(gp_range_t *range, const gp_chunk_t *chunk);

/* Takes a chunk out of the table. Pointers into the table are invalid afterwards. */
void gp_chunks_remove(gp_range_t *range, gp_chunk_t *chunk);

/* The chunk in which address lies; NULL: nothing is mapped there. */
gp_chunk_t *gp_chunks_find(const gp_range_t *range, uint64_t address);

/* The chunks that lie wholly in [address, address + size): returns the first, or NULL, and their count.
 * bytes_within returns their bytes; all of the range must be mapped. */
gp_chunk_t *gp_chunks_within(const gp_range_t *range, uint64_t address, uint64_t size, size_t *ret_count);
uint64_t gp_chunks_bytes_within(const gp_range_t *range, uint64_t address, uint64_t size);

/* The memory around address that is mapped without a gap; false: nothing is mapped there. */
bool gp_chunks_run(const gp_range_t *range, uint64_t address, uint64_t *ret_address, uint64_t *ret_size);

#endif
