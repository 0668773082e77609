/*
 * What another type of pool would have done with the recorded requests: less memory held, or a request served
 * that was refused.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_TYPE_H
#define GP_TOOLS_MODEL_FINDINGS_TYPE_H

#include "tools/model/finding_list.h"

/* Says which type would have held a tenth less, if one was tried that would have. */
void gp_findings_judge_type(gp_findings_t *findings);

/* If nothing else helps where memory ran out, advises a type that serves that request, too. A type that
 * keeps whole blocks goes first, since it changes nothing else; then the one that holds least. */
void gp_findings_advise_type(gp_findings_t *findings, gp_finding_t *oom);

#endif
