/*
 * Remedies that follow from several findings, or from trying other settings. doc/findings.md lists them,
 * each with the test that applied it.
 */
#ifndef GP_TOOLS_MODEL_REMEDIES_H
#define GP_TOOLS_MODEL_REMEDIES_H

#include "tools/model/finding_judges.h"

/* Completes the remedies; call it after all findings are made. */
void gp_remedies_settle(gp_findings_t *findings);

/* The remedy has that setting, among others or alone. */
bool gp_remedy_sets(const gp_remedy_t *remedy, const char *name);

/* If nothing but a larger limit helps where memory ran out, advises a type that serves that request, too, and
 * goes on to serve those that may follow; if there is none, takes back a limit that does not. A type that
 * keeps whole blocks goes first, since it changes nothing else; then the one that holds least. */
void gp_remedies_settle_type(gp_findings_t *findings, gp_finding_t *oom);

/*
 * Settings of PyTorch's allocator, for its own snapshots alone. Not tried: that allocator is not available
 * here.
 */
#define GP_CONF_BYTES 1024

/* Adds remedies to existing findings, as far as the recorded settings allow. */
void gp_remedies_settle_pytorch(gp_findings_t *findings);

/* Makes expandable_segments the remedy, and writes PYTORCH_CUDA_ALLOC_CONF with it to conf, for the advice.
 * False: the snapshot does not say that it is off. */
bool gp_remedies_expand(gp_findings_t *findings, gp_finding_t *finding, char conf[static GP_CONF_BYTES]);

#endif
