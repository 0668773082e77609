/*
 * What the pool would have had to know before it could use freed memory again, and which call tells it.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_FACTS_H
#define GP_TOOLS_MODEL_FINDINGS_FACTS_H

#include "tools/model/finding_list.h"

/*
 * Advice for a finding which says that the pool did not know yet what the device was done with. False: no
 * fact was missing that a call would have given.
 */
bool gp_findings_advise_facts(
    gp_findings_t *findings, gp_finding_t *finding, const gp_summary_device_t *device);

#endif
