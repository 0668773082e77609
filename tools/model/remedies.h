/*
 * Remedies that follow from several findings, or from trying other settings. doc/findings.md lists them,
 * each with the test that applied it.
 */
#ifndef GP_TOOLS_MODEL_REMEDIES_H
#define GP_TOOLS_MODEL_REMEDIES_H

#include "tools/model/finding_judges.h"

/* Adds or changes remedies that depend on several findings. Call it after all findings are made. */
void gp_remedies_settle(gp_findings_t *findings);

/* Returns true if the remedy has that setting. */
bool gp_remedy_sets(const gp_remedy_t *remedy, const char *name);

/* If the finding oom has no remedy but a larger limit, or none at all, advises a pool type that serves the
 * failed request and a repetition of the last requests. If no type does, retracts a limit that would soon be
 * too low. Prefers types that keep whole blocks, since they change nothing else, then the type that reserves
 * least. */
void gp_remedies_settle_type(gp_findings_t *findings, gp_finding_t *oom);

/*
 * Settings of PyTorch's allocator, for snapshots that PyTorch wrote. They are not replayed, because the tool
 * does not have that allocator.
 */
#define GP_CONF_BYTES 1024

/* Adds remedies to existing findings, as far as the recorded settings allow. */
void gp_remedies_settle_pytorch(gp_findings_t *findings);

/* Makes expandable_segments the remedy, and writes the value of PYTORCH_CUDA_ALLOC_CONF with it to conf, for
 * the advice. Returns false unless the snapshot shows that expandable_segments is off. */
bool gp_remedies_expand(gp_findings_t *findings, gp_finding_t *finding, char conf[static GP_CONF_BYTES]);

#endif
