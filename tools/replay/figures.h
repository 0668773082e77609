/*
 * The figures of a simulation that reports show: of one pass on one device, or on all together.
 */
#ifndef GP_TOOLS_REPLAY_FIGURES_H
#define GP_TOOLS_REPLAY_FIGURES_H

#include "tools/replay/simulation.h"

/* Bytes, and counts of one pass. Peaks of several devices add up, because each has its own memory. */
typedef struct gp_figures {
  uint64_t live_peak;     /* requested by the program, of pooled memory */
  uint64_t asked_peak;    /* the same of all memory */
  uint64_t reserved_peak; /* held by the pool, or outside the pool */
  uint64_t held_peak;     /* given by the driver, in whole pages */
  uint64_t deferred_peak; /* freed, and not known to be complete */
  uint64_t split_peak;    /* idle, in segments with another part in use */
  uint64_t hits;
  uint64_t misses;
  uint64_t driver_allocs;
  uint64_t driver_frees;
  uint64_t fences;
  uint64_t host_waits;
  uint64_t refused;
  uint64_t first_refused;
  uint64_t refused_size;
  uint64_t granted;
  uint64_t declined;
} gp_figures_t;

/* device: GP_REQUEST_ALL_DEVICES for the sum. */
void gp_figures_of(gp_figures_t *ret_figures, const gp_simulation_t *simulation,
    const gp_workload_t *workload, gp_pass_t pass, int device);

/* 0..1, and 1 or more; 0 if the divisor is 0. */
double gp_figures_hit_rate(const gp_figures_t *figures);
double gp_figures_ratio(const gp_figures_t *figures); /* held divided by requested */

#endif
