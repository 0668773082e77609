/*
 * The two forms of gpupool summary, which say the same.
 */
#ifndef GP_TOOLS_REPORT_SUMMARY_REPORT_H
#define GP_TOOLS_REPORT_SUMMARY_REPORT_H

#include <cjson/cJSON.h>

#include "tools/model/findings.h"
#include "tools/output.h"

/* summary_text.c: writes the text to output. */
void gp_summary_print(const gp_findings_t *findings, gp_output_t *output);

/* summary_json.c: adds the members of one of "snapshots" (REPORTS.md) to object. */
void gp_summary_json(const gp_findings_t *findings, cJSON *object);

#endif
