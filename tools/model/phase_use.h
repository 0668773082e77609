/*
 * What the program held in each phase, and what it left.
 */
#ifndef GP_TOOLS_MODEL_PHASE_USE_H
#define GP_TOOLS_MODEL_PHASE_USE_H

#include "tools/model/filter.h"
#include "tools/model/lifetimes.h"
#include "tools/model/moments.h"
#include "tools/model/phases.h"

/* All phases of one name. Bytes are those asked for, without host memory. */
typedef struct gp_phase_row {
  const char *name; /* belongs to the snapshot */
  uint64_t times;   /* how often it began */
  uint64_t peak; /* most that the whole program held, on all devices together, while a thread was in it or in
                    a range inside it; of ranges of the process while they were the newest */
  uint64_t left; /* of what was allocated in it, and in ranges inside it: held at the moments in question */
  uint64_t ends; /* how often it ended while events were recorded; 0: the next three are not known */
  uint64_t first_end; /* what the whole program held the first time that it ended; with the last time, */
  uint64_t last_end;  /* that tells whether it grows from step to step */
  uint64_t most_end;  /* the most at any end */
} gp_phase_row_t;

typedef struct gp_phase_use {
  gp_phase_row_t *rows; /* in the order in which they first begin */
  size_t count;
} gp_phase_use_t;

/* filter selects what was allocated, and by whom; moments say when `left` holds. Returns 0 or ENOMEM; call
 * fini in any case. A snapshot without marks has no rows. */
int gp_phase_use_init(gp_phase_use_t *use, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments);
void gp_phase_use_fini(gp_phase_use_t *use);

#endif
