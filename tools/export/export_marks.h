/*
 * The program's marks, including the begin and end of scopes, and the push and pop of threads' ranges.
 */
#ifndef GP_TOOLS_EXPORT_MARKS_H
#define GP_TOOLS_EXPORT_MARKS_H

#include "tools/export/export.h"
#include "format/marks.h"

typedef struct gp_export_mark {
  const char *name; /* belongs to the snapshot */
  uint64_t time_ns;
  uint64_t scope; /* 0: no scope */
  gp_mark_kind_t kind;
  int device; /* -1: no device */
  int thread;
} gp_export_mark_t;

typedef struct gp_export_marks {
  gp_export_mark_t marks[GP_MARKS_MAX];
  size_t count;
} gp_export_marks_t;

/* Reads at most GP_MARKS_MAX marks of the requested devices, in order of time. Keeps an end or pop only if
 * its begin or push precedes it, and gives it the name of that begin or push. Leaves out marks that violate
 * trace/FORMAT.md. */
void gp_export_marks_read(const gp_export_t *export, gp_export_marks_t *ret_marks);

#endif
