/*
 * What the facts of a snapshot mean, in plain words: the judges of findings.def.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_H
#define GP_TOOLS_MODEL_FINDINGS_H

#include "tools/model/finding_list.h"

/* Judges the facts. tried: NULL if no other type of pool was tried. Borrows both for the life of the
 * findings. try: NULL if nothing can be tried. Returns 0 or ENOMEM. The caller calls gp_findings_fini in any
 * case. */
int gp_findings_init(
    gp_findings_t *findings, const gp_summary_t *summary, const gp_tried_types_t *tried, gp_trial_fn try);

#endif
