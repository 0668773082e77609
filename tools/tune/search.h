/*
 * The search of `gpupool tune`: which candidate serves all recordings best.
 */
#ifndef GP_TOOLS_TUNE_SEARCH_H
#define GP_TOOLS_TUNE_SEARCH_H

#include "tools/tune/candidates.h"

typedef enum gp_tune_goal {
  GP_TUNE_MEMORY, /* least memory held, with no more driver time than the settings in force */
  GP_TUNE_TIME,   /* least driver time, with no more memory held than these */
} gp_tune_goal_t;

/* What settings do with all recordings, from an empty pool. */
typedef struct gp_score {
  double ratio;     /* geometric mean of held over live */
  double cost_ns;   /* sum of what the driver's calls cost */
  uint64_t held;    /* sum of the most that was held */
  uint64_t live;    /* sum of the most that the programs had asked for and not freed, pooled or not */
  uint64_t calls;   /* sum */
  uint64_t refused; /* requests that found no memory */
} gp_score_t;

/* How far the search is: tried of at most so many. */
typedef void (*gp_tune_progress_fn)(int tried, int most);

typedef struct gp_tuning {
  const gp_workload_t *workloads; /* borrowed, as the next */
  size_t workload_count;
  const gp_settings_t *given; /* settled by the user */
  uint64_t capacity;
  gp_tune_goal_t goal;
  bool is_exhaustive;
  gp_tune_progress_fn progress; /* NULL: none */
  /* Results */
  gp_score_t now;     /* of the settings in force: what was given, the recording's, the default */
  gp_score_t library; /* of the library's defaults, but for what was given */
  gp_candidate_t best;
  gp_score_t score;   /* of best */
  uint64_t live_peak; /* most that a recording's program held on a device */
  int tried;          /* candidates */
  int allowed;        /* candidates that there are */
} gp_tuning_t;

/*
 * Fills the results. Returns 0, ENOMEM, ENOENT: what the user settled leaves no candidate, or ENODATA: there
 * is no request that a pool would serve.
 */
int gp_tune(gp_tuning_t *tuning);

#endif
