/*
 * The finding about memory that belongs to libraries, not to the program.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_COMPONENT_H
#define GP_TOOLS_MODEL_FINDINGS_COMPONENT_H

#include "tools/model/finding_list.h"

/* Reports for each device how much memory libraries, the framework and CUDA graphs held, if that is much:
 * when memory ran out, else at the peak. */
void gp_findings_judge_components(gp_findings_t *findings);

#endif
