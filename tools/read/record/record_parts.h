/*
 * Declarations that the files of the record reader share. record_sections.c reads the header and the
 * sections, and puts parts into their segments. record_events.c reads the events, and record_live.c reads the
 * memory. record_in_flight.c completes the operations that the kill interrupted. record_reader.c reads the
 * tables and calls all the others.
 */
#ifndef GP_TOOLS_READ_RECORD_RECORD_PARTS_H
#define GP_TOOLS_READ_RECORD_RECORD_PARTS_H

#include "trace/record/live.h"
#include "trace/snapshot/document.h"

#define GP_RECORD_NOTES      8
#define GP_RECORD_NOTE_BYTES 200

/* The record of a process that is being read, and the problems found in it. */
typedef struct gp_record {
  void *sections[GP_SECTION_COUNT]; /* copies of the sections, each followed by 64 zero bytes; NULL: empty */
  size_t bytes[GP_SECTION_COUNT];
  gp_device_copy_t copies[GP_MAX_DEVICES];
  /* Blocks (gp_block_view_t) that are part of a segment, until they are moved into `copies`. */
  gp_copied_array_t parts[GP_MAX_DEVICES];
  gp_chunks_t chunks;
  bool has_chunks;
  gp_event_merge_t events;
  gp_mark_record_t *marks;
  gp_document_t document; /* input of gp_document_write; points into the other members */
  uint32_t stack_count;   /* number of stacks that events and blocks may refer to */
  uint64_t damaged;       /* number of records that were omitted */
  bool lost_streams;      /* events or memory refer to streams, but the table of streams is lost */
  bool misses_slots;      /* some memory may have no slot */
  bool is_partial;        /* something is missing for another reason than a full ring */
  char note_texts[GP_RECORD_NOTES][GP_RECORD_NOTE_BYTES];
  const char *notes[GP_RECORD_NOTES];
  char library_version[GP_RECORD_VERSION_BYTES];
  char problem[256]; /* why the record cannot be read, and the offset */
} gp_record_t;

/* Writes the message to record->problem. Returns false. */
bool gp_record_refuse(gp_record_t *record, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Counts a record that the reader omits. */
void gp_record_note_damage(gp_record_t *record);

/* Adds a one-line note for the user of the snapshot. */
void gp_record_add_note(gp_record_t *record, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Copies the header and the sections. Accepts a section only if it is no larger than the library ever makes
 * it, and shares no byte with another section. This bounds the copy even if the header is damaged. Holes in
 * the file take no memory. If the file is not a record or host memory runs out, calls gp_record_refuse and
 * returns false.
 */
bool gp_record_read_sections(gp_record_t *record, int fd, gp_record_header_t *ret_header);

/* Checks the section of events. Returns false if host memory runs out. */
bool gp_record_read_events(gp_record_t *record);

/* Fills record->events from the checked section of events and from record->copies, which must be complete.
 * Returns false if host memory runs out. */
bool gp_record_merge_events(gp_record_t *record);

/* Fills record->copies and document.devices from the slots and the statistics. Call it after reading the
 * events. Returns false if host memory runs out. */
bool gp_record_read_live(gp_record_t *record);

/* Returns a bit mask of the devices with events. */
uint64_t gp_record_event_devices(const gp_record_t *record);

/* Returns the maximum number of operations in flight. */
size_t gp_record_most_in_flight(const gp_record_t *record);

/* Corrects record->copies and record->parts with the events of the operations in flight. Each array must have
 * room for gp_record_most_in_flight() more items. `copies` contains unsorted segments, each as one block;
 * `parts` contains the blocks that are part of a segment. Returns false if host memory runs out. */
bool gp_record_finish_operations(gp_record_t *record);

/* Puts a device's memory into its final form: sorted, and each segment divided into its parts and the holes
 * between them. Returns false if host memory runs out. */
bool gp_record_order_memory(gp_record_t *record, int device);

/* gp_record_make_array allocates `capacity` items and their index by address. It returns false if host memory
 * runs out. gp_record_drop_array frees both; the pointers may be NULL. */
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

/* Returns true if the segment may be divided into parts, because no block ever used the whole segment. */
static inline bool gp_record_is_cuttable(const gp_block_view_t *segment)
{
  return segment->state == GP_BLOCK_IDLE && segment->block_id == 0;
}

#endif
