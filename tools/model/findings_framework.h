/*
 * The finding about a framework that keeps GPU memory by itself.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_FRAMEWORK_H
#define GP_TOOLS_MODEL_FINDINGS_FRAMEWORK_H

#include "tools/model/finding_list.h"

/* Says for each device that a framework's cache had most of its memory at the peak, in large pieces, and
 * which setting brings its tensors to the pool. */
void gp_findings_judge_frameworks(gp_findings_t *findings);

#endif
