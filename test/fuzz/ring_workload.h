/*
 * A process that allocates and frees in several threads, under the real engine and recorder, until it is
 * killed; and its own log of that, in memory that survives it.
 */
#ifndef GP_TEST_FUZZ_RING_WORKLOAD_H
#define GP_TEST_FUZZ_RING_WORKLOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WORKLOAD_THREADS 8 /* at most */
#define WORKLOAD_SLOTS   64

/* One allocation, or the operation that is under way. */
typedef struct workload_block {
  _Atomic uint64_t address; /* 0: none */
  _Atomic uint64_t size;    /* bytes asked for */
} workload_block_t;

/*
 * Of one thread, which alone writes it. An operation is announced before it begins, and entered when it is
 * over: killed in between, the thread has done it or not.
 */
typedef struct workload_log {
  workload_block_t live[WORKLOAD_SLOTS];
  _Atomic uint64_t allocating; /* size of an allocation under way; 0: none */
  _Atomic uint64_t freeing;    /* address of a free under way; 0: none */
  _Atomic uint64_t allocs;     /* that are over */
} workload_log_t;

typedef struct workload {
  workload_log_t logs[WORKLOAD_THREADS];
  _Atomic uint64_t operations; /* of all threads */
} workload_t;

/* In shared memory, zeroed; NULL: there is none. */
workload_t *workload_make(void);

/* How a process is to be. */
typedef struct workload_plan {
  const char *root;   /* of its record */
  const char *events; /* GPUPOOL_TRACE_EVENTS */
  const char *type;   /* GPUPOOL_TYPE; NULL: the default. Of type segment blocks are larger, so that segments
                         come and go, too */
  unsigned threads;
  bool uses_heaps; /* threads keep what they free (pool/serve/heaps.h), of a few sizes; else segments come and
                      go */
  unsigned seed;
  uint64_t operations; /* after which it ends by itself, with _exit; 0: never */
} workload_plan_t;

pid_t workload_start(workload_t *workload, const workload_plan_t *plan);

/* The only record in root, open for reading. -1: there is none (yet), or more than one. */
int workload_open_record(const char *root);

/* Removes the records in root. */
void workload_remove_records(const char *root);

#endif
