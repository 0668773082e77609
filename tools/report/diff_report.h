/*
 * What `gpupool diff --json` reports, for other commands.
 */
#ifndef GP_TOOLS_REPORT_DIFF_REPORT_H
#define GP_TOOLS_REPORT_DIFF_REPORT_H

#include "tools/report/report.h"

/* Adds all members of that document to object, for two inputs read with at least GP_LIFETIMES_COLUMNS and
 * without diff's own options. Returns 0 or, after a message, the exit status. */
int gp_diff_add_json(const gp_report_input_t *inputs, cJSON *object);

#endif
