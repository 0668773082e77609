/*
 * Makes pages for a browser (doc/html.md).
 */
#ifndef GP_TOOLS_HTML_PAGE_H
#define GP_TOOLS_HTML_PAGE_H

#include <stdint.h>

#include "tools/html/recording.h"
#include "tools/request.h"

/* Returns the name of a snapshot's page: "run.html" for "run.json" and for "run.json.gz". The caller frees it
 * with free(). Returns NULL if there is no memory. */
char *gp_page_path(const char *file);

/*
 * Makes one page of the files and the selection in request. A NULL path is stdout. An existing file is an
 * error unless request->force. *ret_bytes is the size of the page, or 0 if none was written. Returns 0 or,
 * after a message, the exit status. A page exists after a failure only if the status is GP_EXIT_PARTIAL.
 */
int gp_page_make(
    const gp_request_t *request, const gp_page_range_t *range, const char *path, uint64_t *ret_bytes);

/* Makes a snapshot's page next to the snapshot, with the same file mode, and prints its name on stderr.
 * Returns 0 or, after a message, the exit status. */
int gp_page_make_unsited(const char *file);

#endif
