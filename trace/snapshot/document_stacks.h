/* Writes the stacks, frames and modules of a snapshot (FORMAT.md). */
#ifndef GP_TRACE_DOCUMENT_STACKS_H
#define GP_TRACE_DOCUMENT_STACKS_H

#include <sys/types.h>

#include "format/stack_log.h"
#include "base/json.h"
#include "base/sort.h"

/*
 * Writes the keys stacks, frames, modules and lost_stacks. Writes all stacks, even unreferenced ones, so that
 * a stack has the same number in all snapshots of a process. The caller must already have copied all data
 * that refer to stacks. Without logs the lists are empty. Frames in no module get their names from the perf
 * map of the process `pid`, which must belong to the user `owner`. The first error is kept in `json`.
 */
void gp_document_write_stacks(gp_json_t *json, const gp_stack_logs_t *logs, int64_t pid, uid_t owner);

/*
 * Names of code that a program generated while it ran. Such programs describe their code for perf in
 * /tmp/perf-PID.map. Each line of this file has an address, a size and a name. CPython's trampolines (-X
 * perf, since 3.12) have names of the form "py::FUNCTION:FILE". Zeroed memory is an empty map.
 */
typedef struct gp_perf_map {
  char *text; /* complete lines */
  size_t bytes;
} gp_perf_map_t;

/*
 * Reads the map of a process of the user `owner`. Any user may create files in /tmp, so the file is used only
 * if it is a regular file, belongs to `owner`, has no other link, and other users cannot write to it. Of a
 * large file only the newest lines are read. The map is empty if there is no usable file or no memory.
 * Thread-safe.
 */
void gp_perf_map_read(gp_perf_map_t *map, int64_t pid, uid_t owner);
void gp_perf_map_fini(gp_perf_map_t *map);

#endif
