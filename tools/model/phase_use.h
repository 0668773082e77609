/*
 * How much memory the program had in use during each phase, and how much of it each phase left in use.
 */
#ifndef GP_TOOLS_MODEL_PHASE_USE_H
#define GP_TOOLS_MODEL_PHASE_USE_H

#include "tools/model/filter.h"
#include "tools/model/lifetimes.h"
#include "tools/model/moments.h"
#include "tools/model/phases.h"

/* All phases of one name. Bytes are requested bytes of device memory. */
typedef struct gp_phase_row {
  const char *name; /* belongs to the snapshot */
  uint64_t times;   /* how often it began */
  uint64_t peak; /* most that the whole program had in use, on all devices together, while a thread was in the
                    phase or in a range inside it; for ranges of the process, while they were the newest */
  uint64_t left; /* allocated in the phase or in ranges inside it, and in use at the report's moment */
  uint64_t ends; /* how often it ended while events were recorded; 0: the next three are not known */
  uint64_t first_end; /* what the whole program had in use when the phase first ended, and ... */
  uint64_t last_end;  /* ... when it last ended: the difference shows growth from step to step */
  uint64_t most_end;  /* the most at any end */
} gp_phase_row_t;

typedef struct gp_phase_use {
  gp_phase_row_t *rows; /* in the order in which they first begin */
  size_t count;
} gp_phase_use_t;

/* Measures the phases. Counts allocations that filter selects; `left` is what was in use at moments. A
 * snapshot without marks has no rows. Returns 0 or ENOMEM; call fini in any case. */
int gp_phase_use_init(gp_phase_use_t *use, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments);
void gp_phase_use_fini(gp_phase_use_t *use);

#endif
