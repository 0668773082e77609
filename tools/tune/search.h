/*
 * The search of `gpupool tune`: which candidate serves all recordings best.
 */
#ifndef GP_TOOLS_TUNE_SEARCH_H
#define GP_TOOLS_TUNE_SEARCH_H

#include "tools/tune/candidates.h"

typedef enum gp_tune_goal {
  GP_TUNE_MEMORY, /* least memory held, with no more driver time than the settings in force */
  GP_TUNE_TIME,   /* least driver time, with no more memory held than the settings in force */
} gp_tune_goal_t;

/* What settings achieve over all recordings, each from an empty pool. */
typedef struct gp_score {
  double ratio;     /* geometric mean of held over live */
  double cost_ns;   /* sum of the driver calls' cost on an idle device, and ... */
  double busy_ns;   /* ... beside kernels */
  uint64_t held;    /* sum of the peaks of held memory */
  uint64_t live;    /* sum of the peaks that the programs had asked for and not freed, pooled or not */
  uint64_t calls;   /* sum of driver calls */
  uint64_t early;   /* of these, in the first allocation on each device */
  uint64_t refused; /* requests that find no memory, and ... */
  uint64_t missed;  /* ... of these, those that found none in the recording either */
} gp_score_t;

/* Progress: candidates tried so far, of `most` at most. */
typedef void (*gp_tune_progress_fn)(int tried, int most);

typedef struct gp_tuning {
  const gp_workload_t *workloads; /* borrowed, like the next */
  size_t workload_count;
  const gp_settings_t *given; /* the user's settings; NULL: none */
  uint64_t capacity;
  gp_tune_goal_t goal;
  bool is_exhaustive;
  bool adds_prewarm;            /* to the settings that were found */
  gp_tune_progress_fn progress; /* NULL: none */
  /* Results */
  gp_score_t now;     /* score of the settings in force: the user's, the recording's, the default */
  gp_score_t library; /* score of the library's defaults with the user's settings */
  gp_candidate_t best;
  gp_score_t score;                          /* score of best, without `prewarm` */
  char prewarm[GP_OPTION_TEXT_BYTES];        /* of GPUPOOL_PREWARM, with adds_prewarm; "": nothing to add */
  gp_score_t prewarmed;                      /* score of best and `prewarm` */
  gp_score_t types[GP_CANDIDATE_TYPES_MOST]; /* of each type, all else at the library's defaults */
  bool is_scored[GP_CANDIDATE_TYPES_MOST];   /* false: the user's settings do not allow it */
  uint64_t live_peak;                        /* the most that a recorded program held on a device */
  int tried;                                 /* number of candidates */
  int allowed;                               /* number of candidates that the user's settings allow */
} gp_tuning_t;

/* Fills only `now` and `types`. Returns 0, ENOMEM, or ENODATA as gp_tune. */
int gp_tune_types(gp_tuning_t *tuning);

/* Fills the results. Returns 0; ENOMEM; ENOENT if the user's settings leave no candidate; ENODATA if
 * no request would go to a pool. */
int gp_tune(gp_tuning_t *tuning);

#endif
