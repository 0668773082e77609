/*
 * Where ordered_random works: contexts, their streams, and a second thread, since some streams are a
 * thread's.
 */
#ifndef PROG_ORDERED_RANDOM_STREAMS_H
#define PROG_ORDERED_RANDOM_STREAMS_H

#include "calls.h"

#include <cuda.h>
#include <stdbool.h>

/* A stream is a number: its context's times PER_CTX, plus its kind. */
enum { LEGACY, THREAD, OF_HELPER, BLOCKING, OTHER_BLOCKING, FREE, OTHER_FREE, PER_CTX };
enum { CTXS = 2, STREAMS = CTXS * PER_CTX };

typedef struct {
  CUcontext ctx;
  CUfunction fill, expect; /* stand-ins of the simulated driver (test/sim/README.md) */
  CUevent event;           /* recorded anew for each use */
} place_t;

extern place_t ctxs[CTXS];
extern CUstream streams[STREAMS];

static inline int ctx_of(int s)
{
  return s / PER_CTX;
}

static inline int kind_of(int s)
{
  return s % PER_CTX;
}

static inline bool is_blocking(int s)
{
  return kind_of(s) != FREE && kind_of(s) != OTHER_FREE;
}

/* The second thread, whose per-thread streams end with it. */
void helper_start(void);
void helper_end(void);

/* The first is the primary one, the second is made by the program. */
void ctx_create(int c);
void stream_create(int s);

/* What is done with a stream: by the thread whose it is, in the stream's context. A structure that begins
 * with a task is what `run` gets. */
typedef struct {
  void (*run)(void *);
  int stream;
} task_t;

void in_stream(task_t *task);

/* Later work in `after` comes behind all work in `before`. */
void order(int before, int after);
void synchronize(int s);

#endif
