/*
 * Measures how much memory the program had in use during each phase, and how much each phase left in use.
 */
#ifndef GP_TOOLS_MODEL_PHASE_USE_H
#define GP_TOOLS_MODEL_PHASE_USE_H

#include "tools/model/filter.h"
#include "tools/model/lifetimes.h"
#include "tools/model/moments.h"
#include "tools/model/phases.h"

/* All phases with the same name. Bytes are requested bytes of device memory. */
typedef struct gp_phase_row {
  const char *name; /* belongs to the snapshot */
  uint64_t times;   /* number of times the phase began */
  /* The most bytes that the program had in use, on all devices together, while a thread was in the phase or a
   * range inside it. For ranges of the process: while they were the newest open range. */
  uint64_t peak;
  uint64_t
      left; /* bytes allocated in the phase, or in ranges inside it, that are in use at the report's moment */
  uint64_t ends;      /* times the phase ended while events were recorded; 0: the next three are unknown */
  uint64_t first_end; /* bytes that the program had in use when the phase first ended, and ... */
  uint64_t last_end;  /* ... when it last ended; the difference shows growth from step to step */
  uint64_t most_end;  /* the most bytes in use at any end of the phase */
} gp_phase_row_t;

typedef struct gp_phase_use {
  gp_phase_row_t *rows; /* in the order in which the phases first begin */
  size_t count;
} gp_phase_use_t;

/* Measures the phases. Counts allocations that `filter` selects; `left` is the part in use at `moments`. A
 * snapshot without marks gives no rows. Returns 0 or ENOMEM; call gp_phase_use_fini in any case. */
int gp_phase_use_init(gp_phase_use_t *use, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments);
void gp_phase_use_fini(gp_phase_use_t *use);

#endif
