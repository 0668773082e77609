/*
 * A list of findings: statements in plain words about what the figures of a snapshot mean.
 */
#ifndef GP_TOOLS_MODEL_FINDING_LIST_H
#define GP_TOOLS_MODEL_FINDING_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/options.h"
#include "tools/model/owners.h"
#include "tools/model/summary.h"
#include "tools/output.h"

#define GP_FINDINGS_MOST 128
#define GP_FINDING_ALL   (-1)

typedef enum gp_severity {
  GP_SEVERITY_GOOD,
  GP_SEVERITY_NOTE,
  GP_SEVERITY_WARNING,
  GP_SEVERITY_ERROR,
  GP_SEVERITY_VARIES, /* in the table only: the judge passes the severity to gp_findings_say_as */
} gp_severity_t;

/* The findings and their variants. */
typedef enum gp_finding_row {
#define VARIANT(name, code, severity, text) GP_FINDING_##name,
#include "tools/model/findings.def"
} gp_finding_row_t;

#define GP_REMEDY_SETTINGS 3

/* What to do, in a form that programs can read; gp_finding_t.advice says it in words. */
typedef struct gp_remedy {
  struct gp_remedy_setting {
    char *name; /* an environment variable */
    char *value;
  } settings[GP_REMEDY_SETTINGS];
  size_t setting_count;
  char *action; /* what to change in the program, a word of REPORTS.md; NULL: nothing */
  char *owner;  /* the function whose memory the action is about; NULL: none */
} gp_remedy_t;

/* One statement about the run that the user should know, in plain words. */
typedef struct gp_finding {
  gp_severity_t severity;
  const char *code; /* stable, for programs */
  int device;       /* GP_FINDING_ALL: no particular one */
  char *text;
  char *advice; /* what to try, or where to look; NULL if the figures suggest nothing */
  gp_remedy_t remedy;
} gp_finding_t;

/* Result of replaying the recorded requests with one pool type, all other settings as recorded. */
typedef struct gp_type_figures {
  const char *type;
  uint64_t held; /* peak of the bytes reserved from the driver */
  uint64_t calls;
  uint64_t busy_ns;    /* time that these driver calls take while kernels run */
  uint64_t refused;    /* requests that fail for lack of memory */
  uint64_t refused_on; /* as refused, if the last tenth of the requests is repeated; UINT64_MAX: not tried */
} gp_type_figures_t;

#define GP_TRIED_TYPES 8

typedef struct gp_tried_types {
  gp_type_figures_t now; /* of the recorded settings, replayed in the same way */
  gp_type_figures_t types[GP_TRIED_TYPES];
  size_t count;
  uint64_t live;    /* peak of the bytes that the program had in use */
  bool is_complete; /* the recording has all requests from the start */
  /* If the last tenth of the requests is repeated: whether the limit that the library advised is too low, and
   * the peak of the bytes reserved from the driver without a limit. */
  bool limit_is_short;
  uint64_t held_on;
} gp_tried_types_t;

/* A change to a recorded run, to be replayed. */
typedef struct gp_trial {
  gp_option_id_t id; /* GP_OPTION_COUNT: all settings are as recorded */
  const char *value;
  bool is_ready_at_once; /* as if work that uses freed memory were complete at once, and the pool knew */
} gp_trial_t;

/* Replays the recorded requests of a device with a change. Returns 0 and the share of the requests that the
 * pool serves, ENODATA if the recording cannot be replayed, or ENOMEM. */
typedef int (*gp_trial_fn)(
    const gp_summary_t *summary, int device, const gp_trial_t *trial, double *ret_hit_rate);

typedef struct gp_findings {
  const gp_summary_t *summary;          /* borrowed */
  const gp_tried_types_t *tried;        /* borrowed; NULL: no other pool type was tried */
  gp_trial_fn try;                      /* NULL: nothing can be tried */
  gp_finding_t items[GP_FINDINGS_MOST]; /* a good one first, if any; then the worst first */
  size_t count;
  gp_owners_t owners; /* the owners that the finding "owners" names */
  bool out_of_memory; /* private */
} gp_findings_t;

/* Frees the findings. A zeroed list is legal. */
void gp_findings_fini(gp_findings_t *findings);

/* Returns the worst finding with the code of that row on device (GP_FINDING_ALL: on any), or NULL. */
gp_finding_t *gp_findings_find(const gp_findings_t *findings, gp_finding_row_t row, int device);

static inline bool gp_findings_have(const gp_findings_t *findings, gp_finding_row_t row)
{
  return gp_findings_find(findings, row, GP_FINDING_ALL) != NULL;
}

static inline bool gp_remedy_is_empty(const gp_remedy_t *remedy)
{
  return !remedy->setting_count && !remedy->action;
}

/* Returns a setting of the run, or "" if the snapshot does not have it. */
const char *gp_findings_setting(const gp_findings_t *findings, const char *name);

/* Returns true if gpupool wrote the snapshot and it has the settings. Only then can a setting of gpupool be a
 * remedy. */
bool gp_findings_know_settings(const gp_findings_t *findings);

const char *gp_severity_name(gp_severity_t severity);

/*
 * For the judges. They name findings and advice by GP_FINDING and GP_ADVICE (finding_judges.h).
 */

/* Adds a finding: gp_findings_say(findings, GP_FINDING(name), device, ...). Returns the finding, which is
 * valid until the next one is added, or NULL if the list is full or there is no memory. */
gp_finding_t *gp_findings_say(gp_findings_t *findings, gp_finding_row_t row, const char *format, int device,
    ...) __attribute__((format(printf, 3, 5)));

/* Like gp_findings_say, for a finding of GP_SEVERITY_VARIES in the table. */
gp_finding_t *gp_findings_say_as(gp_findings_t *findings, gp_severity_t severity, gp_finding_row_t row,
    const char *format, int device, ...) __attribute__((format(printf, 4, 6)));

/* Adds advice to a finding, GP_ADVICE(name); a NULL finding is legal. */
void gp_findings_advise(gp_findings_t *findings, gp_finding_t *finding, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a setting or an action to the remedy of a finding; a NULL finding is legal. */
void gp_findings_set(gp_findings_t *findings, gp_finding_t *finding, const char *name, const char *value);
void gp_findings_act(gp_findings_t *findings, gp_finding_t *finding, const char *action);

/* Adds an action that concerns the memory of the function `owner`. */
void gp_findings_act_on(
    gp_findings_t *findings, gp_finding_t *finding, const char *action, const char *owner);

/* Removes the advice and the remedy of a finding. */
void gp_findings_retract(gp_finding_t *finding);

/* Returns why the snapshot was written, its "reason", or "" if it has none. */
const char *gp_findings_reason(const gp_findings_t *findings);

/* Returns true if another value of GPUPOOL_STACKS would have recorded more stacks. */
bool gp_findings_could_have_stacks(const gp_findings_t *findings);

#define GP_OWNER_BYTES 64

/* Writes how advice under the finding "owners" names one owner: by its text or, if that is long, by its place
 * in the list. Returns buffer. */
char *gp_findings_name_owner(const gp_owners_t *owners, size_t index, char buffer[static GP_OWNER_BYTES]);

/* Adds what each owner has in use, with its share of sum: "load() model.cu:12 20 MiB (35.7%) in 2 blocks of
 * 10 MiB, none freed; ...". */
void gp_findings_add_owners(
    gp_sentence_t *text, const gp_owners_t *owners, uint64_t sum, const gp_snapshot_t *snapshot);

#endif
