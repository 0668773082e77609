/*
 * What a summary says of memory that ran out.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_OOM_H
#define GP_TOOLS_MODEL_FINDINGS_OOM_H

#include "tools/model/finding_list.h"

/* The out-of-memory event that the summary describes (gp_summary_t.oom), as of its moment and its device. */
void gp_findings_judge_oom(gp_findings_t *findings);

/* How often memory ran out on a device, where the description above does not say it. */
void gp_findings_judge_refusals(gp_findings_t *findings, const gp_summary_device_t *device);

#endif
