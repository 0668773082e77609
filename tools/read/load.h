/*
 * Reads a snapshot from a file, whatever program wrote it.
 */
#ifndef GP_TOOLS_READ_LOAD_H
#define GP_TOOLS_READ_LOAD_H

#include "tools/read/input.h"
#include "tools/read/snapshot.h"

/*
 * Reads the file at path ("-": stdin): a snapshot of gpupool or of PyTorch (read/pytorch/import.h),
 * compressed or not. The content tells which. columns: as for gp_snapshot_parse. Returns the
 * snapshot, which the caller destroys, or NULL after a message.
 */
gp_snapshot_t *gp_snapshot_load(const char *path, unsigned columns);

/* Like gp_snapshot_load, from an input. Only its beginning was read, and is still in the window. NULL:
 * *ret_error is filled; an error of the input looks like its end, so check input->error. */
gp_snapshot_t *gp_snapshot_parse_any(gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error);

/* Reads a snapshot of gpupool at path. *ret_text receives its text, which the caller frees; not
 * set if the function returns NULL. */
gp_snapshot_t *gp_snapshot_load_text(const char *path, unsigned columns, char **ret_text, size_t *ret_length);

#endif
