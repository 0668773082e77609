/*
 * The figures of a simulation that reports show: one pass, on one device or on all together.
 */
#ifndef GP_TOOLS_REPLAY_FIGURES_H
#define GP_TOOLS_REPLAY_FIGURES_H

#include "tools/replay/simulation.h"

/* Bytes and counts of one pass. The peak of several devices is the sum of theirs: each has its own memory. */
typedef struct gp_figures {
  uint64_t live_peak;     /* requested bytes of pooled memory in use by the program */
  uint64_t asked_peak;    /* requested bytes of all memory in use by the program */
  uint64_t reserved_peak; /* reserved by the pool, or outside the pool */
  uint64_t held_peak;     /* allocated from the driver, in whole pages */
  uint64_t deferred_peak; /* freed, but the device's work on it is not known to be complete */
  uint64_t split_peak;    /* idle, in segments of which another part is in use */
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

/* Gets the figures of a pass on device, or on all together (GP_REQUEST_ALL_DEVICES). */
void gp_figures_of(gp_figures_t *ret_figures, const gp_simulation_t *simulation,
    const gp_workload_t *workload, gp_pass_t pass, int device);

double gp_figures_hit_rate(const gp_figures_t *figures); /* 0..1; 0 without requests */
double gp_figures_ratio(const gp_figures_t *figures);    /* held_peak / asked_peak; 0 without requests */

#endif
