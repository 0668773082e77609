/*
 * The finding about memory that grows.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_GROWTH_H
#define GP_TOOLS_MODEL_FINDINGS_GROWTH_H

#include "tools/model/finding_list.h"

/* Reports what grows on each device, and what to do about it. */
void gp_findings_judge_growth(gp_findings_t *findings);

/* True if a finding reports growth as a warning or worse: it deserves action before what is merely large.
 * device: GP_FINDING_ALL for any. */
bool gp_findings_blame_growth(const gp_findings_t *findings, int device);

#endif
