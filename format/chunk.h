/*
 * The events of a record. The section GP_SECTION_EVENTS contains a gp_chunk_header_t, then the chunks, then
 * the event records of all chunks. trace/record/chunks.h describes how chunks are used. An event record may
 * represent several events (event_record.h). Counts are numbers of event records, unless a comment says
 * "events".
 */
#ifndef GP_FORMAT_CHUNK_H
#define GP_FORMAT_CHUNK_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "format/event_record.h"

#define GP_CHUNK_NONE         UINT32_MAX
#define GP_CHUNK_RECORDS      256 /* records per chunk; fewer if the region is small */
#define GP_CHUNK_RECORDS_MIN  16
#define GP_CHUNK_OWNER_SHARED 0xffffu

typedef enum gp_chunk_state {
  GP_CHUNK_FREE,   /* never used */
  GP_CHUNK_OPEN,   /* its owner is appending records */
  GP_CHUNK_CLOSED, /* in the list of closed chunks */
  GP_CHUNK_SHARED, /* shared by threads without a chunk of their own, which append under the lock */
} gp_chunk_state_t;

/*
 * The chunks' lock guards everything except `count`. The owner of a chunk stores a record first and then
 * increments `count`, with release. In records below `count`, only the completion changes until the chunk is
 * opened again, which happens under the lock.
 */
typedef struct gp_chunk {
  _Atomic uint32_t count;
  uint32_t state;     /* gp_chunk_state_t */
  uint64_t newest_ns; /* newest time of the chunk's events; valid in a closed chunk */
  uint32_t next;      /* next chunk in the list of closed chunks, which is ordered by newest_ns */
  uint32_t previous;
  uint32_t owner;  /* thread index, or GP_CHUNK_OWNER_SHARED */
  uint32_t events; /* valid in a closed chunk: number of its events, if all open completions were set */
  uint32_t reserved[8];
} gp_chunk_t;

static_assert(sizeof(gp_chunk_t) == 64, "one cache line each: owners must not disturb each other");

typedef struct gp_chunk_header {
  uint32_t is_begun; /* 1: the other members are set; 0: nothing was recorded */
  uint32_t chunk_records;
  uint32_t chunk_count;        /* chunk 0 is the shared chunk */
  _Atomic uint32_t discarding; /* index + 1 of the chunk whose events are being discarded; 0: none */
  uint64_t chunks_offset;      /* offset of the chunks in the section */
  uint64_t records_offset;
  uint64_t dropped;      /* number of overwritten events */
  uint64_t dropped_then; /* if `discarding` is set: value of `dropped` after the chunk is discarded */
  uint64_t since_ns;     /* if has_lost is set: newest time of the overwritten events */
  uint32_t has_lost;
  uint32_t oldest; /* head of the list of closed chunks: the next chunk to be reused */
  uint32_t newest;
  uint32_t used;   /* chunks [used, chunk_count) have never been used */
  uint64_t events; /* total number of events in all closed chunks */
  uint64_t wanted; /* number of events to keep; the chunks may have room for more */
} gp_chunk_header_t;

#endif
