/* The code that made the calls, in a snapshot: stacks, frames and modules (FORMAT.md). */
#ifndef GP_TRACE_DOCUMENT_STACKS_H
#define GP_TRACE_DOCUMENT_STACKS_H

#include <sys/types.h>

#include "format/stack_log.h"
#include "base/json.h"
#include "base/sort.h"

/*
 * Writes the keys stacks, frames, modules and lost_stacks: all existing stacks, even without a reference,
 * so that their numbers are the same in all snapshots of a process. The caller must already have gathered
 * everything that refers to stacks. Without logs the lists are empty. Frames in no module get the names that
 * the perf map of process pid of user owner has for them (document_stacks.h). Errors stay in json.
 */
void gp_document_write_stacks(gp_json_t *json, const gp_stack_logs_t *logs, int64_t pid, uid_t owner);

/*
 * Names of code that a program made while it ran. Programs that make code tell perf what they made in
 * /tmp/perf-PID.map, a line each: address, size, name. CPython's trampolines (-X perf, from 3.12 on) are the
 * lines "py::FUNCTION:FILE".
 */

/* Zeroed memory is a map without a line. */
typedef struct gp_perf_map {
  char *text; /* whole lines */
  size_t bytes;
} gp_perf_map_t;

/*
 * Reads the map of a process of this user. Any user may make files in /tmp, so only a plain file counts that
 * belongs to owner, has no other name, and that no other user may write. Of a large one the newest lines are
 * read. No map and no memory are a map without a line. Any thread.
 */
void gp_perf_map_read(gp_perf_map_t *map, int64_t pid, uid_t owner);
void gp_perf_map_fini(gp_perf_map_t *map);

#endif
