/*
 * Makes a snapshot of one record, for the command that ran its program.
 */
#ifndef GP_TOOLS_RECOVER_H
#define GP_TOOLS_RECOVER_H

#include "tools/recover/recover_list.h"

/*
 * Writes a snapshot of a record, with "recovered" as its reason, and removes the record. output
 * (GPUPOOL_OUTPUT) gives the name, as it would in the recorded process. Keeps existing files, as the
 * library does. has_page: also writes a page for a browser beside it. Returns 0 or, after a message, the
 * exit status; on failure the record stays.
 */
int gp_recover_left(const gp_left_t *left, const char *output, bool has_page);

#endif
