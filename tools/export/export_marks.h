/*
 * What the program said of moments: marks, and the begins and ends of its scopes.
 */
#ifndef GP_TOOLS_EXPORT_MARKS_H
#define GP_TOOLS_EXPORT_MARKS_H

#include "tools/export/export.h"
#include "trace/format/marks.h"

typedef struct gp_export_mark {
  const char *name; /* of the snapshot */
  uint64_t time_ns;
  uint64_t scope; /* 0: of none */
  gp_mark_kind_t kind;
  int device; /* -1: of none */
  int thread;
} gp_export_mark_t;

typedef struct gp_export_marks {
  gp_export_mark_t marks[GP_MARKS_MAX];
  size_t count;
} gp_export_marks_t;

/*
 * Those of the devices that were asked for, in the order of time, GP_MARKS_MAX at most. An end is there only
 * with its begin before it. What is not as trace/FORMAT.md says is left out.
 */
void gp_export_marks_read(const gp_export_t *export, gp_export_marks_t *ret_marks);

#endif
