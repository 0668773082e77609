/*
 * The events of a record. The section GP_SECTION_EVENTS is a gp_chunk_header_t, followed by chunks, followed
 * by the event records of all chunks. trace/record/chunks.h says how chunks are used. An event record may
 * represent several events (event_record.h); counts are of event records, unless a comment says events.
 */
#ifndef GP_FORMAT_CHUNK_H
#define GP_FORMAT_CHUNK_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "format/event_record.h"

#define GP_CHUNK_NONE         UINT32_MAX
#define GP_CHUNK_RECORDS      256 /* per chunk; fewer if the region is small */
#define GP_CHUNK_RECORDS_MIN  16
#define GP_CHUNK_OWNER_SHARED 0xffffu

typedef enum gp_chunk_state {
  GP_CHUNK_FREE,   /* never used */
  GP_CHUNK_OPEN,   /* its owner appends to it */
  GP_CHUNK_CLOSED, /* in the list of closed chunks */
  GP_CHUNK_SHARED, /* threads without a chunk of their own append to it, under the lock */
} gp_chunk_state_t;

/*
 * The lock of the chunks guards everything except count. The owner stores count with release after the record
 * that it counts. In records below count, only the completion changes until the chunk is opened again, which
 * happens under the lock.
 */
typedef struct gp_chunk {
  _Atomic uint32_t count;
  uint32_t state;     /* gp_chunk_state_t */
  uint64_t newest_ns; /* newest time in a closed chunk */
  uint32_t next;      /* link in the list of closed chunks, in order of newest_ns */
  uint32_t previous;
  uint32_t owner;  /* thread index, or GP_CHUNK_OWNER_SHARED */
  uint32_t events; /* of a closed chunk: events of its records, counting open completions as set */
  uint32_t reserved[8];
} gp_chunk_t;

static_assert(sizeof(gp_chunk_t) == 64, "one cache line each: owners must not disturb each other");

typedef struct gp_chunk_header {
  uint32_t is_begun; /* 1: the other members are set; 0: nothing was recorded */
  uint32_t chunk_records;
  uint32_t chunk_count;        /* the first one is the shared chunk */
  _Atomic uint32_t discarding; /* index + 1 of a chunk whose events are being discarded, see dropped_then */
  uint64_t chunks_offset;      /* offset in the section */
  uint64_t records_offset;
  uint64_t dropped;      /* number of events that were overwritten */
  uint64_t dropped_then; /* with discarding: the value of dropped after the chunk is discarded */
  uint64_t since_ns;     /* newest time of the overwritten events, with has_lost */
  uint32_t has_lost;
  uint32_t oldest; /* head of the closed list: the first chunk to be reused */
  uint32_t newest;
  uint32_t used;   /* chunks [used, chunk_count) have never been used */
  uint64_t events; /* sum of the events of all closed chunks */
  uint64_t wanted; /* number of events to keep; the chunks may have more */
} gp_chunk_header_t;

#endif
