/*
 * Runs the judges of findings.def, which say in plain words what the figures of a snapshot mean.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_H
#define GP_TOOLS_MODEL_FINDINGS_H

#include "tools/model/finding_list.h"

/* Makes the findings of a summary. tried is NULL if no other pool type was tried, and try is NULL if nothing
 * can be replayed. Borrows summary and tried for the life of the findings. Returns 0 or ENOMEM; the caller
 * calls gp_findings_fini in any case. */
int gp_findings_init(
    gp_findings_t *findings, const gp_summary_t *summary, const gp_tried_types_t *tried, gp_trial_fn try);

#endif
