/*
 * The findings about what limits memory from outside, where an out of memory is explained.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_OUTSIDE_H
#define GP_TOOLS_MODEL_FINDINGS_OUTSIDE_H

#include "tools/model/finding_list.h"

/*
 * Says what MPS, MIG and other processes had to do with an out of memory; nothing if memory did not run out.
 * To be called after the findings about it.
 */
void gp_findings_judge_outside(gp_findings_t *findings);

/*
 * True if the limit of MPS explains why memory ran out: what device_free and unaccounted say of the device is
 * then MPS's doing, and no advice follows from them. oom: as in the snapshot, may be NULL.
 */
bool gp_outside_explains(const gp_snapshot_t *snapshot, const cJSON *oom);

#endif
