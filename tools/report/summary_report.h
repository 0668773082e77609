/*
 * The text and JSON forms of gpupool summary. Both have the same content.
 */
#ifndef GP_TOOLS_REPORT_SUMMARY_REPORT_H
#define GP_TOOLS_REPORT_SUMMARY_REPORT_H

#include <cjson/cJSON.h>

#include "tools/model/findings.h"
#include "tools/output.h"

/* summary_text.c: writes the text to `output`. With `is_full` shows every device in full, not only one. */
void gp_summary_print(const gp_findings_t *findings, bool is_full, gp_output_t *output);

/* summary_phases.c: prints a table of at most twelve phases, those with the highest memory use first. */
void gp_summary_phases_print(const gp_summary_t *summary, gp_output_t *output);

/* summary_json.c: adds the members of one item of "snapshots" (REPORTS.md) to `object`. */
void gp_summary_json(const gp_findings_t *findings, cJSON *object);

#endif
