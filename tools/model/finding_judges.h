/*
 * What the judges of findings.def say, and what they ask each other.
 */
#ifndef GP_TOOLS_MODEL_FINDING_JUDGES_H
#define GP_TOOLS_MODEL_FINDING_JUDGES_H

#include "base/size.h"
#include "tools/model/finding_list.h"

/* The texts of the table. As constants, so that the compiler compares each with the arguments given for it.
 */
#define VARIANT(name, code, severity, text) static const char gp_finding_text_##name[] = text;
#define ADVICE(name, text)                  static const char gp_advice_text_##name[] = text;
#include "tools/model/findings.def"

/* Arguments of gp_findings_say and gp_findings_advise: a finding or advice of the table. */
#define GP_FINDING(name) GP_FINDING_##name, gp_finding_text_##name
#define GP_ADVICE(name)  gp_advice_text_##name

/* The judges, in the files findings*.c. */
#define JUDGE(function)        void function(gp_findings_t *findings);
#define DEVICE_JUDGE(function) void function(gp_findings_t *findings, const gp_summary_device_t *device);
#include "tools/model/findings.def"

/*
 * What several judges ask
 */

/* When the most memory was held, as far as the file can tell: "at its peak". Static. */
const char *gp_findings_peak(const gp_findings_t *findings);

#define GP_GOOD_HIT_RATE 0.8 /* a finding reports a lower rate */

/* True if the pool gave memory back so as to keep to GPUPOOL_SLACK. */
bool gp_findings_kept_budget(const gp_findings_t *findings);

/* True if a finding reports growth as a warning or worse: it deserves action before what is merely large.
 * device: GP_FINDING_ALL for any. */
bool gp_findings_blame_growth(const gp_findings_t *findings, int device);

/* True if the limit of MPS explains why memory ran out. Then device_free and unaccounted reflect MPS, and
 * no advice follows from them. key: the report, as for gp_oom_report_read. */
bool gp_outside_explains(const gp_snapshot_t *snapshot, const char *key);

#endif
