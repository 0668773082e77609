/*
 * Declares the judges, which make the findings, the texts of the findings, and helpers of several judges.
 */
#ifndef GP_TOOLS_MODEL_FINDING_JUDGES_H
#define GP_TOOLS_MODEL_FINDING_JUDGES_H

#include "base/size.h"
#include "tools/model/finding_list.h"

/* The texts of findings.def. They are constants, so the compiler checks each format against its arguments. */
#define VARIANT(name, code, severity, text) static const char gp_finding_text_##name[] = text;
#define ADVICE(name, text)                  static const char gp_advice_text_##name[] = text;
#include "tools/model/findings.def"

/* GP_FINDING and GP_ADVICE pass a row of findings.def to gp_findings_say and gp_findings_advise. */
#define GP_FINDING(name) GP_FINDING_##name, gp_finding_text_##name
#define GP_ADVICE(name)  gp_advice_text_##name

/* The judges, which are defined in findings*.c. */
#define JUDGE(function)        void function(gp_findings_t *findings);
#define DEVICE_JUDGE(function) void function(gp_findings_t *findings, const gp_summary_device_t *device);
#include "tools/model/findings.def"

/*
 * Helpers that several judges use
 */

/* Returns the phrase for the moment with the most memory in use (static): "at its peak", "at the peak of what
 * is recorded" or "when the file was written". The choice depends on what the file contains. */
const char *gp_findings_peak(const gp_findings_t *findings);

#define GP_GOOD_HIT_RATE 0.8 /* a lower rate is reported as a finding */

/* Returns true if the pool returned memory to the driver to stay within GPUPOOL_SLACK. */
bool gp_findings_kept_budget(const gp_findings_t *findings);

/* Returns true if a finding of severity warning or worse reports growth on `device` (GP_FINDING_ALL: on any
 * device). Then the user should act on the growth before looking at memory that is merely large. */
bool gp_findings_blame_growth(const gp_findings_t *findings, int device);

/* Returns true if the MPS memory limit explains why memory ran out. In that case device_free and unaccounted
 * describe the limit, so no advice follows from them. `key` is as for gp_oom_report_read. */
bool gp_outside_explains(const gp_snapshot_t *snapshot, const char *key);

#endif
