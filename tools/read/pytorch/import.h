/*
 * Reads files of other tools as if they were gpupool snapshots: PyTorch's snapshots
 * (torch.cuda.memory._snapshot()), as pickle or JSON, and logs of allocations (tools/read/logs).
 * doc/exports.md describes the conversion.
 */
#ifndef GP_TOOLS_READ_PYTORCH_IMPORT_H
#define GP_TOOLS_READ_PYTORCH_IMPORT_H

#include "tools/read/input.h"
#include "tools/read/snapshot.h"

typedef struct gp_import gp_import_t;
typedef struct gp_import_top gp_import_top_t;

/* Reads a document into a snapshot, and its small members into *ret_top. Never executes anything in the
 * document. Returns false after an error in the document or in reading the input. */
typedef bool (*gp_import_read_fn)(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

bool gp_import_read_pickle(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);
bool gp_import_read_json(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

/* Returns true if the text is a pickle, according to its first two bytes. */
bool gp_import_is_pickle(const char *text, size_t length);

typedef enum gp_import_kind {
  GP_IMPORT_NONE, /* none of the kinds below */
  GP_IMPORT_PYTORCH,
  GP_IMPORT_TRACE,    /* trace events, which PyTorch's profiler writes */
  GP_IMPORT_TIMELINE, /* a memory timeline of PyTorch's profiler */
} gp_import_kind_t;

/* Returns the kind of a JSON document. Keeps everything that it reads in the input's window. */
gp_import_kind_t gp_import_kind_of_json(gp_input_t *input);

/* Reads the input with the reader `read`. The window must still begin with the input's first byte. `columns`
 * is as for gp_snapshot_parse. Returns the snapshot, or NULL with *ret_error filled. After an error of the
 * input itself, returns NULL and leaves *ret_error unfilled. */
gp_snapshot_t *gp_import(
    gp_import_read_fn read, gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error);

#endif
