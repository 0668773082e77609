/*
 * The storage of events: a fixed set of chunks. A thread owns a chunk while it fills it. So recording an
 * event needs no lock and shares no cache line; a thread takes the lock once per chunk. If no chunk is free,
 * the thread reuses the closed chunk whose newest event is the oldest.
 *
 * Only the oldest events are lost. since_ns is the newest lost time, and readers ignore every event at or
 * before since_ns, whichever chunk contains it. So a reader that replays events backwards from the present
 * state never misses an event in the middle.
 *
 * The completion time of a free may be added to the free's record later, by any thread. That thread holds the
 * device's lock but not the chunks' lock, so it stores the completion with a compare-and-exchange. A thread
 * that discards a chunk first marks its open completions as closed.
 *
 * Header, chunks and records are a section of the region and contain no pointers. So a reader can use them
 * even if the process was killed at any instruction.
 */
#ifndef GP_TRACE_CHUNKS_H
#define GP_TRACE_CHUNKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "format/chunk.h"
#include "trace/region/region.h"

typedef struct gp_chunks {
  gp_lock_t lock; /* only the region's lock is taken while this lock is held */
  gp_region_t *region;
  gp_chunk_header_t *header;
  gp_chunk_t *chunks;
  gp_event_record_t *records;
  uint64_t events;   /* number of events to keep, as requested */
  uint64_t unstored; /* number of records lost because there was no memory at all */
  uint64_t since_ns; /* with has_lost: time of a gp_chunks_forget before the first record */
  bool has_lost;
} gp_chunks_t;

/* Returns the size in bytes of a section for at least `events` events. */
size_t gp_chunks_bytes(uint64_t events);

/* Prepares storage for `events` events. If memory is short, fewer events are kept. The region is borrowed. */
void gp_chunks_init(gp_chunks_t *chunks, gp_region_t *region, uint64_t events);

/* Prepares a section that was read from a file. Header, chunks and records must be valid and in private
 * memory, and no thread may record events. gp_chunks_fini must be called afterwards. */
void gp_chunks_init_copy(
    gp_chunks_t *chunks, gp_chunk_header_t *header, gp_chunk_t *array, gp_event_record_t *records);

/* Returns true if no event was recorded; the caller must then not read header and chunks. */
static inline bool gp_chunks_is_empty(const gp_chunks_t *chunks)
{
  return chunks->region && !gp_region_used(chunks->region, GP_SECTION_EVENTS);
}

/* Ends the use of *chunks. No thread may record events any more. */
void gp_chunks_fini(gp_chunks_t *chunks);

/*
 * Opens an empty chunk for the caller and returns its index; the caller then stores *record there. First
 * closes the caller's chunk `full`, whose newest time is newest_ns; GP_CHUNK_NONE means that the caller has
 * no chunk. If other threads have all chunks open, appends *record to the shared chunk and returns
 * GP_CHUNK_NONE. If there is no memory at all, loses the record, counts it in `unstored` and returns
 * GP_CHUNK_NONE.
 */
uint32_t gp_chunks_rotate(
    gp_chunks_t *chunks, uint32_t full, uint64_t newest_ns, uint32_t owner, const gp_event_record_t *record);

/* Closes the caller's chunk, whose newest time is newest_ns. */
void gp_chunks_close(gp_chunks_t *chunks, uint32_t index, uint64_t newest_ns);

/* Marks all events up to now_ns as lost. For a recorder that is switched on late. */
void gp_chunks_forget(gp_chunks_t *chunks, uint64_t now_ns);

static inline gp_event_record_t *gp_chunks_records(const gp_chunks_t *chunks, uint32_t index)
{
  return chunks->records + (size_t)index * chunks->header->chunk_records;
}

/* Adds a chunk with events to the list of closed chunks. The caller holds the lock. Public for readers of
 * files. */
void gp_chunks_enlist(gp_chunks_t *chunks, uint32_t index);

/*
 * Returns the place of a record for gp_chunks_complete: its chunk and its index, combined into one number.
 * The place 0 means no record, because chunk 0 is the shared chunk, and only records in chunks with an owner
 * get a place.
 */
static inline uint32_t gp_chunks_place(uint32_t chunk, uint32_t index)
{
  return chunk * GP_CHUNK_RECORDS + index;
}

/*
 * Stores time_ns as the completion time of a free whose record is at `place`. is_own means that the calling
 * thread owns the chunk and the chunk is open. Returns false if the record was overwritten or the time does
 * not fit; the caller must then record the completion separately. Takes no lock.
 */
static inline bool gp_chunks_complete(
    gp_chunks_t *chunks, uint32_t place, bool is_own, uint64_t block_id, uint64_t time_ns)
{
  uint32_t index = place / GP_CHUNK_RECORDS;
  gp_event_record_t *record = gp_chunks_records(chunks, index) + place % GP_CHUNK_RECORDS;
  uint64_t open = gp_completion_open(block_id);
  uint64_t after_ns = time_ns - gp_event_record_time_ns(record); /* wrong if overwritten: the store fails */

  if (after_ns == GP_COMPLETION_OPEN || after_ns >= GP_COMPLETION_CLOSED)
    return false;
  uint64_t completion = gp_completion_set(open, (uint32_t)after_ns);
  if (!is_own)
    return __atomic_compare_exchange_n(
        &record->completion, &open, completion, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  if (gp_event_record_completion(record) != open)
    return false;
  __atomic_store_n(&record->completion, completion, __ATOMIC_RELAXED);
  return true;
}

/* Returns the newest time in a chunk, including completion times, or 0 if the chunk is empty. The caller
 * holds the lock. */
uint64_t gp_chunks_newest_ns(const gp_chunks_t *chunks, uint32_t index);

#endif
