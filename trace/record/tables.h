/* The small tables of a record: threads, stream handles, and the program's marks. */
#ifndef GP_TRACE_RECORD_TABLES_H
#define GP_TRACE_RECORD_TABLES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "trace/region/region.h"
#include "format/marks.h"

/* The threads that recorded an event, in the order of their first events. An entry outlives its thread,
 * because the thread's events refer to it. */

#define GP_THREADS_OTHER_NAME "(others)"

typedef struct gp_threads {
  gp_lock_t lock;
  gp_region_t *region;
  gp_thread_table_t *table;
} gp_threads_t;

/* Initializes the table. The region is borrowed. */
void gp_threads_init(gp_threads_t *threads, gp_region_t *region);
void gp_threads_fini(gp_threads_t *threads);

/* Returns the number of entries that a reader may read. */
static inline uint32_t gp_threads_count(const gp_threads_t *threads)
{
  bool is_there = gp_region_used(threads->region, GP_SECTION_THREADS) > 0;
  return is_there ? atomic_load_explicit(&threads->table->count, memory_order_acquire) : 0;
}

/* Adds an entry for the calling thread and returns its index. If the table is full or there is no memory, all
 * further threads share the last entry. Thread-safe. */
uint16_t gp_threads_add_caller(gp_threads_t *threads);

/* Returns an entry that describes the calling thread, without adding it to the table. gp_threads_add can add
 * it later. */
gp_thread_entry_t gp_threads_describe_caller(void);
uint16_t gp_threads_add(gp_threads_t *threads, const gp_thread_entry_t *entry);

/* The table of stream handles. It maps each handle to a small index, in order of first appearance. Neither a
 * handle nor its index identifies a stream, because the driver reuses handles. */

#define GP_HANDLES_SLOTS (4 * GP_HANDLES_MAX) /* a power of two */

/* Zeroed memory, then gp_handles_init. */
typedef struct gp_handles {
  gp_lock_t lock;
  gp_region_t *region;
  gp_handle_table_t *table;
  _Atomic uint16_t slots[GP_HANDLES_SLOTS]; /* index + 1 of a handle, by open addressing; 0: empty */
} gp_handles_t;

/* Initializes the table. The region is borrowed. */
void gp_handles_init(gp_handles_t *handles, gp_region_t *region);
void gp_handles_fini(gp_handles_t *handles);

/* Returns the number of handles that a reader may read. */
static inline uint32_t gp_handles_count(const gp_handles_t *handles)
{
  bool is_there = gp_region_used(handles->region, GP_SECTION_STREAMS) > 0;
  return is_there ? atomic_load_explicit(&handles->table->count, memory_order_acquire) : 0;
}

/* Returns the index of a handle, and adds the handle if it is new. Returns -1 if the table is full or there
 * is no memory. Takes the lock only for a new handle. Thread-safe. */
int16_t gp_handles_intern(gp_handles_t *handles, uint64_t handle);

/* The program's marks: its own names for moments (gpupool.h). They are rare, so one lock is sufficient. */

typedef struct gp_marks {
  gp_lock_t lock;
  gp_region_t *region;
  gp_mark_table_t *table;
} gp_marks_t;

/* Initializes the table. The region is borrowed. */
void gp_marks_init(gp_marks_t *marks, gp_region_t *region);
void gp_marks_fini(gp_marks_t *marks);

/* Adds a copy of the mark with clock(clock_self) as its time. The clock is read under the lock, so that times
 * increase. Adds nothing if there is no memory. Thread-safe. */
void gp_marks_add(
    gp_marks_t *marks, const gp_mark_record_t *mark, uint64_t (*clock)(void *self), void *clock_self);

/* Copies the kept marks, oldest first, to ret_marks[0..GP_MARKS_MAX) and returns their number.
 * Thread-safe. */
size_t gp_marks_copy(gp_marks_t *marks, gp_mark_record_t *ret_marks);

/* Does what gp_marks_copy does, for a table of which only the first `room` entries exist. Takes no lock. */
size_t gp_marks_order(const gp_mark_table_t *table, size_t room, gp_mark_record_t *ret_marks);

#endif
