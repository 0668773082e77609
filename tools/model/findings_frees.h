/*
 * The finding about memory that the program freed again.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_FREES_H
#define GP_TOOLS_MODEL_FINDINGS_FREES_H

#include "tools/model/finding_list.h"

/* Reports which memory was freed twice, and by which code each time. */
void gp_findings_judge_frees(gp_findings_t *findings);

#endif
