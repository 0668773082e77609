/*
 * How the parts of a snapshot are read: shared by snapshot_load.c (files), snapshot_reader.c (document),
 * snapshot_memory.c (segments, passthrough), snapshot_rows.c (events) and snapshot_stacks.c (stacks, frames,
 * modules).
 */
#ifndef GP_TOOLS_READ_NATIVE_SNAPSHOT_PARTS_H
#define GP_TOOLS_READ_NATIVE_SNAPSHOT_PARTS_H

#include "tools/read/native/json_scan.h"
#include "tools/read/native/snapshot_reader.h"

typedef struct gp_snapshot_parse {
  gp_json_scan_t scan;
  gp_snapshot_t *snapshot;
  unsigned columns;
  size_t column_at[GP_COLUMN_COUNT]; /* offset of each column's array */
  size_t column_counts[GP_COLUMN_COUNT];
  unsigned columns_seen; /* mask */
  size_t segments_at;    /* offsets of these, for errors found later */
  size_t passthrough_at;
  size_t stacks_at;
  size_t frames_at;
  bool failed;
  gp_snapshot_error_t *error;
} gp_snapshot_parse_t;

/* As gp_snapshot_parse, of an input of which nothing but its beginning was looked at. An error of the input
 * itself looks like its end: the caller has to ask for it. */
gp_snapshot_t *gp_snapshot_parse_input(gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error);

/* Notes an error of the content, if there is none yet. Returns false. */
bool gp_snapshot_fail(gp_snapshot_parse_t *parse, size_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a sentence to the notes: something is missing. */
void gp_snapshot_note(gp_snapshot_t *snapshot, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * One more item of item_size bytes, zeroed, at the end of an array that *count tells the length of and that
 * is as long as a power of two; NULL is an error of the scan.
 */
void *gp_snapshot_append(gp_json_scan_t *scan, void **items, size_t *count, size_t item_size);

/* Members: a number from 0 on, or null, which leaves *ret_number; an index, which may be -1; true or false.
 */
bool gp_snapshot_read_uint(gp_json_scan_t *scan, uint64_t *ret_number);
bool gp_snapshot_read_index(gp_json_scan_t *scan, int *ret_index);
bool gp_snapshot_read_bool(gp_json_scan_t *scan, bool *ret_bool);

/* A copy of a string, its escapes resolved; the caller frees it. What was in *ret_text before is freed. */
bool gp_snapshot_read_string(gp_json_scan_t *scan, char **ret_text);

/* The scan stands at the value; false: there is an error in scan or parse. */
bool gp_snapshot_read_segments(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_passthrough(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_events(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_stacks(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_frames(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_modules(gp_snapshot_parse_t *parse);

/* Checks what refers to other parts; these have all been read. */
bool gp_snapshot_check_events(gp_snapshot_parse_t *parse);
bool gp_snapshot_check_memory(gp_snapshot_parse_t *parse);
bool gp_snapshot_check_stacks(gp_snapshot_parse_t *parse);
void gp_snapshot_memory_fini(gp_snapshot_t *snapshot);
void gp_snapshot_rows_fini(gp_snapshot_t *snapshot);
void gp_snapshot_stacks_fini(gp_snapshot_t *snapshot);

#endif
