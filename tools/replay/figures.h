/*
 * The figures of a simulation that reports show, for one pass, on one device or on all devices together.
 */
#ifndef GP_TOOLS_REPLAY_FIGURES_H
#define GP_TOOLS_REPLAY_FIGURES_H

#include "tools/replay/simulation.h"

/* Bytes and counts of one pass. Each device has its own memory, so peaks of several devices are added. */
typedef struct gp_figures {
  uint64_t live_peak;     /* requested bytes of pooled memory that the program has in use */
  uint64_t asked_peak;    /* requested bytes of all memory that the program has in use */
  uint64_t reserved_peak; /* reserved bytes of the pool, plus forwarded bytes */
  uint64_t held_peak;     /* bytes allocated from the driver, in whole pages */
  uint64_t deferred_peak; /* freed bytes that pending work may still access, as far as the pool knows */
  uint64_t split_peak;    /* idle bytes in segments of which another part is in use */
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

/* Gets the figures of a pass on `device`, or on all devices together (GP_REQUEST_ALL_DEVICES). */
void gp_figures_of(gp_figures_t *ret_figures, const gp_simulation_t *simulation,
    const gp_workload_t *workload, gp_pass_t pass, int device);

double gp_figures_hit_rate(const gp_figures_t *figures); /* from 0 to 1; 0 without requests */
double gp_figures_ratio(const gp_figures_t *figures);    /* held_peak / asked_peak; 0 without requests */

#endif
