/*
 * Reads a snapshot from a file, whichever program wrote it.
 */
#ifndef GP_TOOLS_READ_LOAD_H
#define GP_TOOLS_READ_LOAD_H

#include "tools/read/input.h"
#include "tools/read/snapshot.h"

/*
 * Reads the snapshot at `path` ("-": stdin), compressed or not, which gpupool, PyTorch or another tool wrote
 * (read/pytorch/import.h). Recognizes the format by the content. `columns` is as for gp_snapshot_parse.
 * Returns the snapshot, which the caller destroys, or prints a message and returns NULL.
 */
gp_snapshot_t *gp_snapshot_load(const char *path, unsigned columns);

/* Like gp_snapshot_load, but reads an input, whose window must still begin with the input's first byte.
 * Returns NULL and fills *ret_error on failure. An error of the input looks like its end; check
 * input->error. */
gp_snapshot_t *gp_snapshot_parse_any(gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error);

/* Like gp_snapshot_load, but accepts only snapshots that gpupool wrote, and also returns their text in
 * *ret_text, which the caller frees. Leaves *ret_text unset if it returns NULL. */
gp_snapshot_t *gp_snapshot_load_text(const char *path, unsigned columns, char **ret_text, size_t *ret_length);

#endif
