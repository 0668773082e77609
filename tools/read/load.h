/*
 * Reads a snapshot from a file, no matter which program wrote it.
 */
#ifndef GP_TOOLS_READ_LOAD_H
#define GP_TOOLS_READ_LOAD_H

#include "tools/read/input.h"
#include "tools/read/snapshot.h"

/*
 * Reads the file at path ("-": stdin), a snapshot of gpupool or of PyTorch (read/pytorch/import.h),
 * compressed or not. Recognizes the format by the content. columns is as for gp_snapshot_parse. Returns the
 * snapshot, which the caller destroys, or NULL after it has printed a message.
 */
gp_snapshot_t *gp_snapshot_load(const char *path, unsigned columns);

/* Like gp_snapshot_load, but reads an input, whose window must still start at the beginning of the input. If
 * it returns NULL, *ret_error is filled. An error of the input looks like its end, so check input->error. */
gp_snapshot_t *gp_snapshot_parse_any(gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error);

/* Like gp_snapshot_load, but accepts only gpupool's own snapshots. Also returns the text in *ret_text, which
 * the caller frees; it is not set if the function returns NULL. */
gp_snapshot_t *gp_snapshot_load_text(const char *path, unsigned columns, char **ret_text, size_t *ret_length);

#endif
