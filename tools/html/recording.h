/*
 * Adds one snapshot to a page: its part of the header, and its columns (doc/html.md).
 */
#ifndef GP_TOOLS_HTML_RECORDING_H
#define GP_TOOLS_HTML_RECORDING_H

#include "tools/html/payload.h"
#include "tools/report/report.h"

/* The range of events to show. GP_MOMENT_NONE as `from` means the first event, as `to` the last event. */
typedef struct gp_page_range {
  gp_request_moment_t from;
  gp_request_moment_t to;
} gp_page_range_t;

/*
 * Adds the part of the snapshot that `input` selects to `list`, which is "files" in the payload's header.
 * Adds at most `most` lives (choice.h). The snapshot must have been read with GP_SUMMARY_COLUMNS. Returns 0
 * or, after a message, the exit status.
 */
int gp_page_add_recording(gp_payload_t *payload, cJSON *list, const gp_report_input_t *input,
    const gp_page_range_t *range, size_t most);

#endif
