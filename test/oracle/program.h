/*
 * Random CUDA programs: a list of steps, each taken by one thread.
 *
 * The list is one order in which the program runs. Steps that stand inside another (its `inside` next ones)
 * run while that call is in progress, at the `moment`-th time that it enters or leaves the driver; if it
 * never does so often, they run behind it. Run freely, the threads keep to the dependencies that the model
 * found between steps.
 */
#ifndef ORACLE_PROGRAM_H
#define ORACLE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MAX_STEPS       256
#define MAX_MEMS        64
#define MAX_EVENTS      16
#define MAX_GRAPHS      4
#define MAX_WAITS       32 /* kernels that wait */
#define PARTIES         2  /* of a collective */
#define CTXS            3  /* the primary ones of devices 0 and 1, and another one of device 0 */
#define THREADS         3
#define GRAPH_NODES     4
#define WORDS           64                          /* of each allocation that work touches */
#define BUSY_NS(number) (UINT64_C(5000) * (number)) /* up to 1.3 ms */
#define VALUE(number)   (UINT64_C(0x0101010101010101) * (uint8_t)(number))

/* Streams have numbers: the legacy ones, each thread's, then those that were created, which are never used
 * again. */
#define LANES             64
#define LANE_LEGACY(c)    (c)
#define LANE_THREAD(c, t) (CTXS + (c)*THREADS + (t))
#define LANE_CREATED      (CTXS + CTXS * THREADS)
#define LANE_GONE(c)      (LANES - 1 - (c)) /* stands for streams of threads that have ended */
#define LANE_END          (LANES - CTXS)

typedef enum {
#define STEP(name, text, flags) STEP_##name,
#include "steps.def"
#undef STEP
  STEP_KINDS
} step_kind_t;

/* Memory of the host that copies go to: of each context, for each thread */
typedef enum {
  PLACE_PAGEABLE,
  PLACE_PINNED, /* which is mapped, too: its address is one for the device */
  PLACE_REGISTERED,
  PLACES_ON_HOST
} place_t;

enum {
  F_MEM = 1, /* which of its fields a step uses */
  F_LANE = 2,
  F_EVENT = 4,
  F_CTX = 8,
  F_GRAPH = 16,
  F_SOURCE = 32,  /* mem2 */
  F_ACCESS = 64,  /* queued work on mem */
  F_INSIDE = 128, /* may stand inside another call */
  F_AROUND = 256, /* others may stand inside it */
  F_WAIT = 512,   /* wait */
  F_LATE = 1024,  /* use of memory whose free its stream has not reached */
};

typedef struct step {
  step_kind_t kind;
  uint8_t thread, lane, mem, mem2, event, ctx, graph, wait;
  uint8_t route; /* 0: found with dlsym, 1: with cuGetProcAddress */
  uint8_t flags; /* of the call: stream flags, capture mode; of TO_HOST: which memory, a place_t */
  uint8_t value; /* written, or expected */
  uint8_t inside, moment;
  uint32_t bytes;
} step_t;

typedef struct options {
  bool ctx_events;   /* cuCtxRecordEvent (drivers since 12.5) */
  bool programmatic; /* launches that overlap the one in front of them */
  bool waits;        /* kernels that wait for the host, or for each other */
  bool late;         /* and often memory that is used after cuMemFreeAsync, in a lane that waits */
  bool ordered;      /* memory of cudaMallocAsync, too */
  bool pool_orders; /* its two calls put streams behind others as all operations do (SIMCUDA_POOL_ORDERS=1) */
  bool leaving;     /* memory of cudaMallocAsync is of its stream's context, and ends with it */
  bool free_is_async; /* cuMemFree waits for work on its memory only, not for all work */
  uint64_t limit;     /* of the library on each device; 0: none */
  uint64_t tight;     /* bytes that a program has at most on each device, which has little more; 0: ample */
  int devices;
} options_t;

typedef struct program {
  uint64_t seed;
  options_t options; /* what it is legal under */
  int count;
  step_t steps[MAX_STEPS];
  uint64_t after[MAX_STEPS][MAX_STEPS / 64]; /* steps that have to be done before, by other threads too */
} program_t;

typedef struct step_info {
  const char *name; /* as printed */
  unsigned flags;
} step_info_t;

extern const step_info_t step_infos[STEP_KINDS];

/* ---- model.c: what is legal ---- */

typedef struct model model_t;

model_t *model_new(void); /* free() */
/* An empty program begins, under its options; its `after` is filled in. */
void model_reset(model_t *model, program_t *program);
/* Appends the step if a legal program may take it now, with its value set. False: nothing has changed. */
bool model_append(model_t *model, const step_t *step);
/* Checks a whole program and fills in `after` and the values that reads expect. */
bool model_check(program_t *program);

/* What a generator asks */
typedef struct model_mem {
  bool live, busy, written, known, held; /* held: its bytes count */
  bool is_async; /* of cudaMallocAsync: of a device, and no access waits for its free */
  bool is_new;   /* is_async: its allocation is the last access */
  uint8_t ctx, value;
  int last;         /* lane; -1: none */
  uint16_t stamp;   /* counts accesses */
  uint64_t ordered; /* lanes whose next operation comes after the last access */
  int writer;
  uint32_t bytes;
} model_mem_t;

const model_mem_t *model_mem(const model_t *model, int mem);
/* Memory that may still be used although it was freed, as it was before; NULL: it may not. */
const model_mem_t *model_late_mem(const model_t *model, int mem);
bool model_lane_is_live(const model_t *model, int lane); /* -1: no */
bool model_event_is_live(const model_t *model, int event);
bool model_ctx_is_live(const model_t *model, int ctx);
bool model_graph_is_live(const model_t *model, int graph);
int model_capture(const model_t *model); /* the lane that is being captured, -1: none */
int model_new_mem(const model_t *model); /* the next number, -1: there are no more */
int model_new_lane(const model_t *model);
int model_new_event(const model_t *model);
int model_new_graph(const model_t *model);
int model_new_wait(const model_t *model);
/* Of the kernels that wait for the host (meets: for another launch) one that still does; -1: none. */
int model_open_wait(const model_t *model, bool meets);
int model_lane_ctx(const model_t *model, int lane);
bool model_share_device(int ctx, int other);
int model_open(const model_t *model); /* steps that are still to come inside the last call */

/* ---- generate.c ---- */

void generate(program_t *program, uint64_t seed, const options_t *options);

/* ---- execute.c ---- */

typedef struct outcome {
  uint64_t failed_calls, wrong_values, early_reuse, strays, violations, corrupt_stamps;
  uint64_t reuses, pending_reuses;
  /* Allocations: that natively fit; of them while a kernel waits; of the others during a capture; and
   * of the rest those for which the device has room, by its own account less what the library keeps. */
  uint64_t refused, refused_beside, refused_captured, refused_fitting;
  char first[256]; /* failure in words, "" for none */
} outcome_t;

bool execute_init(void); /* once; false: not on the simulated GPU (said on stderr) */
/* The program alone, in new contexts, of which nothing is left afterwards. */
void execute(const program_t *program, bool freely, outcome_t *ret_outcome);
bool outcome_is_good(const outcome_t *outcome);

/* ---- shrink.c ---- */

/* Takes steps away while the program stays legal and still_fails. */
void shrink(program_t *program, bool (*still_fails)(const program_t *program));

/* ---- print.c ---- */

void print_steps(FILE *file, const program_t *program);
void print_c(FILE *file, const program_t *program);

/* Whether a driver that has functions newer than the library frees memory m by one of them. In the order of a
 * stream seldom: a pool of whole blocks ends with that. */
static inline bool is_freed_by_newer(int m, bool in_order)
{
  return in_order ? m % 8 == 7 : m % 2 != 0;
}

#endif
