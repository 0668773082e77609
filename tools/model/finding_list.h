/*
 * A list of findings: what the facts of a snapshot mean, in plain words.
 */
#ifndef GP_TOOLS_MODEL_FINDING_LIST_H
#define GP_TOOLS_MODEL_FINDING_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/model/owners.h"
#include "tools/model/summary.h"

#define GP_FINDINGS_MOST 128
#define GP_FINDING_ALL   (-1)

typedef enum gp_severity {
  GP_SEVERITY_GOOD,
  GP_SEVERITY_NOTE,
  GP_SEVERITY_WARNING,
  GP_SEVERITY_ERROR,
} gp_severity_t;

#define GP_REMEDY_SETTINGS 3

/* What to do against it, for programs: advice says the same. */
typedef struct gp_remedy {
  struct gp_remedy_setting {
    char *name; /* an environment variable */
    char *value;
  } settings[GP_REMEDY_SETTINGS];
  size_t setting_count;
  char *action; /* what the program is to do, a word of REPORTS.md; NULL: nothing */
  char *owner;  /* the function whose memory that is about; NULL: of no one's */
} gp_remedy_t;

/* Something to know, in plain words. */
typedef struct gp_finding {
  gp_severity_t severity;
  const char *code; /* stable, for programs */
  int device;       /* GP_FINDING_ALL: of none in particular */
  char *text;
  char *advice; /* what to try, or where to look; NULL: nothing follows from the figures */
  gp_remedy_t remedy;
} gp_finding_t;

typedef struct gp_findings {
  const gp_summary_t *summary;          /* borrowed */
  gp_finding_t items[GP_FINDINGS_MOST]; /* a good one, if there is one; then the worst first */
  size_t count;
  gp_owners_t owners; /* that the finding "owners" names */
  bool out_of_memory; /* private */
} gp_findings_t;

/* Frees the findings. A zeroed list is legal. */
void gp_findings_fini(gp_findings_t *findings);

/* Adds a finding. Returns it, valid until the next one is added; NULL: there is no room or no memory. */
gp_finding_t *gp_findings_say(gp_findings_t *findings, gp_severity_t severity, const char *code, int device,
    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Adds what to try to a finding; NULL is legal. */
void gp_findings_advise(gp_findings_t *findings, gp_finding_t *finding, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a setting, or what the program is to do, to the remedy of a finding; NULL as the finding is legal. */
void gp_findings_set(gp_findings_t *findings, gp_finding_t *finding, const char *name, const char *value);
void gp_findings_act(gp_findings_t *findings, gp_finding_t *finding, const char *action);

/* What is to be done with the memory of that function. */
void gp_findings_act_on(
    gp_findings_t *findings, gp_finding_t *finding, const char *action, const char *owner);

/* Takes back what was advised. */
void gp_findings_retract(gp_finding_t *finding);

static inline bool gp_remedy_is_empty(const gp_remedy_t *remedy)
{
  return !remedy->setting_count && !remedy->action;
}

/* A setting of the run, and why the snapshot was written; "" where the snapshot does not say. */
const char *gp_findings_setting(const gp_findings_t *findings, const char *name);
const char *gp_findings_reason(const gp_findings_t *findings);

/* True if the snapshot is one of gpupool's, and knows its settings: only then a setting of its can be a
 * remedy. */
bool gp_findings_know_settings(const gp_findings_t *findings);

/* True if one of the findings has that code. */
bool gp_findings_have(const gp_findings_t *findings, const char *code);

const char *gp_severity_name(gp_severity_t severity);

#endif
