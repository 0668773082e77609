/*
 * Reads the record of a process that did not end normally (trace/region/region.h). Trusts nothing in the
 * file: the file may be truncated, its process may have overwritten parts of it, and the process may have
 * been killed between any two instructions. Leaves out and counts what is invalid. Completes each operation
 * that was in flight from its event.
 */
#ifndef GP_TOOLS_READ_RECORD_RECORD_READER_H
#define GP_TOOLS_READ_RECORD_RECORD_READER_H

#include "tools/read/record/record_parts.h"

/* Reads fd, which is borrowed, from its beginning. Returns false with ret_record->problem set if the file is
 * not a record, or contains no record yet. Call gp_record_fini in both cases. */
bool gp_record_read(int fd, gp_record_t *ret_record);
void gp_record_fini(gp_record_t *record);

#endif
