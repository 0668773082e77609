/*
 * Reads a snapshot that gpupool wrote (trace/FORMAT.md).
 */
#ifndef GP_TOOLS_READ_NATIVE_SNAPSHOT_READER_H
#define GP_TOOLS_READ_NATIVE_SNAPSHOT_READER_H

#include "tools/read/input.h"
#include "tools/read/snapshot.h"

/*
 * Reads the snapshot in text[0..length); text[length] must be NUL. `columns` is a mask of 1 << GP_COLUMN_*
 * bits. Other columns are only checked. Returns the snapshot, which the caller destroys. Returns NULL and
 * fills *ret_error after an error.
 */
gp_snapshot_t *gp_snapshot_parse(
    const char *text, size_t length, unsigned columns, gp_snapshot_error_t *ret_error);

/* Like gp_snapshot_parse, but reads an input, of which the caller has read only the beginning. An error of
 * the input itself looks like the end of the input, so check input->error. */
gp_snapshot_t *gp_snapshot_parse_input(gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error);

#endif
