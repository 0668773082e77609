/*
 * Where events are stored: a fixed set of chunks. A thread owns a chunk while it fills it, so that recording
 * needs no lock and shares no cache line; the mutex is taken once per chunk. When none is free, the closed
 * chunk whose newest event is the oldest is used again.
 *
 * What is lost is always a prefix of history: since_ns is the newest time lost, and readers leave out every
 * event at or before it, wherever it is stored. A reader that replays events backwards from the present state
 * therefore never misses one in the middle.
 *
 * All of it (header, chunks, records) is a section of the region and holds no pointers: a reader finds it
 * when the process was killed at any instruction.
 */
#ifndef GP_TRACE_CHUNKS_H
#define GP_TRACE_CHUNKS_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/format/event_record.h"
#include "trace/record/region.h"

#define GP_CHUNK_NONE         UINT32_MAX
#define GP_CHUNK_EVENTS       256 /* per chunk; fewer if the region is small */
#define GP_CHUNK_EVENTS_MIN   16
#define GP_CHUNK_OWNER_SHARED 0xffffu

typedef enum gp_chunk_state {
  GP_CHUNK_FREE,   /* never used */
  GP_CHUNK_OPEN,   /* its owner appends */
  GP_CHUNK_CLOSED, /* in the list of closed chunks */
  GP_CHUNK_SHARED, /* the one that threads without a chunk of their own append to, under the mutex */
} gp_chunk_state_t;

/*
 * All but count is guarded by the mutex. count is stored by the owner with release after the record it
 * counts; records below count never change until the chunk is opened again, which happens under the mutex.
 */
typedef struct gp_chunk {
  _Atomic uint32_t count;
  uint32_t state;     /* gp_chunk_state_t */
  uint64_t opened;    /* ordinal of the opening, from 1; grows over all chunks */
  uint64_t newest_ns; /* of a closed chunk */
  uint32_t next;      /* of closed chunks: list in order of newest_ns */
  uint32_t previous;
  uint32_t owner; /* thread index, or GP_CHUNK_OWNER_SHARED */
  uint32_t reserved[7];
} gp_chunk_t;

static_assert(sizeof(gp_chunk_t) == 64, "one cache line each: owners must not disturb each other");

typedef struct gp_chunk_header {
  uint32_t version; /* GP_EVENT_RECORD_VERSION; 0: nothing is here yet */
  uint32_t record_bytes;
  uint32_t chunk_events;
  uint32_t chunk_count;        /* the first one is the shared chunk */
  _Atomic uint32_t discarding; /* index + 1 of a chunk whose events are being given up, see dropped_then */
  uint64_t chunks_offset;
  uint64_t records_offset;
  uint64_t dropped;      /* events overwritten */
  uint64_t dropped_then; /* with discarding: what dropped is going to be, without the chunk */
  uint64_t since_ns;     /* newest time lost, with has_lost */
  uint32_t has_lost;
  uint32_t oldest; /* closed list: the first to be used again */
  uint32_t newest;
  uint32_t used; /* chunks [used, chunk_count) were never used */
  uint32_t reserved;
  uint64_t opened; /* openings so far */
} gp_chunk_header_t;

typedef struct gp_chunks {
  pthread_mutex_t mutex; /* a leaf: nothing is called with it held */
  gp_region_t *region;
  gp_chunk_header_t *header;
  gp_chunk_t *chunks;
  gp_event_record_t *records;
  uint64_t events;   /* asked for */
  uint64_t unstored; /* events for which there was no memory at all */
  uint64_t since_ns; /* of gp_chunks_forget before anything was recorded, with has_lost */
  bool has_lost;
} gp_chunks_t;

/* Bytes that the section needs for at least `events` events. */
size_t gp_chunks_bytes(uint64_t events);

/*
 * The section has room for `events` events; how many are kept is for memory to say. The region is borrowed.
 * Returns 0 or an errno.
 */
int gp_chunks_init(gp_chunks_t *chunks, gp_region_t *region, uint64_t events);

/*
 * For a section that was read from a file: header, chunks and records are right and private memory, nobody
 * records. gp_chunks_fini as ever.
 */
int gp_chunks_init_copy(
    gp_chunks_t *chunks, gp_chunk_header_t *header, gp_chunk_t *array, gp_event_record_t *records);

/* Nothing was recorded: header and chunks must not be read. */
static inline bool gp_chunks_is_empty(const gp_chunks_t *chunks)
{
  return chunks->region && !gp_region_used(chunks->region, GP_SECTION_EVENTS);
}

/* No thread may record any more. */
void gp_chunks_fini(gp_chunks_t *chunks);

/*
 * Closes the caller's chunk `full` (GP_CHUNK_NONE: it has none), whose newest time is newest_ns, and opens
 * another for it. Returns its index, with no record in it; or, if every chunk is open by some thread, appends
 * *record to the shared chunk and returns GP_CHUNK_NONE. Without any memory the record is lost, and counted.
 */
uint32_t gp_chunks_turn(
    gp_chunks_t *chunks, uint32_t full, uint64_t newest_ns, uint32_t owner, const gp_event_record_t *record);

/* Closes the caller's chunk, whose newest time is newest_ns. */
void gp_chunks_close(gp_chunks_t *chunks, uint32_t index, uint64_t newest_ns);

/* Everything up to now counts as lost; for a recorder that is switched on late. */
void gp_chunks_forget(gp_chunks_t *chunks, uint64_t now_ns);

static inline gp_event_record_t *gp_chunks_records(const gp_chunks_t *chunks, uint32_t index)
{
  return chunks->records + (size_t)index * chunks->header->chunk_events;
}

/* Puts a chunk that has events into the list of closed ones. Here for the reader of files; the mutex is held.
 */
void gp_chunks_enlist(gp_chunks_t *chunks, uint32_t index);

/* Looks for the newest time in a chunk, 0 if it is empty. The mutex is held. */
uint64_t gp_chunks_newest_ns(const gp_chunks_t *chunks, uint32_t index);

#endif
