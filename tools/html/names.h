/*
 * The strings of a recording: stores each once; its index identifies it.
 */
#ifndef GP_TOOLS_HTML_NAMES_H
#define GP_TOOLS_HTML_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "tools/hash_index.h"

/* All members are private. */
typedef struct gp_page_names {
  char **names;
  size_t count;
  gp_hash_index_t index;
  int error;
} gp_page_names_t;

/* The index of text; copies text if it is new. Without memory returns 0, and gp_page_names_add reports it.
 * A zeroed list is legal; call fini in any case. */
size_t gp_page_name(gp_page_names_t *names, const char *text);

/* Adds the strings to the array list, in index order. Returns 0 or ENOMEM. */
int gp_page_names_add(const gp_page_names_t *names, cJSON *list);
void gp_page_names_fini(gp_page_names_t *names);

#endif
