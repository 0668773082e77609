/*
 * A file that appears complete or not at all, and never in place of another.
 */
#ifndef GP_TRACE_SNAPSHOT_FILE_H
#define GP_TRACE_SNAPSHOT_FILE_H

#include "trace/internal.h"

/*
 * Opens a temporary file (mode 0600) in the folder of path, or, if that cannot be written and may_fall_back,
 * in $TMPDIR or /tmp. Returns 0 with file->fd open, or the errno of the folder that was asked for. The caller
 * serializes.
 */
int gp_snapshot_file_open(gp_snapshot_file_t *file, const char *path, bool may_fall_back);

/*
 * Closes the file and gives it its name: that of file->path, or with ".1", ".2" ... if that is taken. Returns
 * 0 with file->published set, or an errno; the temporary file is gone in both cases.
 */
int gp_snapshot_file_publish(gp_snapshot_file_t *file);

/* Closes and removes the temporary file. */
void gp_snapshot_file_discard(gp_snapshot_file_t *file);

#endif
