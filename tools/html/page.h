/*
 * Makes pages for a browser (doc/html.md).
 */
#ifndef GP_TOOLS_HTML_PAGE_H
#define GP_TOOLS_HTML_PAGE_H

#include <stdint.h>

#include "tools/html/recording.h"
#include "tools/request.h"

/* Returns the name of a snapshot's page: "run.html" for "run.json" or "run.json.gz". The caller frees the
 * name with free(). Returns NULL if memory runs out. */
char *gp_page_path(const char *file);

/*
 * Makes one page of the files and the selection in `request`. With `path` NULL writes to stdout. If the file
 * exists, fails unless request->force is set. *ret_bytes is the size of the page, or 0 if no page was
 * written. Returns 0 or, after a message, the exit status. After a failure, there is a page only if the
 * status is GP_EXIT_PARTIAL.
 */
int gp_page_make(
    const gp_request_t *request, const gp_page_range_t *range, const char *path, uint64_t *ret_bytes);

/* Makes a page next to the snapshot, with the snapshot's file mode, and prints its name on stderr. Returns 0
 * or, after a message, the exit status. */
int gp_page_make_unsited(const char *file);

#endif
