/*
 * The storage of events: a fixed set of chunks. A thread owns a chunk while it fills it, so that recording
 * needs no lock and shares no cache line; a thread takes the lock once per chunk. If no chunk is free, it
 * reuses the closed chunk whose newest event is the oldest.
 *
 * Only the oldest events are lost: since_ns is the newest time lost, and readers ignore every event at or
 * before it, in whatever chunk. So a reader that replays events backwards from the present state never misses
 * one in the middle.
 *
 * The record of a free may get the time of its completion later, from whatever thread completes it. That
 * thread holds the device's lock, not that of the chunks: so it uses a compare-and-exchange for the
 * completion, and a thread that gives up a chunk first closes the open completions.
 *
 * Header, chunks and records are a section of the region and have no pointers: a reader can use them after
 * the process was killed at any instruction.
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
  gp_lock_t lock; /* a leaf: nothing is called with it held */
  gp_region_t *region;
  gp_chunk_header_t *header;
  gp_chunk_t *chunks;
  gp_event_record_t *records;
  uint64_t events;   /* requested */
  uint64_t unstored; /* records for which there was no memory at all */
  uint64_t since_ns; /* with has_lost: the time of a gp_chunks_forget before the first record */
  bool has_lost;
} gp_chunks_t;

/* Bytes that the section needs for at least `events` events. */
size_t gp_chunks_bytes(uint64_t events);

/* The section has room for `events` events; memory may allow fewer. The region is borrowed. */
void gp_chunks_init(gp_chunks_t *chunks, gp_region_t *region, uint64_t events);

/* For a section read from a file: header, chunks and records are valid, in private memory, and no thread
 * records. Ends with gp_chunks_fini as usual. */
void gp_chunks_init_copy(
    gp_chunks_t *chunks, gp_chunk_header_t *header, gp_chunk_t *array, gp_event_record_t *records);

/* True if no event was recorded: then the caller must not read header and chunks. */
static inline bool gp_chunks_is_empty(const gp_chunks_t *chunks)
{
  return chunks->region && !gp_region_used(chunks->region, GP_SECTION_EVENTS);
}

/* The caller makes sure that no thread records any more. */
void gp_chunks_fini(gp_chunks_t *chunks);

/*
 * Closes the caller's chunk `full` (GP_CHUNK_NONE: it has none), whose newest time is newest_ns, and
 * opens another for it. Returns its index, with no record in it; or, if every chunk is open by some
 * thread, appends *record to the shared chunk and returns GP_CHUNK_NONE. If there is no memory at all,
 * the record is lost, and counted.
 */
uint32_t gp_chunks_rotate(
    gp_chunks_t *chunks, uint32_t full, uint64_t newest_ns, uint32_t owner, const gp_event_record_t *record);

/* Closes the caller's chunk, whose newest time is newest_ns. */
void gp_chunks_close(gp_chunks_t *chunks, uint32_t index, uint64_t newest_ns);

/* Marks all events up to now as lost, for a recorder that is switched on late. */
void gp_chunks_forget(gp_chunks_t *chunks, uint64_t now_ns);

static inline gp_event_record_t *gp_chunks_records(const gp_chunks_t *chunks, uint32_t index)
{
  return chunks->records + (size_t)index * chunks->header->chunk_records;
}

/* Puts a chunk that has events into the list of closed ones. Public for the reader of files;
 * the caller holds the lock. */
void gp_chunks_enlist(gp_chunks_t *chunks, uint32_t index);

/*
 * The place of a record, for gp_chunks_complete: its chunk, and its index in there. 0: none. The record is
 * in a chunk with an owner, so not in the first one.
 */
static inline uint32_t gp_chunks_place(uint32_t chunk, uint32_t index)
{
  return chunk * GP_CHUNK_RECORDS + index;
}

/*
 * Stores in the record of a free, at `place`, that it was completed at time_ns. is_own: the chunk is open,
 * and the calling thread owns it. False: the record was overwritten, or the time does not fit: then the
 * completion needs a record of its own. Takes no lock.
 */
static inline bool gp_chunks_complete(
    gp_chunks_t *chunks, uint32_t place, bool is_own, uint64_t block_id, uint64_t time_ns)
{
  uint32_t index = place / GP_CHUNK_RECORDS;
  gp_event_record_t *record = gp_chunks_records(chunks, index) + place % GP_CHUNK_RECORDS;
  uint64_t open = gp_completion_open(block_id);
  uint64_t after_ns = time_ns - gp_event_record_time_ns(record); /* of another record: fails below */

  if (after_ns == GP_COMPLETION_OPEN || after_ns >= GP_COMPLETION_CLOSED)
    return false;
  uint64_t told = gp_completion_set(open, (uint32_t)after_ns);
  if (!is_own)
    return __atomic_compare_exchange_n(
        &record->completion, &open, told, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  if (gp_event_record_completion(record) != open)
    return false;
  __atomic_store_n(&record->completion, told, __ATOMIC_RELAXED);
  return true;
}

/* Returns the newest time in a chunk, completions included, 0 if it is empty. The caller holds the lock. */
uint64_t gp_chunks_newest_ns(const gp_chunks_t *chunks, uint32_t index);

#endif
