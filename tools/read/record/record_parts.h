/*
 * What the files of the record reader know of each other: record_sections.c has header and sections,
 * record_reader.c the tables, record_live.c the memory, record_events.c the events.
 */
#ifndef GP_TOOLS_READ_RECORD_RECORD_PARTS_H
#define GP_TOOLS_READ_RECORD_RECORD_PARTS_H

#include "tools/read/record/record_reader.h"
#include "trace/record/live.h"

/* Sets record->problem. Returns false. */
bool gp_record_refuse(gp_record_t *record, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Copies header and sections. A section counts only if it is no larger than the library ever makes it and
 * shares no byte with another one: so what is copied is bounded, whatever the header says. Holes of the file
 * take no memory. False, after gp_record_refuse: the file is no record, or the host has no memory.
 */
bool gp_record_read_sections(gp_record_t *record, int fd, gp_record_header_t *ret_header);

/* Counts a record that is left out. */
void gp_record_note_damage(gp_record_t *record);

/* Something that the reader of the snapshot has to know; one line. */
void gp_record_add_note(gp_record_t *record, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fills record->events from the section of events. False: the host has no memory. */
bool gp_record_read_events(gp_record_t *record);

/* Fills record->copies and document.devices from slots and statistics; after the events. False: no memory. */
bool gp_record_read_live(gp_record_t *record);

#endif
