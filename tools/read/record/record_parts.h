/*
 * What the files of the record reader share. record_sections.c reads header and sections, record_events.c
 * the events, record_live.c the memory, and record_reader.c, above all others, the tables.
 * record_in_flight.c completes the operations that the kill interrupted. record_sections.c puts parts into
 * their segments.
 */
#ifndef GP_TOOLS_READ_RECORD_RECORD_PARTS_H
#define GP_TOOLS_READ_RECORD_RECORD_PARTS_H

#include "trace/record/live.h"
#include "trace/snapshot/document.h"

#define GP_RECORD_NOTES      8
#define GP_RECORD_NOTE_BYTES 200

/* The record of a process while it is read, and what is wrong with it. */
typedef struct gp_record {
  void *sections[GP_SECTION_COUNT]; /* copies, each followed by 64 zero bytes; NULL: empty */
  size_t bytes[GP_SECTION_COUNT];
  gp_device_copy_t copies[GP_MAX_DEVICES];
  gp_copied_array_t parts[GP_MAX_DEVICES]; /* gp_block_view_t cut from segments, until moved into copies */
  gp_chunks_t chunks;
  bool has_chunks;
  gp_event_merge_t events;
  gp_mark_record_t *marks;
  gp_document_t document; /* what gp_document_write takes; points into the other members */
  uint32_t stack_count;   /* stacks that events and blocks may refer to */
  uint64_t damaged;       /* number of records left out */
  bool lost_streams;      /* events or memory name streams, but the table of streams is missing */
  bool misses_slots;      /* memory without a slot may exist */
  bool is_partial;        /* something is missing that a full ring does not explain */
  char note_texts[GP_RECORD_NOTES][GP_RECORD_NOTE_BYTES];
  const char *notes[GP_RECORD_NOTES];
  char library_version[GP_RECORD_VERSION_BYTES];
  char problem[256]; /* why it cannot be read, with the offset */
} gp_record_t;

/* Sets record->problem. Returns false. */
bool gp_record_refuse(gp_record_t *record, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Counts a record that the reader leaves out. */
void gp_record_note_damage(gp_record_t *record);

/* Adds a note for the user of the snapshot; one line. */
void gp_record_add_note(gp_record_t *record, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Copies header and sections. Accepts a section only if it is no larger than the library ever makes it and
 * shares no byte with another: this bounds the copy, whatever the header says. Holes of the file take no
 * memory. False, after gp_record_refuse: the file is not a record, or the host has no memory.
 */
bool gp_record_read_sections(gp_record_t *record, int fd, gp_record_header_t *ret_header);

/* Checks the section of events. False: no host memory. */
bool gp_record_read_events(gp_record_t *record);

/* Fills record->events from that section and the copies, which are complete. False: no host memory. */
bool gp_record_merge_events(gp_record_t *record);

/* Fills record->copies and document.devices from slots and statistics; call it
 * after the events. False: no memory. */
bool gp_record_read_live(gp_record_t *record);

/* The devices that have events, a bit each. */
uint64_t gp_record_event_devices(const gp_record_t *record);

/* Operations that may be in flight, at most. */
size_t gp_record_most_in_flight(const gp_record_t *record);

/* Corrects copies and parts by the events of operations in flight. Each array has room for that many more
 * items. copies holds segments, unordered, as one block each; parts holds blocks cut from them. False: no
 * host memory. */
bool gp_record_finish_operations(gp_record_t *record);

/* Brings a device's memory into its final form: sorted, with segments made of
 * parts and holes. False: no memory. */
bool gp_record_order_memory(gp_record_t *record, int device);

/* Allocates capacity items and their order. False: no host memory.
 * gp_record_drop_array: NULL pages are legal. */
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

/* True if the segment may be cut: it never held a block of its whole size. */
static inline bool gp_record_is_cuttable(const gp_block_view_t *segment)
{
  return segment->state == GP_BLOCK_IDLE && segment->block_id == 0;
}

#endif
