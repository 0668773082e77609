/*
 * Findings about limits from outside, where they explain an out of memory.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_OUTSIDE_H
#define GP_TOOLS_MODEL_FINDINGS_OUTSIDE_H

#include "tools/model/finding_list.h"

/* Reports what MPS, MIG and other processes had to do with an out of memory; nothing if memory did not run
 * out. Call it after the findings about the out of memory. */
void gp_findings_judge_outside(gp_findings_t *findings);

/* True if the limit of MPS explains why memory ran out. Then device_free and unaccounted reflect MPS, and
 * no advice follows from them. oom: as in the snapshot, may be NULL. */
bool gp_outside_explains(const gp_snapshot_t *snapshot, const cJSON *oom);

#endif
