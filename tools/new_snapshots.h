/*
 * Which snapshots a program wrote: the files that match the output pattern afterwards and did not before. The
 * library never overwrites, so a new name is a new file, whatever the clocks say. Those of `gpupool run` hold
 * its id, too (run_id.h): others may write there meanwhile.
 */
#ifndef GP_TOOLS_NEW_SNAPSHOTS_H
#define GP_TOOLS_NEW_SNAPSHOTS_H

#include <glob.h>
#include <stddef.h>
#include <sys/types.h>

#include "pool/util/path.h"

typedef struct gp_new_snapshots {
  char pattern[2 * GP_PATH_BYTES];  /* of glob(3), every placeholder a star */
  char fallback[2 * GP_PATH_BYTES]; /* the same in the folder for when that cannot be written */
  glob_t before;
  glob_t after;
  const char **names; /* new ones, by name; borrowed from after */
  size_t count;
} gp_new_snapshots_t;

/* Notes what is there. output is a checked pattern with placeholders (path.h). Fini it in any case. */
void gp_new_snapshots_begin(gp_new_snapshots_t *written, const char *output);

/* Fills names and count; those whose name holds the number pid come first, the program's own before its
 * children's. run: only those of the run with that id, and of runs inside it; NULL: of any or none. */
void gp_new_snapshots_end(gp_new_snapshots_t *written, pid_t pid, const char *run);

/* The one that says most: written when memory ran out, else the first. Only if there is one. Borrowed. */
const char *gp_new_snapshots_best(const gp_new_snapshots_t *written);

void gp_new_snapshots_fini(gp_new_snapshots_t *written);

#endif
