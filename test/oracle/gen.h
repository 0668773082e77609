/*
 * What the parts of the generator share: generate.c; single.c, which knows about programs with one stream;
 * waiting.c, which knows about kernels that wait; ordered.c, which knows about memory of cudaMallocAsync.
 */
#ifndef ORACLE_GEN_H
#define ORACLE_GEN_H

#include "program.h"

typedef struct {
  model_t *model;
  program_t *program;
  const options_t *options;
  uint64_t random;
  int threads;
  int ctxs;         /* that this program may use */
  uint32_t size;    /* of most allocations */
  bool single;      /* for now, work goes to the default stream of context 0 only */
  bool own_streams; /* the first thread has work in its own default stream, too, which does not end before it
                     */
  unsigned often;   /* steps of kernels that wait, in 100 gestures */
} gen_t;

unsigned draw(gen_t *gen, unsigned below);
bool chance(gen_t *gen, unsigned percent);
bool emit(gen_t *gen, step_t step); /* false: not legal now */
step_t some(gen_t *gen, step_kind_t kind);

/* Each returns a number, -1 for none, or whether there was such a step. */
int pick_ctx(gen_t *gen);
int pick_lane(gen_t *gen, int ctx);
int pick_mem(gen_t *gen);
int new_lane(gen_t *gen, int ctx);
int allocate(gen_t *gen, int ctx);
bool use(gen_t *gen, int m, int lane);
bool release(gen_t *gen, int m);
/* The next operation of the lane comes after the last access of the memory. */
bool order_behind(gen_t *gen, int m, int lane);
void synchronize(gen_t *gen); /* something */
void capture(gen_t *gen);     /* begins one, or ends the one that is running */

/* single.c: the program gets a second stream in one of the ways that there are, at a bad moment; and loses
 * all but one. */
void leave_single(gen_t *gen);
void enter_single(gen_t *gen);

/* waiting.c: kernels that wait for the host, or for each other. With options->waits only. */
void choose_waits(gen_t *gen);
bool wait_somehow(gen_t *gen); /* false: not now */
void end_waits(gen_t *gen);    /* all that are open, behind the last step */

/* ordered.c: memory of cudaMallocAsync, taken in a lane, freed in one that may be another. With
 * options->ordered only. */
int allocate_async(gen_t *gen, int lane);
bool release_async(gen_t *gen, int m);
void ordered_somehow(gen_t *gen);
void capture_memory(gen_t *gen);         /* of the graph that is being captured */
void give_up_async(gen_t *gen, int ctx); /* what keeps the context from its end */

#endif
