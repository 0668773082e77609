/*
 * What all commands that read snapshots do: load the files, print text or one JSON document, and choose the
 * exit status.
 */
#ifndef GP_TOOLS_REPORT_H
#define GP_TOOLS_REPORT_H

#include "tools/json_print.h"
#include "tools/model/filter.h"
#include "tools/model/moments.h"
#include "tools/output.h"
#include "tools/request.h"
#include "tools/read/snapshot.h"

/* With so many files a report is one table of all. */
#define GP_REPORT_MANY 4

/* A snapshot and what the command line selects from it. The report borrows all of it. */
typedef struct gp_report_input {
  const gp_request_t *request;
  const void *own; /* the command's own options */
  const gp_snapshot_t *snapshot;
  const gp_filter_t *filter;
  const char *file; /* as typed; "stdin" for - */
  int number;       /* of the file in the request, from 0 */
  int *findings;    /* set to the exit status that the findings call for, if nothing goes wrong */
} gp_report_input_t;

/* Reports on `count` snapshots: writes to output, or with --json adds the members of the result to object.
 * Returns the exit status; after an error it has printed a message. */
typedef int (*gp_report_fn)(const gp_report_input_t *inputs, int count, gp_output_t *output, cJSON *object);

/*
 * Runs a command from its arguments to its exit status. columns: of events, as for gp_snapshot_load. With
 * `each` calls report for each file; the JSON is {"format": "gpupool-COMMAND", "version": 1, "snapshots":
 * [...]}. Else calls it once for all files, and its members follow format and version.
 */
int gp_report_run(const gp_request_form_t *form, int argc, char **argv, void *own, unsigned columns,
    bool each, gp_report_fn report);

/* Like gp_report_run with `each`; calls end after the last file, with what the command got as own. If
 * is_side_by_side (may be NULL) says so, several processes report the files (side_by_side.h): report then
 * leaves its result in shared memory: it writes nothing to output or object, and sets no findings. */
typedef bool (*gp_report_is_fn)(const gp_request_t *request, const void *own);
typedef void (*gp_report_end_fn)(void *own, gp_output_t *output);
int gp_report_run_each(const gp_request_form_t *form, int argc, char **argv, void *own, unsigned columns,
    gp_report_fn report, gp_report_is_fn is_side_by_side, gp_report_end_fn end);

/*
 * Like gp_report_run, for a command that reads its files itself. report gets all files in the request,
 * prints what is wrong with one, and returns the exit status. After GP_EXIT_INPUT and GP_EXIT_USAGE the
 * command prints nothing.
 */
typedef int (*gp_report_files_fn)(
    const gp_request_t *request, const void *own, gp_output_t *output, cJSON *object);
int gp_report_run_files(
    const gp_request_form_t *form, int argc, char **argv, void *own, gp_report_files_fn report);

/*
 * Loads the index-th file of request, and finds names, owners and the selection, like the functions above.
 * findings: as in *ret_input; may be NULL if nothing sets it. Returns 0 or, after a message, the exit
 * status. Call gp_report_close in any case.
 */
int gp_report_open(const gp_request_t *request, const void *own, unsigned columns, int index, int *findings,
    gp_report_input_t *ret_input);
void gp_report_close(gp_report_input_t *input);

/* With --strict and an incomplete snapshot: GP_EXIT_PARTIAL, after a message; else 0. */
int gp_report_check_strict(const gp_report_input_t *input);

/* The exit status that prevails: an unreadable file before a wrong option,
 * and that before a partial file. */
int gp_report_worse(int a, int b);

/* Reports that memory is exhausted. Returns GP_EXIT_INPUT. */
int gp_report_out_of_memory(const char *file);

/* Prints the last line of a text: "Next: gpupool ...", with files quoted for a shell if needed. */
void gp_report_next(gp_output_t *output, const char *command, const char *file, const char *options);

/* "written at exit", "recovered after its end": why the snapshot was written.
 * Cuts to capacity; returns buffer. */
char *gp_report_written(const gp_snapshot_t *snapshot, char *buffer, size_t capacity);

/* Prints below it: "  or, in a browser: gpupool html FILE". */
void gp_report_next_page(gp_output_t *output, const char *file);

/* Prints the first line of a text: the file, and what the snapshot is of. */
void gp_report_heading(gp_output_t *output, const gp_report_input_t *input);

/* Adds the moment of a report to JSON. */
void gp_json_add_moment(
    cJSON *object, const char *name, const gp_moments_t *moments, const gp_lifetimes_t *lifetimes);
/* Add what every report of a snapshot has in JSON, and every comparison of two. */
void gp_report_json_file(cJSON *object, const char *file, const gp_snapshot_t *snapshot);
void gp_report_json_files(cJSON *object, const gp_report_input_t *inputs, int count);

#endif
