/*
 * Findings about memory that PyTorch's allocator gave back to the driver and wanted again.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_RETURNS_H
#define GP_TOOLS_MODEL_FINDINGS_RETURNS_H

#include "tools/model/finding_list.h"

void gp_findings_judge_returns(gp_findings_t *findings, const gp_summary_device_t *device);

#endif
