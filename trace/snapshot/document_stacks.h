/* The code that made the calls, in a snapshot: stacks, frames and modules (FORMAT.md). */
#ifndef GP_TRACE_DOCUMENT_STACKS_H
#define GP_TRACE_DOCUMENT_STACKS_H

#include <sys/types.h>

#include "format/stack_log.h"
#include "base/json.h"

/*
 * Writes the keys stacks, frames, modules and lost_stacks: all existing stacks, even without a reference,
 * so that their numbers are the same in all snapshots of a process. The caller must already have gathered
 * everything that refers to stacks. Without logs the lists are empty. Frames in no module get the names that
 * the perf map of process pid of user owner has for them (perf_map.h). Errors stay in json.
 */
void gp_document_write_stacks(gp_json_t *json, const gp_stack_logs_t *logs, int64_t pid, uid_t owner);

#endif
