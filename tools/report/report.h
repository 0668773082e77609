/*
 * Functions for all commands that read snapshots. They load the files, print text or one JSON document, and
 * choose the exit status.
 */
#ifndef GP_TOOLS_REPORT_H
#define GP_TOOLS_REPORT_H

#include "tools/json_print.h"
#include "tools/model/filter.h"
#include "tools/model/moments.h"
#include "tools/output.h"
#include "tools/request.h"
#include "tools/read/snapshot.h"

/* Smallest number of files for which a report is one table of all files. */
#define GP_REPORT_MANY 4

/* A snapshot, and the part of it that the command line selects. The report borrows all members. */
typedef struct gp_report_input {
  const gp_request_t *request;
  const void *own; /* values of the command's own options */
  const gp_snapshot_t *snapshot;
  const gp_filter_t *filter;
  const char *file; /* as typed; "stdin" for - */
  int number;       /* index of the file in the request */
  int *findings;    /* exit status for findings, set by the report; used if no error occurs */
} gp_report_input_t;

/* Reports on `count` snapshots. Writes to `output`, or with --json adds the members of the result to
 * `object`. Returns the exit status, after a message if there was an error. */
typedef int (*gp_report_fn)(const gp_report_input_t *inputs, int count, gp_output_t *output, cJSON *object);

/*
 * Runs a command: parses the arguments, reports the files, and returns the exit status. `columns` selects
 * event columns, as for gp_snapshot_load. With `each`, calls `report` once for each file; the JSON is
 * {"format": "gpupool-COMMAND", "version": 1, "snapshots": [...]}. Otherwise calls `report` once for all
 * files, and its members follow format and version.
 */
int gp_report_run(const gp_request_form_t *form, int argc, char **argv, void *own, unsigned columns,
    bool each, gp_report_fn report);

/* Like gp_report_run with `each`; calls `end` with `own` after the last file. If `is_side_by_side` (may be
 * NULL) returns true, several processes report the files (side_by_side.h). `report` must then leave its
 * result in shared memory, write nothing to `output` or `object`, and set no findings. */
typedef bool (*gp_report_is_fn)(const gp_request_t *request, const void *own);
typedef void (*gp_report_end_fn)(void *own, gp_output_t *output);
int gp_report_run_each(const gp_request_form_t *form, int argc, char **argv, void *own, unsigned columns,
    gp_report_fn report, gp_report_is_fn is_side_by_side, gp_report_end_fn end);

/*
 * Like gp_report_run, but for a command that reads its files itself. `report` receives the whole request. It
 * prints a message for each file that cannot be used, and returns the exit status. After GP_EXIT_INPUT and
 * GP_EXIT_USAGE the command prints no result.
 */
typedef int (*gp_report_files_fn)(
    const gp_request_t *request, const void *own, gp_output_t *output, cJSON *object);
int gp_report_run_files(
    const gp_request_form_t *form, int argc, char **argv, void *own, gp_report_files_fn report);

/*
 * Loads the file at `index` of the request, resolves names, finds owners and applies the selection, like
 * gp_report_run. Stores `findings` in *ret_input; it may be NULL if the report sets no findings. Returns 0
 * or, after a message, the exit status. Call gp_report_close in any case.
 */
int gp_report_open(const gp_request_t *request, const void *own, unsigned columns, int index, int *findings,
    gp_report_input_t *ret_input);
void gp_report_close(gp_report_input_t *input);

/* Returns GP_EXIT_PARTIAL, after a message, if --strict was given and the snapshot is incomplete; else 0. */
int gp_report_check_strict(const gp_report_input_t *input);

/* Returns the more serious of two exit statuses. An unreadable file is more serious than a usage error, which
 * is more serious than a partial file. */
int gp_report_worse(int a, int b);

/* Prints an out-of-memory message. Returns GP_EXIT_INPUT. */
int gp_report_out_of_memory(const char *file);

/* Prints the last line of a text report: "Next: gpupool ...". Quotes file names for a shell if needed. */
void gp_report_next(gp_output_t *output, const char *command, const char *file, const char *options);

/* Formats the reason for the snapshot, such as "written at exit" or "recovered after its end". Truncates to
 * `capacity`. Returns `buffer`. */
char *gp_report_written(const gp_snapshot_t *snapshot, char *buffer, size_t capacity);

/* Prints, below the "Next:" line: "  or, in a browser: gpupool html FILE". */
void gp_report_next_page(gp_output_t *output, const char *file);

/* Prints the first line of a text report: the file, and the program that wrote the snapshot. */
void gp_report_heading(gp_output_t *output, const gp_report_input_t *input);

/* Adds the moment that a report describes to its JSON object. */
void gp_json_add_moment(
    cJSON *object, const char *name, const gp_moments_t *moments, const gp_lifetimes_t *lifetimes);
/* Add the members of every report of one snapshot, and those of every comparison of two snapshots. */
void gp_report_json_file(cJSON *object, const char *file, const gp_snapshot_t *snapshot);
void gp_report_json_files(cJSON *object, const gp_report_input_t *inputs, int count);

#endif
