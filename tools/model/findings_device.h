/*
 * Findings about one device.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_DEVICE_H
#define GP_TOOLS_MODEL_FINDINGS_DEVICE_H

#include "tools/model/finding_list.h"

/* A finding reports a hit rate below this. */
#define GP_GOOD_HIT_RATE 0.8

/* Adds the findings. device is one of the summary's. */
void gp_findings_judge_device(gp_findings_t *findings, const gp_summary_device_t *device);

#endif
