/*
 * How much of the program's history the file has, and how to record more. What it lacks says nothing about
 * the program.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_HISTORY_H
#define GP_TOOLS_MODEL_FINDINGS_HISTORY_H

#include "tools/model/finding_list.h"

/* A file of PyTorch's with no history, or with one that began when most memory was there already: comes
 * before all that is said of the memory. */
void gp_findings_judge_history(gp_findings_t *findings);

/* Everything else that was not recorded, or is damaged. */
void gp_findings_judge_recording(gp_findings_t *findings);

/* When the most memory was held, as far as the file can tell: "at its peak". Static. */
const char *gp_findings_peak(const gp_findings_t *findings);

#endif
