/*
 * Reads JSON in pieces, so that only one element of a long array at a time is in memory as a tree.
 */
#ifndef GP_TOOLS_READ_PYTORCH_IMPORT_JSON_H
#define GP_TOOLS_READ_PYTORCH_IMPORT_JSON_H

#include "tools/read/pytorch/import.h"
#include "tools/read/pytorch/import_parts.h"

/* Processes an element, which is valid until the function returns. */
typedef bool (*gp_import_item_fn)(void *self, const gp_value_t *item);

/* Calls `take` for each element of the document if the document is an array. Otherwise calls it for each
 * element of the array `member` in the document. Returns false after an error in the document. */
bool gp_import_json_items(
    gp_import_t *import, gp_input_t *input, const char *member, gp_import_item_fn take, void *self);

#endif
