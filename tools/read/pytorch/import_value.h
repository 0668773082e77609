/*
 * A tree of the values in a pickle or JSON document: numbers, texts, lists and dicts. Texts stay in the input
 * where possible. A multiple of the input's size limits the memory use. Not thread-safe.
 */
#ifndef GP_TOOLS_READ_PYTORCH_IMPORT_VALUE_H
#define GP_TOOLS_READ_PYTORCH_IMPORT_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/read/snapshot.h"

typedef enum gp_value_kind {
  GP_VALUE_NONE,
  GP_VALUE_BOOL,    /* `integer` is 0 or 1 */
  GP_VALUE_INTEGER, /* 64 bits; a larger integer becomes OTHER in a pickle, and FLOAT in JSON */
  GP_VALUE_FLOAT,
  GP_VALUE_TEXT,
  GP_VALUE_LIST, /* lists and tuples */
  GP_VALUE_DICT,
  GP_VALUE_OTHER, /* a kind of value that snapshots do not need */
} gp_value_kind_t;

typedef struct gp_container gp_container_t;

typedef struct gp_value {
  union {
    int64_t integer;
    double number;
    const char *text; /* `length` bytes without a NUL, not validated as UTF-8 */
    gp_container_t *container;
  };
  uint32_t length;
  uint8_t kind;
} gp_value_t;

/* A list or a dict. Several values may share a container, and a container may contain itself. So the caller
 * must limit the depth to which it follows values. */
struct gp_container {
  gp_value_t *items; /* for a dict: name, value, name, value ... */
  uint32_t count;    /* number of items, which is even for a dict */
  uint32_t room;
  size_t at;    /* offset of the container in the input */
  int32_t note; /* for the caller: an index, or one of the values below */
};

#define GP_CONTAINER_NEW  (-1)
#define GP_CONTAINER_READ (-2)
#define GP_CONTAINER_PART (-3) /* the taker got the first events of this trace; the rest is here */

typedef struct gp_container_chunk gp_container_chunk_t;

typedef struct gp_value_tree {
  const char *text; /* the input, or the part of it that is being read; borrowed */
  size_t base;      /* offset in the input of text[0] */
  size_t length;    /* known length of the input */
  gp_container_chunk_t *chunks;
  char **copies; /* texts that differ from their bytes in the input */
  size_t copy_count;
  size_t used;        /* bytes of memory in use */
  size_t value_bytes; /* part of `used` that contains values */
  size_t most;        /* limit for `used` */
  bool failed;
  gp_snapshot_error_t *error;
} gp_value_tree_t;

void gp_value_tree_init(gp_value_tree_t *tree, const char *text, size_t length, gp_snapshot_error_t *error);
void gp_value_tree_fini(gp_value_tree_t *tree);

/* Raises the known length of the input to `length` bytes, and the memory limit with it. */
void gp_value_tree_grow(gp_value_tree_t *tree, size_t length);

/* Discards all values and reuses their memory. */
void gp_value_tree_clear(gp_value_tree_t *tree);

/* Records an error, unless an earlier error is recorded. Returns false. */
bool gp_value_tree_fail(gp_value_tree_t *tree, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Counts bytes about to be allocated. Returns false if they exceed the limit for an input of this size. */
bool gp_value_tree_account(gp_value_tree_t *tree, size_t bytes);

/* Makes room for one more item in an array of *room items, of which `count` are in use. `items` is the
 * address of the pointer to the array, and `at` is the offset for error messages. Returns false after an
 * error in the document. */
bool gp_value_tree_reserve(
    gp_value_tree_t *tree, size_t at, void *items, size_t count, size_t *room, size_t item_size);

/* Takes ownership of a text from malloc(), and frees it together with the values. NULL is legal. Returns
 * false after an error in the document. */
bool gp_value_tree_adopt(gp_value_tree_t *tree, char *text);

/* Returns a new empty list or dict, or NULL after an error in the document. `at` is its offset in the
 * input. */
gp_container_t *gp_value_tree_container(gp_value_tree_t *tree, size_t at);

/* Appends `count` values. Returns false after an error in the document. */
bool gp_container_append(
    gp_value_tree_t *tree, gp_container_t *container, const gp_value_t *values, size_t count);

/* Discards the items of a container and frees their memory. */
void gp_container_release(gp_value_tree_t *tree, gp_container_t *container);

bool gp_value_is(const gp_value_t *value, const char *text);

/* Returns the last member called `name` in a dict, or NULL if the member is missing. Also returns NULL if
 * `dict` is NULL or not a dict. */
const gp_value_t *gp_value_member(const gp_value_t *dict, const char *name);

/* Callbacks that get parts of a pickle as soon as the parts are complete. They return false after an error in
 * the document. */
typedef struct gp_import_taker {
  bool (*segments)(void *self,
      const gp_value_t *segments); /* called once, before the events, if the segments come first */
  bool (*event)(void *self, const gp_value_t *event, int device, size_t index);
  void *self;
} gp_import_taker_t;

/* Reads a Python pickle without executing anything (import_pickle.c). Passes events of "device_traces" in the
 * outermost dict to the taker as soon as they are complete, in the order of the devices. *ret_value gets
 * everything except these events. *ret_is_cut is true if the input ends too early; *ret_value then contains
 * the complete part. Returns false after an error in the document. */
bool gp_pickle_read(
    gp_value_tree_t *tree, const gp_import_taker_t *taker, gp_value_t *ret_value, bool *ret_is_cut);

#endif
