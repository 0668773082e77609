/*
 * What settings of PyTorch's allocator can do for one of its snapshots. Not tried: that allocator is not
 * available here.
 */
#ifndef GP_TOOLS_MODEL_REMEDIES_PYTORCH_H
#define GP_TOOLS_MODEL_REMEDIES_PYTORCH_H

#include "tools/model/finding_list.h"

/* Advises expandable_segments, and says what it does. False: the snapshot does not say that it is off. */
bool gp_remedies_expand(gp_findings_t *findings, gp_finding_t *finding, const char *what_it_does);

/* Adds remedies to existing findings, as far as the recorded settings allow; none of gpupool's settings. */
void gp_remedies_settle_pytorch(gp_findings_t *findings);

#endif
