/*
 * Finds when gpupool's pool, of a recording, knew that the device was done with freed memory. The events that
 * tell which blocks became reusable (free_completed) show it; a recording has no synchronizations.
 */
#ifndef GP_TOOLS_REPLAY_FACTS_H
#define GP_TOOLS_REPLAY_FACTS_H

#include "tools/model/lifetimes.h"

/* The pool knew before event `end` that everything freed up to event `begin` was complete; begin < end.
 * is_drained: all of it became reusable then, in one allocation that found nothing else. */
typedef struct gp_fact {
  uint32_t begin;
  uint32_t end;
  bool is_drained;
} gp_fact_t;

/* Of one device: begin and end grow from each fact to the next. */
typedef struct gp_facts {
  gp_fact_t *facts;
  size_t count;
} gp_facts_t;

/*
 * Blocks become reusable in the order of their frees, a few with each operation (pool/reuse/drain.h). So one
 * fact may cover blocks that became reusable in different operations: it does if every operation between them
 * moved as many blocks as it may. Returns 0 or ENOMEM. Call fini in any case.
 */
int gp_facts_find(gp_facts_t *facts, const gp_lifetimes_t *lifetimes, int device);
void gp_facts_fini(gp_facts_t *facts);

#endif
