/*
 * Runs the judges of findings.def, which state in plain words what the figures of a snapshot mean.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_H
#define GP_TOOLS_MODEL_FINDINGS_H

#include "tools/model/finding_list.h"

/* Makes the findings of a summary. `tried` is NULL if no other pool type was replayed, and `try` is NULL if
 * the run cannot be replayed. Borrows `summary` and `tried` until gp_findings_fini, which the caller calls in
 * any case. Returns 0 or ENOMEM. */
int gp_findings_init(
    gp_findings_t *findings, const gp_summary_t *summary, const gp_tried_types_t *tried, gp_trial_fn try);

#endif
