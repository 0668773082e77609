/*
 * Who asked, in a snapshot: stacks, frames and modules (FORMAT.md).
 */
#ifndef GP_TRACE_DOCUMENT_STACKS_H
#define GP_TRACE_DOCUMENT_STACKS_H

#include "trace/format/stack_log.h"
#include "trace/snapshot/json.h"

/*
 * Writes the keys stacks, frames, modules and lost_stacks: all stacks there are, whether anything refers to
 * them or not, so that their numbers are the same in all snapshots of a process. What refers to stacks must
 * have been gathered before. Without logs the lists are empty. Errors stay in json.
 */
void gp_document_write_stacks(gp_json_t *json, const gp_stack_logs_t *logs);

#endif
