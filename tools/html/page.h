/*
 * Pages for a browser (doc/html.md).
 */
#ifndef GP_TOOLS_HTML_PAGE_H
#define GP_TOOLS_HTML_PAGE_H

#include <stdint.h>

#include "tools/html/recording.h"
#include "tools/request.h"

/* The page of a snapshot: "run.json" and "run.json.gz" have "run.html". Given back with free(); NULL: no
 * memory. */
char *gp_page_path(const char *file);

/*
 * Makes one page of request's files, with what request selects of them. path: NULL for stdout; an existing
 * file is refused unless request->force. *ret_bytes: its size, 0 if none
 * was written. Returns 0 or, after a message, the exit status: of GP_EXIT_PARTIAL alone there is a page.
 */
int gp_page_make(
    const gp_request_t *request, const gp_page_range_t *range, const char *path, uint64_t *ret_bytes);

/* Makes the page of a snapshot beside it, with its mode, and says so on stderr.
 * Returns 0 or, after a message, the exit status. */
int gp_page_make_beside(const char *file);

#endif
