/* Marks: the program's own names for moments (gpupool.h). They are rare, so one lock is enough. */
#ifndef GP_TRACE_RECORD_MARKS_H
#define GP_TRACE_RECORD_MARKS_H

#include <stddef.h>

#include "base/lock.h"
#include "format/marks.h"
#include "trace/region/region.h"

typedef struct gp_marks {
  gp_lock_t lock;
  gp_region_t *region;
  gp_mark_table_t *table;
} gp_marks_t;

/* The region is borrowed. */
void gp_marks_init(gp_marks_t *marks, gp_region_t *region);
void gp_marks_fini(gp_marks_t *marks);

/* Adds a copy of the mark, its time given by clock(clock_self) so that times grow. Adds nothing if there
 * is no memory. Any thread. */
void gp_marks_add(
    gp_marks_t *marks, const gp_mark_record_t *mark, uint64_t (*clock)(void *self), void *clock_self);

/* Copies the kept marks, oldest first, into ret_marks[0..GP_MARKS_MAX), and returns
 * their number. Any thread. */
size_t gp_marks_copy(gp_marks_t *marks, gp_mark_record_t *ret_marks);

/* The same from a table that has only the first `room` entries. */
size_t gp_marks_order(const gp_mark_table_t *table, size_t room, gp_mark_record_t *ret_marks);

#endif
