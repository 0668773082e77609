/*
 * What the commands that read snapshots do alike: load the files, print text or one JSON document, and find
 * the exit status.
 */
#ifndef GP_TOOLS_REPORT_H
#define GP_TOOLS_REPORT_H

#include "tools/model/filter.h"
#include "tools/model/moments.h"
#include "tools/output.h"
#include "tools/request.h"
#include "tools/read/snapshot.h"

/* A snapshot that was read, and what the command line selects of it. The report borrows all of it. */
typedef struct gp_report_input {
  const gp_request_t *request;
  const void *own; /* the command's own options */
  const gp_snapshot_t *snapshot;
  const gp_filter_t *filter;
  const char *file; /* as typed; "stdin" for - */
  int *findings;    /* set to the exit status that what was found is to have, if nothing goes wrong */
} gp_report_input_t;

/*
 * Reports on `count` snapshots: writes to output, or with --json adds the members of its result to object.
 * Returns the exit status; an error's message was then written.
 */
typedef int (*gp_report_fn)(const gp_report_input_t *inputs, int count, gp_output_t *output, cJSON *object);

/*
 * A command from its arguments to its exit status. columns: of events, as in gp_snapshot_load. With `each`
 * the report is made for each file, and the JSON is {"format": "gpupool-COMMAND", "version": 1, "snapshots":
 * [...]}; else once for all files together, and its members stand beside format and version.
 */
int gp_report_run(const gp_request_form_t *form, int argc, char **argv, void *own, unsigned columns,
    bool each, gp_report_fn report);

/*
 * The same of a command that reads its files by itself: report gets all of them at once in the request, says
 * what is wrong with one, and returns the exit status. After GP_EXIT_INPUT and GP_EXIT_USAGE nothing is
 * printed.
 */
typedef int (*gp_report_files_fn)(
    const gp_request_t *request, const void *own, gp_output_t *output, cJSON *object);
int gp_report_run_files(
    const gp_request_form_t *form, int argc, char **argv, void *own, gp_report_files_fn report);

/*
 * Loads the index-th file of request, finds names and owners, and what is selected of it, as the functions
 * above do. findings: as of *ret_input; may be NULL if nothing sets it. Returns 0 or, after a message, the
 * exit status; gp_report_close in any case.
 */
int gp_report_open(const gp_request_t *request, const void *own, unsigned columns, int index, int *findings,
    gp_report_input_t *ret_input);
void gp_report_close(gp_report_input_t *input);

/* With --strict, of a snapshot that lacks something: GP_EXIT_PARTIAL, after a message; else 0. */
int gp_report_check_strict(const gp_report_input_t *input);

/* That of two exit statuses which counts: an unreadable file outweighs a wrong option, and that a partial
 * file. */
int gp_report_worse(int a, int b);

/* Says that memory is out. Returns GP_EXIT_INPUT. */
int gp_report_out_of_memory(const char *file);

/* The last line of a text: "Next: gpupool ...", the files quoted for a shell where they need it. */
void gp_report_next(gp_output_t *output, const char *command, const char *file, const char *options);

/* "written at exit", "recovered after its end": what a snapshot says of why it is there. Cut to capacity;
 * returns buffer. */
char *gp_report_written(const gp_snapshot_t *snapshot, char *buffer, size_t capacity);

/* Below it: "  or, in a browser: gpupool html FILE". */
void gp_report_next_page(gp_output_t *output, const char *file);

/* The first line of a text: the file, and what the snapshot is of. */
void gp_report_heading(gp_output_t *output, const gp_report_input_t *input);

/*
 * JSON. A failed allocation leaves a member out; the print at the end is what fails then.
 */
void gp_json_add_uint(cJSON *object, const char *name, uint64_t number); /* exact, unlike cJSON's numbers */
void gp_json_add_int(cJSON *object, const char *name, int64_t number);
/* The moment of a report. */
void gp_json_add_moment(
    cJSON *object, const char *name, const gp_moments_t *moments, const gp_lifetimes_t *lifetimes);
/* "rebuilt_modules": those of all inputs whose names were lost. */
void gp_report_add_rebuilt(cJSON *object, const gp_report_input_t *inputs, int count);
void gp_json_add_uint_or_null(cJSON *object, const char *name, bool known, uint64_t number);

#endif
