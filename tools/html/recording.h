/*
 * One snapshot in a page: its part of the header, and its columns (doc/html.md).
 */
#ifndef GP_TOOLS_HTML_RECORDING_H
#define GP_TOOLS_HTML_RECORDING_H

#include "tools/html/payload.h"
#include "tools/report/report.h"

/* The part of the events to show. GP_MOMENT_NONE: from the first, or to the last. */
typedef struct gp_page_range {
  gp_request_moment_t from;
  gp_request_moment_t to;
} gp_page_range_t;

/*
 * Adds what input selects from its snapshot to list, the "files" of payload's header: at most `most` lives
 * (choice.h). The snapshot was read with GP_SUMMARY_COLUMNS. Returns 0 or, after a message, the exit
 * status.
 */
int gp_page_add_recording(gp_payload_t *payload, cJSON *list, const gp_report_input_t *input,
    const gp_page_range_t *range, size_t most);

#endif
