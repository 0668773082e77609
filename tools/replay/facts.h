/*
 * When the pool of a recording knew the device to be done with freed memory, from the events that tell which
 * blocks became reusable (free_completed). A recording has no synchronizations; this is what they left.
 */
#ifndef GP_TOOLS_REPLAY_FACTS_H
#define GP_TOOLS_REPLAY_FACTS_H

#include "tools/model/lifetimes.h"

/*
 * All that was freed up to event `begin` was known to be complete before event `end`, begin < end.
 * is_drained: and all of it became reusable then, with one allocation that found nothing else.
 */
typedef struct gp_fact {
  uint32_t begin;
  uint32_t end;
  bool is_drained;
} gp_fact_t;

/* Of one device: both members grow from one to the next. */
typedef struct gp_facts {
  gp_fact_t *facts;
  size_t count;
  size_t room; /* private */
} gp_facts_t;

/*
 * is_by_context: the recording is of gpupool's pool, where blocks become reusable in the order of their
 * frees, a few with each operation (pool/reuse/drain.h). So a block that became reusable with a later
 * operation than another one may have been known to be complete with it: it was, if every operation between
 * moved as many blocks as it may. Else a fact is about no more than what was freed before any block that was
 * still in use. Returns 0 or ENOMEM. Fini it in any case.
 */
int gp_facts_find(gp_facts_t *facts, const gp_lifetimes_t *lifetimes, int device, bool is_by_context);
void gp_facts_fini(gp_facts_t *facts);

#endif
