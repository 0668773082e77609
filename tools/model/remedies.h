/*
 * Remedies that follow from several findings, or from trying other settings. doc/findings.md lists them,
 * each with the test that applied it.
 */
#ifndef GP_TOOLS_MODEL_REMEDIES_H
#define GP_TOOLS_MODEL_REMEDIES_H

#include "tools/model/finding_list.h"

/* Completes the remedies; call it after all findings are made. */
void gp_remedies_settle(gp_findings_t *findings);

#endif
