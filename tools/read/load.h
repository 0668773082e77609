/*
 * Reads a snapshot from a file, whatever program wrote it.
 */
#ifndef GP_TOOLS_READ_LOAD_H
#define GP_TOOLS_READ_LOAD_H

#include "tools/read/snapshot.h"

/*
 * Reads the file at path ("-": stdin): a snapshot of gpupool or of PyTorch (read/pytorch/import.h), told
 * apart by the content, and compressed or not (decompress.h). columns: as of gp_snapshot_parse. Returns the
 * snapshot, which the caller destroys, or NULL after a message.
 */
gp_snapshot_t *gp_snapshot_load(const char *path, unsigned columns);

/* Reads a snapshot of gpupool at path. *ret_text is its text, which the caller frees; it is not set if the
 * function returns NULL. */
gp_snapshot_t *gp_snapshot_load_text(const char *path, unsigned columns, char **ret_text, size_t *ret_length);

#endif
