/*
 * What the files of the record reader know of each other: record_sections.c has header and sections,
 * record_reader.c, above them, the tables, record_events.c the events, record_live.c the memory: for it
 * record_in_flight.c completes the operation that the kill interrupted, and record_segments.c gives segments
 * their parts back.
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

/*
 * Sets copies and parts right by the newest event of each device. Each array has room for one more. Segments
 * are in copies, unordered, as one block each; a block that is cut from one is in parts.
 */
void gp_record_finish_operations(gp_record_t *record);

/* Brings the memory of a device into its final form: ordered, segments with parts and
 * holes. False: no memory. */
bool gp_record_order_memory(gp_record_t *record, int device);

/* Room for so many items, and their order. False: the host has no memory. drop: NULL pages are legal. */
bool gp_record_make_array(gp_copied_array_t *array, size_t capacity, size_t item_bytes);
void gp_record_drop_array(gp_copied_array_t *array);

static inline gp_block_view_t *gp_record_block(const gp_copied_array_t *array, size_t i)
{
  return (gp_block_view_t *)array->items + i;
}

static inline gp_forwarded_t *gp_record_forwarded(const gp_copied_array_t *array, size_t i)
{
  return (gp_forwarded_t *)array->items + i;
}

/* A segment that may be cut: no block of its whole size ever was in it. */
static inline bool gp_record_is_cuttable(const gp_block_view_t *segment)
{
  return segment->state == GP_BLOCK_IDLE && segment->block_id == 0;
}

#endif
