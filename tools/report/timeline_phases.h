/* The phases of the program below a curve of its memory. */
#ifndef GP_TOOLS_REPORT_TIMELINE_PHASES_H
#define GP_TOOLS_REPORT_TIMELINE_PHASES_H

#include "tools/model/timeline.h"
#include "tools/output.h"

/* Writes a letter in each of the columns, below which the timeline is drawn, and what the letters mean;
 * nothing without phases. indent: columns before the first. Returns 0 or ENOMEM. */
int gp_timeline_phases_print(const gp_snapshot_t *snapshot, const gp_timeline_t *timeline, size_t columns,
    int indent, gp_output_t *output);

#endif
