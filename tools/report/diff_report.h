/*
 * What `gpupool diff --json` says, for others.
 */
#ifndef GP_TOOLS_REPORT_DIFF_REPORT_H
#define GP_TOOLS_REPORT_DIFF_REPORT_H

#include "tools/report/report.h"

/* Adds all members of that document to object: of two inputs, read with GP_LIFETIMES_COLUMNS at least,
 * without options of diff's own. Returns 0 or, after a message, the exit status. */
int gp_diff_add_json(const gp_report_input_t *inputs, cJSON *object);

#endif
