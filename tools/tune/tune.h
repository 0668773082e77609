/*
 * Replays a recording with each pool type, for `gpupool tune` and the findings of `gpupool summary`.
 */
#ifndef GP_TOOLS_TUNE_TUNE_H
#define GP_TOOLS_TUNE_TUNE_H

#include "tools/replay/settings.h"

struct gp_findings; /* tools/model/findings.h */
struct gp_summary;

/* Result of replaying a recording with some settings, on all devices, from an empty pool. */
typedef struct gp_score {
  const char *name; /* "now", a pool type, "prewarmed" */
  uint64_t held;    /* peak of the bytes reserved from the driver */
  uint64_t live;    /* peak of the requested bytes that the program had in use, pooled or not */
  double cost_ns;   /* time of the driver calls on an idle device, and ... */
  double busy_ns;   /* ... while kernels run */
  uint64_t calls;
  uint64_t refused; /* requests that fail for lack of memory */
} gp_score_t;

/* The scores, in this order: the recorded settings with the given ones; each pool type, without prewarmed
 * memory unless that was given; the best type with `prewarm`, unless that is "". */
typedef struct gp_tuning {
  const gp_workload_t *workload; /* borrowed */
  uint64_t capacity;             /* as for gp_simulate */
  /* Results, zeroed before */
  gp_score_t scores[6];
  int count;
  int best;                           /* index of a type */
  bool cuts;                          /* the best type divides larger segments into blocks */
  char prewarm[GP_OPTION_TEXT_BYTES]; /* advised value of GPUPOOL_PREWARM; "": none */
} gp_tuning_t;

/* Fills the results. The best type refuses fewest requests; among equals, types that take no more driver time
 * than the recorded settings win, then the one that reserves least. A type in `given` must be one that pools,
 * or "all". With adds_prewarm also looks for a value of GPUPOOL_PREWARM. Returns 0, ENOMEM, or ENODATA if no
 * request would go to a pool. */
int gp_tune(gp_tuning_t *tuning, const gp_settings_t *given, bool adds_prewarm);

/* Calls gp_findings_init, after trying other pool types if the result may matter (summary_trials.c). */
int gp_summary_findings(struct gp_findings *findings, const struct gp_summary *summary);

#endif
