/* The small tables of a record: threads, stream handles, and the program's marks. */
#ifndef GP_TRACE_RECORD_TABLES_H
#define GP_TRACE_RECORD_TABLES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "trace/region/region.h"
#include "format/marks.h"

/* The threads that recorded something, in the order of their first events. Entries stay after the thread's
 * end: its events refer to them. */

#define GP_THREADS_OTHER_NAME "(others)"

typedef struct gp_threads {
  gp_lock_t lock;
  gp_region_t *region;
  gp_thread_table_t *table;
} gp_threads_t;

/* The region is borrowed. */
void gp_threads_init(gp_threads_t *threads, gp_region_t *region);
void gp_threads_fini(gp_threads_t *threads);

/* Number of entries that readers may read. */
static inline uint32_t gp_threads_count(const gp_threads_t *threads)
{
  bool is_there = gp_region_used(threads->region, GP_SECTION_THREADS) > 0;
  return is_there ? atomic_load_explicit(&threads->table->count, memory_order_acquire) : 0;
}

/* Makes an entry for the calling thread and returns its index. The last entry stands for all threads that
 * come when the table is full or there is no memory. Safe from any thread. */
uint16_t gp_threads_add_caller(gp_threads_t *threads);

/* Describes the calling thread; gp_threads_add makes an entry from that later. */
gp_thread_entry_t gp_threads_describe_caller(void);
uint16_t gp_threads_add(gp_threads_t *threads, const gp_thread_entry_t *entry);

/* Stream handles as small indexes, in order of first appearance. A handle is not an identity (the driver
 * reuses the values), so neither is an index. */

#define GP_HANDLES_SLOTS (4 * GP_HANDLES_MAX) /* a power of two */

/* Zeroed memory plus gp_handles_init. */
typedef struct gp_handles {
  gp_lock_t lock;
  gp_region_t *region;
  gp_handle_table_t *table;
  _Atomic uint16_t slots[GP_HANDLES_SLOTS]; /* index + 1, open addressing; 0: empty */
} gp_handles_t;

/* The region is borrowed. */
void gp_handles_init(gp_handles_t *handles, gp_region_t *region);
void gp_handles_fini(gp_handles_t *handles);

/* Number of handles that readers may read. */
static inline uint32_t gp_handles_count(const gp_handles_t *handles)
{
  bool is_there = gp_region_used(handles->region, GP_SECTION_STREAMS) > 0;
  return is_there ? atomic_load_explicit(&handles->table->count, memory_order_acquire) : 0;
}

/* The index of a handle; -1 if it is new and the table is full (or the
 * memory is). Locks only for a new handle. Safe from any
 * thread. */
int16_t gp_handles_intern(gp_handles_t *handles, uint64_t handle);

/* Marks: the program's own names for moments (gpupool.h). They are rare, so one lock is enough. */

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
