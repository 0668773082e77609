/*
 * What the model knows while a program is made: for model.c, which has the effects of steps, legal.c, which
 * says which step may come next, and questions.c, which answers a generator. All others see gen.h.
 */
#ifndef MODEL_STATE_H
#define MODEL_STATE_H

#include "behind.h"

#define BIT(n) (UINT64_C(1) << (n))

typedef struct {
  bool live;
  uint8_t ctx, thread;
  enum { LEGACY, BLOCKING, NONBLOCKING } kind;
  int writer;
  uint32_t gates; /* kernels that wait for a flag, in front of all that comes; perhaps not all */
} lane_t;

typedef struct {
  bool live, recorded;
  uint8_t ctx;
  uint16_t version;
  int writer;
  uint32_t gates;       /* of the lane of the last record */
  int covers[MAX_MEMS]; /* the access that the last record comes after; -1: none */
} event_t;

typedef struct {
  bool live;
  uint8_t ctx;
  int writer;
  bool has_memory; /* nodes of its own memory */
  int count;
  uint8_t mems[GRAPH_NODES], values[GRAPH_NODES];
} graph_t;

/*
 * Memory that was freed in the order of a lane that waits for flags, until the first of these is written.
 * Legal to use as before the free, in lanes for which the host can wait: the step does, so that the use is
 * over when the flag is written.
 */
typedef struct {
  uint32_t gates;  /* 0: it may not be used any more */
  model_mem_t mem; /* as it was before the free, and late uses since */
} late_t;

/* A call in progress that steps stand inside */
typedef struct {
  int steps; /* still to come */
  step_t step;
  int index;
  uint16_t event_version;
  int covers[MAX_MEMS];
} around_t;

struct model {
  program_t *program;
  model_mem_t mems[MAX_MEMS];
  late_t lates[MAX_MEMS];
  lane_t lanes[LANES];
  event_t events[MAX_EVENTS];
  graph_t graphs[MAX_GRAPHS];
  bool ctx_live[CTXS];
  int blocking_since[CTXS]; /* the step that made the first blocking stream which a pool knows; -1: none */
  int mem_count, lane_count, event_count, graph_count;
  int barrier; /* the last step that all later ones come after; -1: none */
  int capture, capture_thread, capture_mode;
  bool freed_in_order; /* beside the capture */
  graph_t captured;
  around_t around;
  behind_t behind;
  uint64_t writes[MAX_STEPS / 64], frees[MAX_STEPS / 64]; /* steps that write a flag, and that free memory */
  int last_launch, last_ctx_wait; /* the last launch of a kernel that waits, and CTX_WAIT; -1: none */
  int last_of_thread[THREADS];
};

/* model.c. Lanes and kernels that wait are bits of sets. */
uint64_t model_lanes_in(const model_t *model, int ctx, bool blocking_only);
uint32_t model_behind_next(const model_t *model, int l);
bool model_is_of_two(step_kind_t kind);
bool model_may_access(const model_t *model, const step_t *step, int m);
bool model_may_use_late(const model_t *model, const step_t *step);
bool model_is_of_ctx(const model_t *model, const model_mem_t *mem); /* ends with that */

/* legal.c. waits_for: the kernels for which the step's call would wait natively; would_hang: it would not
 * return. */
bool model_reads_only(step_kind_t kind);
bool model_waits_for(const model_t *model, const step_t *step, uint32_t *ret_set);
bool model_would_hang(const model_t *model, const step_t *step);
bool model_is_legal(const model_t *model, const step_t *step);

#endif
