/*
 * Adds the call stacks of a recording to a page: frames, owners, and the memory that each stack requested.
 */
#ifndef GP_TOOLS_HTML_STACKS_H
#define GP_TOOLS_HTML_STACKS_H

#include <stdbool.h>

#include "tools/html/payload.h"
#include "tools/model/filter.h"
#include "tools/model/lifetimes.h"
#include "tools/hash_index.h"

/*
 * The strings of a recording. Each string is stored once and identified by its index.
 */

/* All members are private. */
typedef struct gp_page_names {
  char **names;
  size_t count;
  gp_hash_index_t index;
  int error;
} gp_page_names_t;

/* Returns the index of `text` in the list; copies the text if it is new. If memory runs out, returns 0, and
 * gp_page_names_add reports it. A zeroed struct is an empty list. Call gp_page_names_fini in any case. */
size_t gp_page_name(gp_page_names_t *names, const char *text);

/* Adds the strings to the array `list`, in index order. Returns 0 or ENOMEM. */
int gp_page_names_add(const gp_page_names_t *names, cJSON *list);
void gp_page_names_fini(gp_page_names_t *names);

/*
 * Adds the columns frame.* and stack.* to `columns`, and "owners" to `file`; both are in the payload's
 * header. With `has_sums` also adds the memory that each stack requested, counted like `gpupool sites`, for
 * the memory that `filter` selects. Returns 0 or ENOMEM.
 */
int gp_page_add_stacks(gp_payload_t *payload, cJSON *columns, cJSON *file, gp_page_names_t *names,
    const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, bool has_sums);

#endif
