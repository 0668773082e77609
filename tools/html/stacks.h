/*
 * The call stacks of a recording in a page: frames, owners, and what each stack asked for.
 */
#ifndef GP_TOOLS_HTML_STACKS_H
#define GP_TOOLS_HTML_STACKS_H

#include <stdbool.h>

#include "tools/html/names.h"
#include "tools/html/payload.h"
#include "tools/model/filter.h"
#include "tools/model/lifetimes.h"

/*
 * Adds the columns frame.* and stack.* to columns, and "owners" to file, both in payload's header.
 * has_sums: also adds what each stack asked for, counted like `gpupool sites`, of memory that filter
 * selects. Returns 0 or ENOMEM.
 */
int gp_page_add_stacks(gp_payload_t *payload, cJSON *columns, cJSON *file, gp_page_names_t *names,
    const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, bool has_sums);

#endif
