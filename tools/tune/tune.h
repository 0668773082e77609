/*
 * Replays a recording with each type of pool, for `gpupool tune` and the findings of `gpupool summary`.
 */
#ifndef GP_TOOLS_TUNE_TUNE_H
#define GP_TOOLS_TUNE_TUNE_H

#include "tools/replay/settings.h"

struct gp_findings; /* tools/model/findings.h */
struct gp_summary;

/* What settings achieve over a recording, on all devices, from an empty pool. */
typedef struct gp_score {
  const char *name; /* "now", a type, "prewarmed" */
  uint64_t held;    /* most bytes that the driver had given */
  uint64_t live;    /* most bytes that the program had asked for and not freed, pooled or not */
  double cost_ns;   /* of the driver calls on an idle device, and ... */
  double busy_ns;   /* ... while kernels run */
  uint64_t calls;
  uint64_t refused; /* requests that find no memory */
} gp_score_t;

/* The scores: first of the settings of the recording, and those that were given; then of each type without
 * prewarmed memory, unless some was given; last of the best type with `prewarm`, if that has a text. */
typedef struct gp_tuning {
  const gp_workload_t *workload; /* borrowed */
  uint64_t capacity;             /* as for gp_simulate */
  /* Results, zeroed before */
  gp_score_t scores[6];
  int count;
  int best;                           /* index of a type */
  bool cuts;                          /* the best type serves requests from parts of larger memory */
  char prewarm[GP_OPTION_TEXT_BYTES]; /* of GPUPOOL_PREWARM; "": nothing to add */
} gp_tuning_t;

/* The best type refuses fewest requests; of equal ones it holds least, among those that take no more driver
 * time than now. The given type, if any, is one that pools, or "all". Returns 0; ENOMEM; ENODATA if no
 * request would go to a pool. */
int gp_tune(gp_tuning_t *tuning, const gp_settings_t *given, bool adds_prewarm);

/* summary_trials.c: gp_findings_init, after trying other types of pool where that may matter. */
int gp_summary_findings(struct gp_findings *findings, const struct gp_summary *summary);

#endif
