/*
 * Makes pages for a browser (doc/html.md).
 */
#ifndef GP_TOOLS_HTML_PAGE_H
#define GP_TOOLS_HTML_PAGE_H

#include <stdint.h>

#include "tools/html/recording.h"
#include "tools/request.h"

/* The name of a snapshot's page: "run.json" and "run.json.gz" have "run.html". The caller frees
 * it with free(); NULL: no memory. */
char *gp_page_path(const char *file);

/*
 * Makes one page of request's files and selection. path: NULL for stdout; refuses an existing file unless
 * request->force. *ret_bytes: the page's size, 0 if none was written. Returns 0 or, after a message, the
 * exit status. Of the failures only GP_EXIT_PARTIAL leaves a page.
 */
int gp_page_make(
    const gp_request_t *request, const gp_page_range_t *range, const char *path, uint64_t *ret_bytes);

/* Makes a snapshot's page beside it, with the snapshot's mode, and prints its name on stderr. Returns 0 or,
 * after a message, the exit status. */
int gp_page_make_beside(const char *file);

#endif
