/*
 * Snapshots of PyTorch (torch.cuda.memory._snapshot()), as pickle or JSON, read as if gpupool had written
 * them: doc/exports.md says what becomes of what.
 */
#ifndef GP_TOOLS_READ_PYTORCH_IMPORT_H
#define GP_TOOLS_READ_PYTORCH_IMPORT_H

#include "tools/read/input.h"
#include "tools/read/snapshot.h"

/* What the input is, by its content. A pickle shows in the first GP_IMPORT_MAGIC bytes. */
#define GP_IMPORT_MAGIC 2
bool gp_import_is_pickle(const char *text, size_t length);

/* As far as it has to be read to tell, the input stays in its window, from the beginning. */
bool gp_import_is_pytorch_json(gp_input_t *input);

/*
 * Reads the snapshot in text[0..length); text[length] is NUL. Nothing of it is executed. columns as of
 * gp_snapshot_parse. Returns the snapshot, or NULL with *ret_error filled.
 */
gp_snapshot_t *gp_import_pickle(
    const char *text, size_t length, unsigned columns, gp_snapshot_error_t *ret_error);

/* The same, of an input in JSON of which nothing but its beginning was looked at. */
gp_snapshot_t *gp_import_pytorch_json(gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error);

#endif
