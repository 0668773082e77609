/*
 * What there is to say of one device.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_DEVICE_H
#define GP_TOOLS_MODEL_FINDINGS_DEVICE_H

#include "tools/model/finding_list.h"

/* Below it, a finding says so. */
#define GP_GOOD_HIT_RATE 0.8

/* Adds what there is to say. device is one of the summary's. */
void gp_findings_judge_device(gp_findings_t *findings, const gp_summary_device_t *device);

#endif
