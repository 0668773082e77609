/*
 * A tree of values that a pickle or JSON holds: numbers, texts, lists and dicts. Texts stay in the input
 * where possible. The size of the input bounds the memory. One thread at a time.
 */
#ifndef GP_TOOLS_READ_PYTORCH_IMPORT_VALUE_H
#define GP_TOOLS_READ_PYTORCH_IMPORT_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/read/snapshot.h"

typedef enum gp_value_kind {
  GP_VALUE_NONE,
  GP_VALUE_BOOL,    /* integer is 0 or 1 */
  GP_VALUE_INTEGER, /* 64 bits; a larger one becomes OTHER, from JSON FLOAT */
  GP_VALUE_FLOAT,
  GP_VALUE_TEXT,
  GP_VALUE_LIST, /* tuples too */
  GP_VALUE_DICT,
  GP_VALUE_OTHER, /* a value that a snapshot does not need */
} gp_value_kind_t;

typedef struct gp_container gp_container_t;

typedef struct gp_value {
  union {
    int64_t integer;
    double number;
    const char *text; /* length bytes without a NUL, not checked to be UTF-8 */
    gp_container_t *container;
  };
  uint32_t length;
  uint8_t kind;
} gp_value_t;

/* A list or a dict. Several values may share one, and one may contain itself: the caller
 * bounds how far it follows them. */
struct gp_container {
  gp_value_t *items; /* of a dict: name, value, name, value ... */
  uint32_t count;    /* number of items; even for a dict */
  uint32_t room;
  size_t at;    /* offset of its beginning in the input */
  int32_t note; /* for the user: an index, or one of those below */
};

#define GP_CONTAINER_NEW  (-1)
#define GP_CONTAINER_READ (-2)
#define GP_CONTAINER_PART (-3) /* a trace whose first events were taken; it has those that follow */

typedef struct gp_container_chunk gp_container_chunk_t;

typedef struct gp_value_tree {
  const char *text; /* the input, or the part that is being read, borrowed */
  size_t base;      /* offset in the input of text[0] */
  size_t length;    /* length of the input, as far as known */
  gp_container_chunk_t *chunks;
  char **copies; /* texts that differ from their bytes in the input */
  size_t copy_count;
  size_t used;        /* bytes of memory in use */
  size_t value_bytes; /* part of used: bytes for values */
  size_t most;        /* limit of used */
  bool failed;
  gp_snapshot_error_t *error;
} gp_value_tree_t;

void gp_value_tree_init(gp_value_tree_t *tree, const char *text, size_t length, gp_snapshot_error_t *error);
void gp_value_tree_fini(gp_value_tree_t *tree);

/* Tells that the input has at least length bytes; the memory limit grows with it. */
void gp_value_tree_grow(gp_value_tree_t *tree, size_t length);

/* Forgets all values and reuses their memory. */
void gp_value_tree_clear(gp_value_tree_t *tree);

/* Notes an error, unless one is noted already. Returns false. */
bool gp_value_tree_fail(gp_value_tree_t *tree, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Accounts for bytes before they are allocated; false: too many for an input of this size. */
bool gp_value_tree_account(gp_value_tree_t *tree, size_t bytes);

/* Makes room in an array of room items, of which count are in use, for one more. items: the address of the
 * pointer to them. at: for the message. False is an error of the document. */
bool gp_value_tree_reserve(
    gp_value_tree_t *tree, size_t at, void *items, size_t count, size_t *room, size_t item_size);

/* Takes over a text from malloc(), which then lives as long as the values; NULL is legal.
 * False is an error of the document. */
bool gp_value_tree_adopt(gp_value_tree_t *tree, char *text);

/* A new empty list or dict; NULL is an error of the document. */
gp_container_t *gp_value_tree_container(gp_value_tree_t *tree, size_t at);

/* Appends count values. False is an error of the document. */
bool gp_container_append(
    gp_value_tree_t *tree, gp_container_t *container, const gp_value_t *values, size_t count);

/* Forgets the items of a container, and has their memory back. */
void gp_container_release(gp_value_tree_t *tree, gp_container_t *container);

bool gp_value_is(const gp_value_t *value, const char *text);

/* The last member of a dict with that name; NULL if missing, or if dict is NULL or not a dict. */
const gp_value_t *gp_value_member(const gp_value_t *dict, const char *name);

/* Receives parts of a pickle as soon as they are complete. False is an error of the document. */
typedef struct gp_import_taker {
  bool (*segments)(void *self, const gp_value_t *segments); /* once, before the events, if they come first */
  bool (*event)(void *self, const gp_value_t *event, int device, size_t index);
  void *self;
} gp_import_taker_t;

/* import_pickle.c: reads a Python pickle without executing anything. Events of "device_traces" in the
 * outermost dict go to the taker as soon as they are complete, in the order of the devices, and are not in
 * the value; everything else is. *ret_is_cut: the input ends too early, and the value has what was complete.
 * False: the document holds the error. */
bool gp_pickle_read(
    gp_value_tree_t *tree, const gp_import_taker_t *taker, gp_value_t *ret_value, bool *ret_is_cut);

#endif
