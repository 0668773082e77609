/*
 * The record of a process while it is read, and what is wrong with it.
 */
#ifndef GP_TOOLS_READ_RECORD_RECORD_H
#define GP_TOOLS_READ_RECORD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/snapshot/document.h"
#include "trace/region/region.h"

#define GP_RECORD_NOTES      8
#define GP_RECORD_NOTE_BYTES 200

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

#endif
