/*
 * Remedies that follow from several findings, or from what other settings would have done. doc/findings.md
 * has them all, with the test that applied each.
 */
#ifndef GP_TOOLS_MODEL_REMEDIES_H
#define GP_TOOLS_MODEL_REMEDIES_H

#include "tools/model/finding_list.h"

/* Completes the remedies, when everything else has been said. */
void gp_remedies_settle(gp_findings_t *findings);

#endif
