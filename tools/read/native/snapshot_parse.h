/*
 * The state of a parse, its errors, and helpers that read arrays and objects. The readers of the parts of a
 * snapshot use them.
 */
#ifndef GP_TOOLS_READ_NATIVE_SNAPSHOT_PARSE_H
#define GP_TOOLS_READ_NATIVE_SNAPSHOT_PARSE_H

#include "tools/read/json_scan.h"
#include "tools/read/snapshot.h"

typedef struct gp_snapshot_parse {
  gp_json_scan_t scan;
  gp_snapshot_t *snapshot;
  unsigned columns;
  size_t column_at[GP_COLUMN_COUNT]; /* offset of each column's array in the input */
  size_t column_counts[GP_COLUMN_COUNT];
  unsigned columns_seen; /* bit i: column i was read */
  size_t segments_at;    /* offsets in the input, for errors that later checks detect */
  size_t forwarded_at;
  size_t stacks_at;
  size_t frames_at;
  bool failed;
  gp_snapshot_error_t *error;
} gp_snapshot_parse_t;

/* Records an error in the content, unless an earlier error is recorded. Returns false. */
bool gp_snapshot_fail(gp_snapshot_parse_t *parse, size_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends a zeroed item of item_size bytes to an array of *count items. The capacity is the next power of
 * two. Returns the item, or NULL after recording an error in `scan`. */
void *gp_snapshot_append(gp_json_scan_t *scan, void *items, size_t *count, size_t item_size);

/* A member of an object. `read` stores the member's value in the field of the item at `offset`. It returns
 * false after recording an error in `scan`. */
typedef struct gp_snapshot_member {
  const char *name;
  size_t length; /* length of name */
  bool (*read)(gp_json_scan_t *scan, void *to);
  size_t offset;
} gp_snapshot_member_t;

#define GP_SNAPSHOT_MEMBER(name, read, type, field)                                                          \
  {                                                                                                          \
    name, sizeof(name) - 1, read, offsetof(type, field)                                                      \
  }
#define GP_SNAPSHOT_WHOLE(name, read)                                                                        \
  {                                                                                                          \
    name, sizeof(name) - 1, read, 0                                                                          \
  } /* `read` gets a pointer to the item, not to a field */

/* Reads an array, and calls `read` to add each element to the snapshot. Returns false after an error, which
 * is recorded in parse->scan or `parse`. */
bool gp_snapshot_read_array(
    gp_snapshot_parse_t *parse, bool (*read)(gp_json_scan_t *scan, gp_snapshot_t *snapshot));

/* Reads an object into `item`. The list `members` ends with a NULL name. The function checks and skips
 * members that are not in the list. */
bool gp_snapshot_read_object(gp_json_scan_t *scan, const gp_snapshot_member_t *members, void *item);

bool gp_snapshot_read_uint(gp_json_scan_t *scan, void *to);  /* reads a uint64_t; null leaves *to unchanged */
bool gp_snapshot_read_index(gp_json_scan_t *scan, void *to); /* reads an int that is at least -1 */
bool gp_snapshot_read_bool(gp_json_scan_t *scan, void *to);

/* Reads a string into the char * at `to`, and resolves escapes. Frees the previous text; the caller frees the
 * new one. */
bool gp_snapshot_read_string(gp_json_scan_t *scan, void *to);

#endif
