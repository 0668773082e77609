/* The threads that recorded something, in the order of their first events. Entries stay after the thread's
 * end: its events refer to them. */
#ifndef GP_TRACE_THREADS_H
#define GP_TRACE_THREADS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/lock.h"
#include "trace/region/region.h"

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

#endif
