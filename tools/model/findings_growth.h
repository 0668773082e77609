/*
 * What is said about memory that grows.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_GROWTH_H
#define GP_TOOLS_MODEL_FINDINGS_GROWTH_H

#include "tools/model/finding_list.h"

/* Says what grows on each device, and what to do about it. */
void gp_findings_judge_growth(gp_findings_t *findings);

/* True if what grows is worth acting on before what is merely large: a finding says so as a warning or worse.
 * device: GP_FINDING_ALL for any. */
bool gp_findings_blame_growth(const gp_findings_t *findings, int device);

#endif
