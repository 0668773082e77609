/*
 * Replays a recording with each pool type, for `gpupool tune` and the findings of `gpupool summary`.
 */
#ifndef GP_TOOLS_TUNE_TUNE_H
#define GP_TOOLS_TUNE_TUNE_H

#include "tools/replay/settings.h"

struct gp_findings; /* tools/model/findings.h */
struct gp_summary;

/* The result of replaying a recording with some settings, on all devices, from an empty pool. */
typedef struct gp_score {
  const char *name; /* "now", a pool type, or "prewarmed" */
  uint64_t held;    /* peak of the bytes reserved from the driver */
  uint64_t live;    /* peak of the requested bytes that the program had in use, pooled or not */
  double cost_ns;   /* time that the driver calls take on an idle device */
  double busy_ns;   /* time that the driver calls take while kernels run */
  uint64_t calls;
  uint64_t refused; /* number of requests that fail for lack of memory */
} gp_score_t;

/* The scores of several settings. The first is for the recorded settings with the given ones. One for each
 * pool type follows, without prewarmed memory unless it was given. The last is for the best type with
 * `prewarm`, unless `prewarm` is "". */
typedef struct gp_tuning {
  const gp_workload_t *workload; /* borrowed */
  uint64_t capacity;             /* as for gp_simulate */
  /* The results, which the caller zeroes before the call */
  gp_score_t scores[6];
  int count;
  int best;                           /* index of the best type in `scores` */
  bool cuts;                          /* true if the best type divides larger segments into blocks */
  char prewarm[GP_OPTION_TEXT_BYTES]; /* recommended value of GPUPOOL_PREWARM; "": none */
} gp_tuning_t;

/* Fills the results. The best type refuses the fewest requests. Among equal types, one that needs no more
 * driver time than the recorded settings wins, and then the one that reserves the least. If `given` has a
 * type, it must be one that pools, or "all". With `adds_prewarm`, also computes a value of GPUPOOL_PREWARM.
 * Returns 0, ENOMEM, or ENODATA if no request would go to a pool. */
int gp_tune(gp_tuning_t *tuning, const gp_settings_t *given, bool adds_prewarm);

/* Calls gp_findings_init. Before that, tries other pool types if the result may matter (summary_trials.c). */
int gp_summary_findings(struct gp_findings *findings, const struct gp_summary *summary);

#endif
