/*
 * replay: an ordinary CUDA program that performs the requests of an allocation trace with real work on the
 * blocks. What its files share. Everything here is either constant while workers run or owned by one worker,
 * except the atomic totals.
 */
#ifndef PROG_REPLAY_H
#define PROG_REPLAY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  REPLAY_EXIT_OK = 0,
  REPLAY_EXIT_FINDINGS = 1, /* a wrong stamp; with --strict also failed rows */
  REPLAY_EXIT_USAGE = 2,    /* options or a malformed trace */
  REPLAY_EXIT_CUDA = 3,     /* a call failed that is not a row's allocation */
};

/* ---- replay_trace.c ---- */

typedef struct replay_row {
  uint64_t bytes;  /* of allocations */
  uint32_t block;  /* index; every allocation row has its own, so an id may occur again once it is free */
  uint32_t stream; /* index into replay_trace_t.streams */
  uint32_t line;
  bool is_alloc;
} replay_row_t;

typedef struct replay_trace {
  const char *path;
  replay_row_t *rows;
  size_t row_count;
  uint64_t *ids; /* of blocks, as the file names them */
  uint32_t block_count;
  uint64_t *streams; /* the distinct stream ids of the file, in order of appearance */
  uint32_t stream_count;
} replay_trace_t;

/* Reads a whole trace, "-" is stdin. Prints one line and returns false if it is malformed. */
bool replay_trace_read(const char *path, replay_trace_t *ret_trace);
void replay_trace_fini(replay_trace_t *trace);

/* ---- replay_api_runtime.c, replay_api_driver.c ---- */

/* One of the two APIs. Results are CUDA's own codes, 0 is success; streams and events are its handles. A copy
 * moves `rows` pieces of `width` bytes between packed host memory and device memory where they are `pitch`
 * apart. */
typedef struct replay_api {
  const char *name;
  int out_of_memory;
  int (*open)(void);
  int (*enter_thread)(void);
  int (*alloc)(uint64_t *ret_address, uint64_t bytes);
  int (*alloc_async)(uint64_t *ret_address, uint64_t bytes, void *stream);
  int (*free)(uint64_t address);
  int (*free_async)(uint64_t address, void *stream);
  int (*host_alloc)(void **ret_memory, size_t bytes);
  int (*host_free)(void *memory);
  int (*copy_in)(uint64_t address, size_t pitch, const void *host, size_t width, size_t rows, void *stream);
  int (*copy_out)(void *host, uint64_t address, size_t pitch, size_t width, size_t rows, void *stream);
  int (*stream_create)(void **ret_stream);
  int (*stream_destroy)(void *stream);
  int (*stream_sync)(void *stream);
  int (*device_sync)(void);
  int (*event_create)(void **ret_event);
  int (*event_destroy)(void *event);
  int (*event_record)(void *event, void *stream);
  int (*event_wait)(void *stream, void *event); /* the stream waits, not the host */
  int (*launch_programmatic)(void);             /* in the default stream; NULL where the API has none */
  int (*last_error)(void);                      /* reads and clears it; NULL where the API has none */
  const char *(*error_name)(int code);
} replay_api_t;

extern const replay_api_t replay_api_runtime;
extern const replay_api_t replay_api_driver;

/* ---- replay_run.c ---- */

/* Which blocks are allocated and freed in stream order */
typedef enum replay_async {
  REPLAY_ASYNC_NONE,
  REPLAY_ASYNC_HALF, /* every second one of a thread */
  REPLAY_ASYNC_ALL,
} replay_async_t;

typedef struct replay_options {
  const replay_api_t *api;
  uint32_t repeat;
  uint32_t sync_every; /* rows of a thread; 0: never */
  uint32_t pause_us;   /* after each row */
  uint32_t streams;    /* 0: the trace's */
  uint32_t threads;
  replay_async_t async;
  bool programmatic; /* one launch of that kind comes first */
  bool check;
} replay_options_t;

typedef struct replay_totals {
  atomic_uint_fast64_t allocs; /* that succeeded */
  atomic_uint_fast64_t frees;
  atomic_uint_fast64_t failed;
  atomic_uint_fast64_t survivors; /* freed at the ends of passes; part of frees */
  atomic_uint_fast64_t error_mismatches;
  atomic_uint_fast64_t wrong_stamps;
  atomic_uint_fast64_t live_bytes;
  atomic_uint_fast64_t peak_bytes;
  double seconds;
} replay_totals_t;

void replay_run(const replay_trace_t *trace, const replay_options_t *options, replay_totals_t *totals);

/* Ends the program with one line if a call failed that has to succeed. _Exit: other threads may be inside
 * CUDA. */
void replay_must(const replay_api_t *api, const char *what, int code);

/* ---- replay_stamp.c ---- */

typedef struct stamp_ring stamp_ring_t;

/* What the stamps of a block are made of, and what a report of wrong ones needs */
typedef struct stamp_block {
  uint64_t address;
  uint64_t bytes;
  uint32_t block;
  uint32_t pass;
  uint32_t line; /* of the row that frees it, 0 for survivors */
} stamp_block_t;

/* The pinned memory of one thread from which stamps are copied and into which they are read back. `streams`
 * is borrowed; functions below name a stream by its index there. */
stamp_ring_t *stamp_ring_create(
    const replay_api_t *api, const replay_trace_t *trace, void *const *streams, uint32_t stream_count);
/* All copies must be complete and settled. */
void stamp_ring_destroy(stamp_ring_t *ring);

/* Submits the writes, or the reads, of a block's stamps. They wait for nothing, unless the ring is full of
 * copies not known to be complete. What was read is compared later, when that costs no further wait. */
void stamp_write(stamp_ring_t *ring, const stamp_block_t *block, uint32_t stream);
void stamp_read(stamp_ring_t *ring, const stamp_block_t *block, uint32_t stream);

/* The device was synchronized: compares everything that has been read back. */
void stamp_settle(stamp_ring_t *ring);
uint64_t stamp_wrong_count(const stamp_ring_t *ring);

#endif
