/*
 * A list of findings: plain statements about what the figures of a snapshot mean.
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
  GP_SEVERITY_VARIES, /* only in findings.def: the judge passes the severity to gp_findings_say_as */
} gp_severity_t;

/* The findings of findings.def and their variants. */
typedef enum gp_finding_row {
#define VARIANT(name, code, severity, text) GP_FINDING_##name,
#include "tools/model/findings.def"
} gp_finding_row_t;

#define GP_REMEDY_SETTINGS 3

/* The remedy in a form that programs can read. gp_finding_t.advice says the same in words. */
typedef struct gp_remedy {
  struct gp_remedy_setting {
    char *name; /* environment variable */
    char *value;
  } settings[GP_REMEDY_SETTINGS];
  size_t setting_count;
  char *action; /* what to change in the program, as a word listed in REPORTS.md; NULL: nothing */
  char *owner;  /* the function whose memory the action concerns; NULL: none */
} gp_remedy_t;

/* One statement about the run that the user should know, in plain words. */
typedef struct gp_finding {
  gp_severity_t severity;
  const char *code; /* stable name, for programs */
  int device;       /* GP_FINDING_ALL: no particular device */
  char *text;
  char *advice; /* what to try, or where to look; NULL if the figures suggest nothing */
  gp_remedy_t remedy;
} gp_finding_t;

/* The result of replaying the recorded requests with one pool type and otherwise unchanged settings. */
typedef struct gp_type_figures {
  const char *type;
  uint64_t held; /* peak of the bytes reserved from the driver */
  uint64_t calls;
  uint64_t busy_ns;    /* total duration of these driver calls that run while kernels run */
  uint64_t refused;    /* number of requests that fail for lack of memory */
  uint64_t refused_on; /* `refused` when the last tenth of the requests is repeated; UINT64_MAX: not tried */
} gp_type_figures_t;

#define GP_TRIED_TYPES 8

typedef struct gp_tried_types {
  gp_type_figures_t now; /* replay with the recorded settings */
  gp_type_figures_t types[GP_TRIED_TYPES];
  size_t count;
  uint64_t live;    /* peak of the bytes that the program had in use */
  bool is_complete; /* true if the recording contains all requests from the start */
  /* Result of repeating the last tenth of the requests: true if the limit that the library advised is too low
   * then, and the peak of the bytes reserved from the driver without a limit. */
  bool limit_is_short;
  uint64_t held_on;
} gp_tried_types_t;

/* A changed setting to replay a recorded run with. */
typedef struct gp_trial {
  gp_option_id_t id; /* the changed setting; GP_OPTION_COUNT: all settings are as recorded */
  const char *value;
  bool is_ready_at_once; /* replay as if work on freed memory completed at the free, and the pool knew that */
} gp_trial_t;

/* Replays the recorded requests of a device with the change `trial`. Returns 0 and, in *ret_hit_rate, the
 * share of the requests that the pool serves. Returns ENODATA if replay is impossible, or ENOMEM. */
typedef int (*gp_trial_fn)(
    const gp_summary_t *summary, int device, const gp_trial_t *trial, double *ret_hit_rate);

typedef struct gp_findings {
  const gp_summary_t *summary;          /* borrowed */
  const gp_tried_types_t *tried;        /* borrowed; NULL: no other pool type was replayed */
  gp_trial_fn try;                      /* NULL: the run cannot be replayed */
  gp_finding_t items[GP_FINDINGS_MOST]; /* a good finding first, if there is one; then the worst first */
  size_t count;
  gp_owners_t owners; /* the owners that the finding "owners" lists */
  bool out_of_memory; /* private: an allocation in the tool failed */
} gp_findings_t;

/* Frees the findings. The list may be zeroed. */
void gp_findings_fini(gp_findings_t *findings);

/* Returns the worst finding on `device` (GP_FINDING_ALL: any device) that has the code of `row`, or NULL. */
gp_finding_t *gp_findings_find(const gp_findings_t *findings, gp_finding_row_t row, int device);

static inline bool gp_findings_have(const gp_findings_t *findings, gp_finding_row_t row)
{
  return gp_findings_find(findings, row, GP_FINDING_ALL) != NULL;
}

static inline bool gp_remedy_is_empty(const gp_remedy_t *remedy)
{
  return !remedy->setting_count && !remedy->action;
}

/* Returns the value that the setting `name` had in the run, or "" if the snapshot does not contain it. */
const char *gp_findings_setting(const gp_findings_t *findings, const char *name);

/* Returns true if gpupool wrote the snapshot and recorded its settings. Otherwise no setting of gpupool can
 * be a remedy. */
bool gp_findings_know_settings(const gp_findings_t *findings);

const char *gp_severity_name(gp_severity_t severity);

/*
 * Functions for the judges, which pass findings and advice as GP_FINDING and GP_ADVICE (finding_judges.h)
 */

/* Adds a finding: gp_findings_say(findings, GP_FINDING(name), device, ...). Returns the finding, which is
 * valid until the next one is added. Returns NULL if the list is full or memory runs out. */
gp_finding_t *gp_findings_say(gp_findings_t *findings, gp_finding_row_t row, const char *format, int device,
    ...) __attribute__((format(printf, 3, 5)));

/* Like gp_findings_say, but for a finding whose severity in findings.def is GP_SEVERITY_VARIES. */
gp_finding_t *gp_findings_say_as(gp_findings_t *findings, gp_severity_t severity, gp_finding_row_t row,
    const char *format, int device, ...) __attribute__((format(printf, 4, 6)));

/* Adds the advice GP_ADVICE(name) to a finding, which may be NULL. */
void gp_findings_advise(gp_findings_t *findings, gp_finding_t *finding, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Add a setting or an action to the remedy of a finding, which may be NULL. */
void gp_findings_set(gp_findings_t *findings, gp_finding_t *finding, const char *name, const char *value);
void gp_findings_act(gp_findings_t *findings, gp_finding_t *finding, const char *action);

/* Adds an action that concerns the memory of the function `owner` to the remedy of a finding. */
void gp_findings_act_on(
    gp_findings_t *findings, gp_finding_t *finding, const char *action, const char *owner);

/* Removes the advice and the remedy of a finding. */
void gp_findings_retract(gp_finding_t *finding);

/* Returns why the snapshot was written (its "reason"), or "" if the snapshot does not say. */
const char *gp_findings_reason(const gp_findings_t *findings);

/* Returns true if another value of GPUPOOL_STACKS would have recorded more stacks. */
bool gp_findings_could_have_stacks(const gp_findings_t *findings);

#define GP_OWNER_BYTES 64

/* Writes the phrase by which advice under the finding "owners" refers to one owner. This is the owner's text
 * or, if the text is long, its position in the list. Returns buffer. */
char *gp_findings_name_owner(const gp_owners_t *owners, size_t index, char buffer[static GP_OWNER_BYTES]);

#define GP_STACK_NAME_BYTES 384

/* Writes the owner of a stack, "Cache::grow() cache.cu:33", or "code without a call stack". Returns buffer.
 */
char *gp_findings_name_stack(
    const gp_snapshot_t *snapshot, int stack, char buffer[static GP_STACK_NAME_BYTES]);

/* Adds each owner's memory in use and its share of `sum` to the text: "load() model.cu:12 20 MiB (35.7%) in 2
 * blocks of 10 MiB, none freed; ...". */
void gp_findings_add_owners(
    gp_sentence_t *text, const gp_owners_t *owners, uint64_t sum, const gp_snapshot_t *snapshot);

#endif
