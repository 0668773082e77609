/*
 * What the files of the record reader know of each other: record_sections.c has header and sections,
 * record_reader.c, above them, the tables, record_live.c the memory, record_events.c the events.
 */
#ifndef GP_TOOLS_READ_RECORD_RECORD_PARTS_H
#define GP_TOOLS_READ_RECORD_RECORD_PARTS_H

#include "tools/read/record/record.h"
#include "trace/record/live.h"

/*
 * Copies header and sections. A section counts only if it is no larger than the library ever makes it and
 * shares no byte with another one: so what is copied is bounded, whatever the header says. Holes of the file
 * take no memory. False, after gp_record_refuse: the file is no record, or the host has no memory.
 */
bool gp_record_read_sections(gp_record_t *record, int fd, gp_record_header_t *ret_header);

/* Fills record->events from the section of events. False: the host has no memory. */
bool gp_record_read_events(gp_record_t *record);

/* Fills record->copies and document.devices from slots and statistics; after the events. False: no memory. */
bool gp_record_read_live(gp_record_t *record);

#endif
