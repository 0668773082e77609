/*
 * Writes a file that either appears complete or does not appear, and that never replaces another file.
 */
#ifndef GP_TRACE_SNAPSHOT_FILE_H
#define GP_TRACE_SNAPSHOT_FILE_H

#include <stdbool.h>

#include "base/path.h"

typedef struct gp_snapshot_file {
  int fd;         /* the open temporary file; invalid after publish or discard */
  bool fell_back; /* the file is in a fallback folder, because the requested folder was not writable */
  unsigned temporaries;
  char path[GP_PATH_BYTES];      /* the requested path, or the path in the fallback folder */
  char temporary[GP_PATH_BYTES]; /* path of the temporary file, which exists while fd is open */
  char published[GP_PATH_BYTES]; /* the final path */
} gp_snapshot_file_t;

/*
 * Opens a temporary file (mode 0600) in the folder of `path`. If that folder is not writable and
 * may_fall_back is set, uses $TMPDIR or /tmp instead. Returns 0 with file->fd open, or the errno for the
 * requested folder. The caller serializes calls.
 */
int gp_snapshot_file_open(gp_snapshot_file_t *file, const char *path, bool may_fall_back);

/*
 * Closes the file and renames it to file->path, with ".1", ".2" ... appended if that name exists. Returns 0
 * with file->published set, or an errno. The temporary file no longer exists in either case.
 */
int gp_snapshot_file_publish(gp_snapshot_file_t *file);

/* Closes and removes the temporary file. */
void gp_snapshot_file_discard(gp_snapshot_file_t *file);

#endif
