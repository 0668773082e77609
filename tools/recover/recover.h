/*
 * Makes a snapshot of one record, for the command that ran its program.
 */
#ifndef GP_TOOLS_RECOVER_H
#define GP_TOOLS_RECOVER_H

#include "trace/region/record_file.h"

/*
 * Finds, lists and chooses the records that programs left behind.
 */

typedef struct gp_left {
  char path[GP_RECORD_FILE_PATH_BYTES];
  pid_t pid;
  uint64_t start_time_us; /* since 1970 */
  uint64_t bytes;         /* memory that the file takes */
  bool is_running;        /* the program is still running */
} gp_left_t;

typedef struct gp_left_list {
  gp_left_t *items; /* newest first */
  size_t count;
} gp_left_list_t;

/*
 * Finds all records of the user (machine/machine.h). Returns 0 or, after a message, the exit status. Call
 * fini in any case.
 */
int gp_left_list_read(gp_left_list_t *list);
void gp_left_list_fini(gp_left_list_t *list);

/* The newest record of process pid, ended or running; NULL: none. pid 0: the
 * newest whose process has ended. */
const gp_left_t *gp_left_list_find(const gp_left_list_t *list, pid_t pid);

/* True if the `gpupool run` with that id (run_id.h) started the process, directly or not. */
bool gp_left_is_of_run(const gp_left_t *left, const char *run);

/*
 * Writes a snapshot of a record, with "recovered" as its reason, and removes the record. output
 * (GPUPOOL_OUTPUT) gives the name, as it would in the recorded process. Keeps existing files, as the
 * library does. has_page: also writes a page for a browser beside it. Returns 0 or, after a message, the
 * exit status; on failure the record stays.
 */
int gp_recover_left(const gp_left_t *left, const char *output, bool has_page);

#endif
