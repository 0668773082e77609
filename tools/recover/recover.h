/*
 * A snapshot of one record that was left, for the command that ran its program.
 */
#ifndef GP_TOOLS_RECOVER_H
#define GP_TOOLS_RECOVER_H

#include "tools/recover/recover_list.h"

/*
 * Makes the snapshot of a record that is left, under the name that output (GPUPOOL_OUTPUT) makes for its
 * process, with "recovered" as the reason, and removes the record. What is there already is kept, as by the
 * library. has_page: with a page for a browser beside it. Returns 0 or, after a
 * message, the exit status; the record stays then.
 */
int gp_recover_left(const gp_left_t *left, const char *output, bool has_page);

#endif
