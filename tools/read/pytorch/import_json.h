/*
 * Reads JSON piecewise: only one element of a long array is a tree at a time.
 */
#ifndef GP_TOOLS_READ_PYTORCH_IMPORT_JSON_H
#define GP_TOOLS_READ_PYTORCH_IMPORT_JSON_H

#include "tools/read/pytorch/import.h"
#include "tools/read/pytorch/import_parts.h"

/* Takes an element, which is valid until it returns. */
typedef bool (*gp_import_item_fn)(void *self, const gp_value_t *item);

/* Reads the elements of a document that is an array, or of a member of one that is an object. False is an
 * error of the document. */
bool gp_import_json_items(
    gp_import_t *import, gp_input_t *input, const char *member, gp_import_item_fn take, void *self);

#endif
