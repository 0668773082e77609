/*
 * Remedies that follow from several findings, or from replaying other settings. doc/findings.md lists them,
 * with the test that applied each.
 */
#ifndef GP_TOOLS_MODEL_REMEDIES_H
#define GP_TOOLS_MODEL_REMEDIES_H

#include "tools/model/finding_judges.h"

/* Adds or changes remedies that depend on several findings. Call it after all findings were made. */
void gp_remedies_settle(gp_findings_t *findings);

/* Returns true if the remedy contains the setting `name`. */
bool gp_remedy_sets(const gp_remedy_t *remedy, const char *name);

/* Completes the finding `oom` if its only remedy is a higher limit, or if it has none. Advises a pool type
 * that serves the failed request and a repetition of the last requests. If no type does, removes the advice
 * of a limit that would soon be too low. Prefers types that keep whole blocks, since they change nothing
 * else, then the type that reserves least. */
void gp_remedies_settle_type(gp_findings_t *findings, gp_finding_t *oom);

/*
 * Settings of PyTorch's allocator, for snapshots that PyTorch wrote. The tool cannot replay these settings,
 * because it does not contain that allocator.
 */
#define GP_CONF_BYTES 1024

/* Adds settings of PyTorch's allocator to existing findings, as far as the recorded settings allow. */
void gp_remedies_settle_pytorch(gp_findings_t *findings);

/* Makes expandable_segments the remedy of a finding, and writes the value of PYTORCH_CUDA_ALLOC_CONF with
 * that setting to `conf`. Returns false unless the snapshot shows that expandable_segments is off. */
bool gp_remedies_expand(gp_findings_t *findings, gp_finding_t *finding, char conf[static GP_CONF_BYTES]);

#endif
