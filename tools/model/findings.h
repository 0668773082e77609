/*
 * What the facts of a snapshot mean, in plain words.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_H
#define GP_TOOLS_MODEL_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/model/summary.h"

#define GP_FINDINGS_MOST 128
#define GP_FINDING_ALL   (-1)

typedef enum gp_severity {
  GP_SEVERITY_GOOD,
  GP_SEVERITY_NOTE,
  GP_SEVERITY_WARNING,
  GP_SEVERITY_ERROR,
} gp_severity_t;

/* Something to know, in plain words. */
typedef struct gp_finding {
  gp_severity_t severity;
  const char *code; /* stable, for programs */
  int device;       /* GP_FINDING_ALL: of none in particular */
  char *text;
  char *advice; /* what to try; NULL: nothing follows from the figures */
} gp_finding_t;

typedef struct gp_findings {
  const gp_summary_t *summary;          /* borrowed */
  gp_finding_t items[GP_FINDINGS_MOST]; /* a good one, if there is one; then the worst first */
  size_t count;
  bool out_of_memory; /* private */
} gp_findings_t;

/* Judges the facts. Borrows summary for the life of the findings. Returns 0 or ENOMEM. Fini it in any case.
 */
int gp_findings_init(gp_findings_t *findings, const gp_summary_t *summary);
void gp_findings_fini(gp_findings_t *findings);

/* True if one of the findings has that code. */
bool gp_findings_have(const gp_findings_t *findings, const char *code);

const char *gp_severity_name(gp_severity_t severity);

#endif
