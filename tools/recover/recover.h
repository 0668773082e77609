/*
 * Recovers snapshots from records, for `gpupool recover` and `gpupool run`.
 */
#ifndef GP_TOOLS_RECOVER_H
#define GP_TOOLS_RECOVER_H

#include "trace/region/record_file.h"

/*
 * Finding, listing and choosing the records that programs left behind.
 */

typedef struct gp_left {
  char path[GP_RECORD_FILE_PATH_BYTES];
  pid_t pid;
  uint64_t start_time_us; /* start of the process, since 1970 */
  uint64_t bytes;         /* memory that the file occupies */
  bool is_running;        /* the program has not ended */
} gp_left_t;

typedef struct gp_left_list {
  gp_left_t *items; /* newest first */
  size_t count;
} gp_left_list_t;

/*
 * Finds all records of this user, as gp_records_walk does with NULL (machine/machine.h). Returns 0 or, after
 * a message, the exit status. Call gp_left_list_fini in any case.
 */
int gp_left_list_read(gp_left_list_t *list);
void gp_left_list_fini(gp_left_list_t *list);

/* Returns the newest record of process `pid`, running or not, or NULL if there is none. With pid 0, returns
 * the newest record of any process that has ended. */
const gp_left_t *gp_left_list_find(const gp_left_list_t *list, pid_t pid);

/* Returns true if the `gpupool run` with the id `run` (run_id.h) started the process, directly or through
 * other processes. */
bool gp_left_is_of_run(const gp_left_t *left, const char *run);

/*
 * Writes a snapshot of a record, with "recovered" as its reason, and removes the record. The name follows the
 * pattern `output` (GPUPOOL_OUTPUT), as it would in the recorded process. Never overwrites a file. With
 * `has_page` also writes a page for a browser next to the snapshot. Returns 0 or, after a message, the exit
 * status. On failure keeps the record.
 */
int gp_recover_left(const gp_left_t *left, const char *output, bool has_page);

#endif
