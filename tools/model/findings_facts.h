/*
 * Which fact the pool lacked before it could reuse freed memory, and which call provides it.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_FACTS_H
#define GP_TOOLS_MODEL_FINDINGS_FACTS_H

#include "tools/model/finding_list.h"

/* Adds advice to a finding about misses because the device was not known to be done. False: no call
 * would have provided a missing fact. */
bool gp_findings_advise_facts(
    gp_findings_t *findings, gp_finding_t *finding, const gp_summary_device_t *device);

#endif
