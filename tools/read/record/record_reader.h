/*
 * Reads the record of a process that did not come to its end (trace/region/region.h). Nothing in the file is
 * trusted: it may have been cut, its process may have written over it, and a kill may have come between any
 * two instructions. What is wrong is left out and counted; what one operation in flight left behind is set
 * right from its event.
 */
#ifndef GP_TOOLS_READ_RECORD_RECORD_READER_H
#define GP_TOOLS_READ_RECORD_RECORD_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/snapshot/document.h"
#include "trace/region/region.h"

#define GP_RECORD_NOTES      8
#define GP_RECORD_NOTE_BYTES 200

typedef struct gp_record {
  void *sections[GP_SECTION_COUNT]; /* copies, each followed by zeros for 64 bytes; NULL: it is empty */
  size_t bytes[GP_SECTION_COUNT];
  gp_device_copy_t copies[GP_MAX_DEVICES];
  gp_chunks_t chunks;
  bool has_chunks;
  gp_event_merge_t events;
  gp_document_t document; /* what gp_document_write takes; points into the rest */
  uint32_t stack_count;   /* stacks that an event or a block may name */
  uint64_t damaged;       /* records left out */
  bool lost_streams;      /* events or memory name streams, and their table is not there */
  bool is_partial;        /* something is missing that no ring would have lost */
  char note_texts[GP_RECORD_NOTES][GP_RECORD_NOTE_BYTES];
  const char *notes[GP_RECORD_NOTES];
  char problem[256]; /* why it cannot be read, with the offset */
} gp_record_t;

/*
 * fd is borrowed, and read from its beginning. Returns false with ret_record->problem set if the file is no
 * record, or holds none yet. Give it back with gp_record_fini in both cases.
 */
bool gp_record_read(int fd, gp_record_t *ret_record);
void gp_record_fini(gp_record_t *record);

#endif
