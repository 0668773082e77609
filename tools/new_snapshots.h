/*
 * Finds the snapshots that a program wrote: files that match the output pattern after it ran, but not before.
 * The library never overwrites a file, so a new name is a new file, whatever its timestamps. A snapshot of
 * `gpupool run` also contains the run's id (run_id.h). The id excludes files that other programs write to the
 * folder at the same time.
 */
#ifndef GP_TOOLS_NEW_SNAPSHOTS_H
#define GP_TOOLS_NEW_SNAPSHOTS_H

#include <glob.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/path.h"

typedef struct gp_new_snapshots {
  char pattern[2 * GP_PATH_BYTES];  /* for glob(3), with every placeholder replaced by '*' */
  char fallback[2 * GP_PATH_BYTES]; /* the pattern in the fallback folder */
  glob_t before;
  glob_t after;
  const char **names; /* names of the new files, sorted; they point into `after` */
  size_t count;
} gp_new_snapshots_t;

/* Records which files exist. `output` is a valid pattern with placeholders (path.h). Call
 * gp_new_snapshots_fini in any case. */
void gp_new_snapshots_begin(gp_new_snapshots_t *written, const char *output);

/*
 * Fills `names` and `count`. Files whose names contain `pid` come first, so that the program's snapshots
 * precede its children's. If `run` is not NULL, includes only files of the run with that id, and of runs
 * inside that run.
 */
void gp_new_snapshots_end(gp_new_snapshots_t *written, pid_t pid, const char *run);

/* Returns the name of the most informative snapshot: one that was written when memory ran out, or else the
 * first. `count` must not be 0. *ret_is_oom is true if device memory ran out. The name is borrowed. */
const char *gp_new_snapshots_best(const gp_new_snapshots_t *written, bool *ret_is_oom);

void gp_new_snapshots_fini(gp_new_snapshots_t *written);

#endif
