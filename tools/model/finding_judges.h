/*
 * The functions that make the findings (judges), their texts, and helpers that several of them use.
 */
#ifndef GP_TOOLS_MODEL_FINDING_JUDGES_H
#define GP_TOOLS_MODEL_FINDING_JUDGES_H

#include "base/size.h"
#include "tools/model/finding_list.h"

/* The texts of the table. They are constants so that the compiler checks each format against its
 * arguments. */
#define VARIANT(name, code, severity, text) static const char gp_finding_text_##name[] = text;
#define ADVICE(name, text)                  static const char gp_advice_text_##name[] = text;
#include "tools/model/findings.def"

/* Name a finding or advice of the table in calls of gp_findings_say and gp_findings_advise. */
#define GP_FINDING(name) GP_FINDING_##name, gp_finding_text_##name
#define GP_ADVICE(name)  gp_advice_text_##name

/* The judges, in the files findings*.c. */
#define JUDGE(function)        void function(gp_findings_t *findings);
#define DEVICE_JUDGE(function) void function(gp_findings_t *findings, const gp_summary_device_t *device);
#include "tools/model/findings.def"

/*
 * Helpers of several judges
 */

/* Returns how to call the moment of most memory in use (static): "at its peak", "at the peak of what is
 * recorded" or "when the file was written", depending on what the file shows. */
const char *gp_findings_peak(const gp_findings_t *findings);

#define GP_GOOD_HIT_RATE 0.8 /* a finding reports a lower rate */

/* Returns true if the pool returned memory to the driver to stay within GPUPOOL_SLACK. */
bool gp_findings_kept_budget(const gp_findings_t *findings);

/* Returns true if a finding reports growth on device (GP_FINDING_ALL: on any) as a warning or worse. Then the
 * growth deserves action before memory that is merely large. */
bool gp_findings_blame_growth(const gp_findings_t *findings, int device);

/* Returns true if the limit of MPS explains why memory ran out. Then device_free and unaccounted reflect MPS,
 * and no advice follows from them. key names the report, as for gp_oom_report_read. */
bool gp_outside_explains(const gp_snapshot_t *snapshot, const char *key);

#endif
