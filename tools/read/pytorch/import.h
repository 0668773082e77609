/*
 * Reads PyTorch's snapshots (torch.cuda.memory._snapshot()), as pickle or JSON, as if gpupool had written
 * them. doc/exports.md says what each part becomes.
 */
#ifndef GP_TOOLS_READ_PYTORCH_IMPORT_H
#define GP_TOOLS_READ_PYTORCH_IMPORT_H

#include "tools/read/input.h"
#include "tools/read/snapshot.h"

/* Recognizes the input by its content. The first GP_IMPORT_MAGIC bytes identify a pickle. */
#define GP_IMPORT_MAGIC 2
bool gp_import_is_pickle(const char *text, size_t length);

/* The input keeps in its window all that this function had to read, from the beginning. */
bool gp_import_is_pytorch_json(gp_input_t *input);

/* Reads the snapshot in text[0..length); text[length] is NUL. Executes nothing in it. columns as for
 * gp_snapshot_parse. Returns the snapshot, or NULL with *ret_error filled. */
gp_snapshot_t *gp_import_pickle(
    const char *text, size_t length, unsigned columns, gp_snapshot_error_t *ret_error);

/* Like gp_import_pickle, from an input in JSON. The caller has read only its beginning. */
gp_snapshot_t *gp_import_pytorch_json(gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error);

#endif
