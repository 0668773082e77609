/*
 * The findings about memory that ran out.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_OOM_H
#define GP_TOOLS_MODEL_FINDINGS_OOM_H

#include "tools/model/finding_list.h"

/* Describes the out-of-memory event gp_summary_t.oom, on its device and at its moment. */
void gp_findings_judge_oom(gp_findings_t *findings);

/* Reports how often memory ran out on a device, if gp_findings_judge_oom does not. */
void gp_findings_judge_refusals(gp_findings_t *findings, const gp_summary_device_t *device);

#endif
