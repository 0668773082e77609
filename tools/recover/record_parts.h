/*
 * What the files of the record reader know of each other: record_reader.c has sections and tables, record_live.c the
 * memory, record_events.c the history.
 */
#ifndef GP_TOOLS_RECORD_PARTS_H
#define GP_TOOLS_RECORD_PARTS_H

#include "tools/recover/record_reader.h"
#include "trace/record/live.h"

/* Counts a record that is left out. */
void gp_record_note_damage(gp_record_t *record);

/* Something that the reader of the snapshot has to know; one line. */
void gp_record_add_note(gp_record_t *record, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fills record->history from the section of events. False: the host has no memory. */
bool gp_record_read_events(gp_record_t *record);

/* Fills record->views and document.devices from slots and statistics; after the events. False: no memory. */
bool gp_record_read_live(gp_record_t *record);

#endif
