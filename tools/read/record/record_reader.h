/*
 * Reads the record of a process that did not come to its end (trace/region/region.h). Nothing in the file is
 * trusted: it may have been cut, its process may have written over it, and a kill may have come between any
 * two instructions. What is wrong is left out and counted; what one operation in flight left behind is set
 * right from its event.
 */
#ifndef GP_TOOLS_READ_RECORD_RECORD_READER_H
#define GP_TOOLS_READ_RECORD_RECORD_READER_H

#include "tools/read/record/record.h"

/*
 * fd is borrowed, and read from its beginning. Returns false with ret_record->problem set if the file is no
 * record, or holds none yet. Give it back with gp_record_fini in both cases.
 */
bool gp_record_read(int fd, gp_record_t *ret_record);
void gp_record_fini(gp_record_t *record);

#endif
