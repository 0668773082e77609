/*
 * How the parts of a snapshot are read: shared by snapshot_reader.c (document) and snapshot_rows.c (long
 * arrays).
 */
#ifndef GP_TOOLS_SNAPSHOT_PARTS_H
#define GP_TOOLS_SNAPSHOT_PARTS_H

#include "tools/json_scan.h"
#include "tools/snapshot_reader.h"

typedef struct gp_snapshot_parse {
  gp_json_scan_t scan;
  gp_snapshot_t *snapshot;
  unsigned columns;
  size_t column_at[GP_COLUMN_COUNT]; /* offset of each column's array */
  size_t column_counts[GP_COLUMN_COUNT];
  unsigned columns_seen; /* mask */
  bool failed;
  gp_snapshot_error_t *error;
} gp_snapshot_parse_t;

/* Notes an error of the content, if there is none yet. Returns false. */
bool gp_snapshot_fail(gp_snapshot_parse_t *parse, size_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a sentence to the notes: something is missing. */
void gp_snapshot_note(gp_snapshot_t *snapshot, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* snapshot_rows.c. The scan stands at the value; false: there is an error in scan or parse. */
bool gp_snapshot_read_segments(gp_snapshot_parse_t *parse);
bool gp_snapshot_read_events(gp_snapshot_parse_t *parse);

/* Checks what refers to other parts; these have all been read. */
bool gp_snapshot_check_events(gp_snapshot_parse_t *parse);
void gp_snapshot_rows_fini(gp_snapshot_t *snapshot);

#endif
