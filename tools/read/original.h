/*
 * The dicts of a snapshot of PyTorch, as far as the snapshot in memory has no place for what is in them, so
 * that an export writes the same objects again: members that only PyTorch knows, members that are missing,
 * their order.
 *
 * It is a table of parts: texts, lists, tuples, dicts and large integers, each there once however often it
 * occurs. A part refers to others by their index. What a snapshot holds itself is not in its part: there the
 * part has an element of kind HELD, and so the dicts of most events are the same part.
 */
#ifndef GP_TOOLS_READ_ORIGINAL_H
#define GP_TOOLS_READ_ORIGINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/read/column.h"

/* Part 0 is no part: what refers to it was not kept. */
#define GP_ORIGINAL_NONE 0

typedef enum gp_original_part {
  GP_ORIGINAL_TEXT,  /* its bytes follow */
  GP_ORIGINAL_LONG,  /* an integer of more than 64 bits, two's complement, the lowest byte first */
  GP_ORIGINAL_LIST,  /* elements follow */
  GP_ORIGINAL_TUPLE, /* the same */
  GP_ORIGINAL_DICT,  /* elements follow: name, value, name, value ... */
} gp_original_part_t;

typedef enum gp_original_kind {
  GP_ORIGINAL_NULL,
  GP_ORIGINAL_FALSE,
  GP_ORIGINAL_TRUE,
  GP_ORIGINAL_INTEGER,
  GP_ORIGINAL_FLOAT,
  GP_ORIGINAL_PART,  /* integer: its index */
  GP_ORIGINAL_STACK, /* integer: the stack of the snapshot that a list of frames has become */
  GP_ORIGINAL_HELD,  /* integer: a gp_original_held_t */
} gp_original_kind_t;

/* What the snapshot holds: of its top, of a segment, a block, an event, a frame. */
typedef enum gp_original_held {
  GP_HELD_SEGMENTS,
  GP_HELD_TRACES,
  GP_HELD_BLOCKS,
  GP_HELD_DEVICE,
  GP_HELD_ADDRESS,
  GP_HELD_SIZE,
  GP_HELD_REQUESTED,
  GP_HELD_STREAM,
  GP_HELD_STATE,
  GP_HELD_ACTION,
  GP_HELD_TIME,
  GP_HELD_DEVICE_FREE,
  GP_HELD_STACK,
  GP_HELD_FILE,
  GP_HELD_LINE,
  GP_HELD_FUNCTION,
} gp_original_held_t;

/* One element of a list, a tuple or a dict. */
typedef struct gp_original_element {
  gp_original_kind_t kind;
  union {
    int64_t integer;
    double number;
  };
} gp_original_element_t;

/* private, but for the members that say so */
typedef struct gp_original {
  unsigned char *bytes;
  size_t byte_count;
  size_t byte_room;
  size_t *ends; /* of part i + 1 */
  size_t end_room;
  uint32_t *slots; /* by hash: part, 0: free */
  size_t slot_room;
  uint32_t part_count; /* read only; parts are 1 .. part_count */
  uint32_t top; /* the whole document, a dict; GP_ORIGINAL_NONE: it is a list of segments. This and the rest
                   are the reader's to fill */
  uint32_t trace_count;
  uint32_t *segments;    /* segment i of the file is this one of the snapshot */
  gp_column_t *events;   /* the part of each event of the snapshot */
  gp_column_t *times_us; /* its time as the file has it, where it has one */
} gp_original_t;

/* An empty table, or NULL: no memory. */
gp_original_t *gp_original_create(void);
void gp_original_destroy(gp_original_t *original); /* NULL is legal */

/*
 * The part of those bytes, which begin with a gp_original_part_t: one that is there already, or a new one.
 * Returns GP_ORIGINAL_NONE without memory. *ret_grown is how many bytes of memory it took.
 */
uint32_t gp_original_put(
    gp_original_t *original, const unsigned char *bytes, size_t length, size_t *ret_grown);

/* The bytes of a part, from 1 to part_count. Borrowed until the next put. */
const unsigned char *gp_original_get(const gp_original_t *original, uint32_t part, size_t *ret_length);

/* An element as bytes, GP_ORIGINAL_ELEMENT_BYTES at most. Returns how many. */
#define GP_ORIGINAL_ELEMENT_BYTES 11
size_t gp_original_write(const gp_original_element_t *element, unsigned char *to);

/* The element at *at, which goes past it. False at end. */
bool gp_original_read(const unsigned char **at, const unsigned char *end, gp_original_element_t *ret_element);

#endif
