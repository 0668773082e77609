/*
 * The finding about memory that is not the program's own.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_COMPONENT_H
#define GP_TOOLS_MODEL_FINDINGS_COMPONENT_H

#include "tools/model/finding_list.h"

/*
 * Says of each device how much libraries, the framework and CUDA graphs held of its memory when it ran out,
 * else at its peak, where that is much.
 */
void gp_findings_judge_components(gp_findings_t *findings);

#endif
