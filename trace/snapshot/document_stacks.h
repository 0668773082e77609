/*
 * Who asked, in a snapshot: stacks, frames and modules (FORMAT.md).
 */
#ifndef GP_TRACE_DOCUMENT_STACKS_H
#define GP_TRACE_DOCUMENT_STACKS_H

#include "trace/snapshot/json.h"
#include "trace/stacks/stacks.h"

/*
 * Writes the keys stacks, frames, modules and lost_stacks: all stacks there are, whether anything refers to
 * them or not, so that their numbers are the same in all snapshots of a process. What refers to stacks must
 * have been gathered before. Of a table that was not begun the lists are empty. Of a table only log and
 * log_bytes are used, its own and of its modules, and nothing in them is believed: they may be what another
 * process left. Errors stay in json.
 */
void gp_document_write_stacks(gp_json_t *json, const gp_stacks_t *stacks);

#endif
