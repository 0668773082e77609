/*
 * Which snapshots a program wrote: files that match the output pattern afterwards and did not before. The
 * library never overwrites, so a new name is a new file, whatever its timestamps. Snapshots of `gpupool
 * run` also hold the run's id (run_id.h), because other programs may write to that folder meanwhile.
 */
#ifndef GP_TOOLS_NEW_SNAPSHOTS_H
#define GP_TOOLS_NEW_SNAPSHOTS_H

#include <glob.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/path.h"

typedef struct gp_new_snapshots {
  char pattern[2 * GP_PATH_BYTES];  /* for glob(3), every placeholder a star */
  char fallback[2 * GP_PATH_BYTES]; /* the same in the fallback folder */
  glob_t before;
  glob_t after;
  const char **names; /* new files, sorted by name; borrowed from after */
  size_t count;
} gp_new_snapshots_t;

/* Notes which files exist. output is a checked pattern with placeholders
 * (path.h). Call fini in any case. */
void gp_new_snapshots_begin(gp_new_snapshots_t *written, const char *output);

/*
 * Fills names and count. Files whose names hold the number pid come first: the program's own before its
 * children's. run: only files of the run with that id and of runs inside it; NULL: files of any run or
 * none.
 */
void gp_new_snapshots_end(gp_new_snapshots_t *written, pid_t pid, const char *run);

/* The most informative one: written when memory ran out, else the first. Needs count > 0. *ret_is_oom: memory
 * of a device ran out. Borrowed. */
const char *gp_new_snapshots_best(const gp_new_snapshots_t *written, bool *ret_is_oom);

void gp_new_snapshots_fini(gp_new_snapshots_t *written);

#endif
