/*
 * Reads the record of a process that did not end normally (trace/region/region.h). Trusts nothing in the
 * file. It may be truncated, and the process may have overwritten parts of it. The kill may have come between
 * any two instructions. Omits and counts invalid records. Completes each operation in flight from its event.
 */
#ifndef GP_TOOLS_READ_RECORD_RECORD_READER_H
#define GP_TOOLS_READ_RECORD_RECORD_READER_H

#include "tools/read/record/record_parts.h"

/* Reads `fd`, which is borrowed, from its beginning. If the file is not a record, or contains no record yet,
 * sets ret_record->problem and returns false. Call gp_record_fini in either case. */
bool gp_record_read(int fd, gp_record_t *ret_record);
void gp_record_fini(gp_record_t *record);

#endif
