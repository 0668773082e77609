#include "trace/record/threads.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

void gp_threads_init(gp_threads_t *threads, gp_region_t *region)
{
  threads->region = region;
  threads->table = gp_region_section(region, GP_SECTION_THREADS, NULL);
  gp_lock_init(&threads->lock, GP_RANK_THREADS);
}

void gp_threads_fini(gp_threads_t *threads)
{
  gp_assert_internal(gp_lock_is_free(&threads->lock));
}

gp_thread_entry_t gp_threads_describe_caller(void)
{
  gp_thread_entry_t entry = {.tid = (int32_t)syscall(SYS_gettid)};
  if (prctl(PR_GET_NAME, entry.name, 0, 0, 0))
    entry.name[0] = '\0';
  entry.name[GP_THREAD_NAME_BYTES - 1] = '\0';
  return entry;
}

static uint16_t add_locked(gp_threads_t *threads, gp_thread_entry_t entry)
{
  gp_assert(gp_lock_is_held(&threads->lock));
  gp_thread_table_t *table = threads->table;
  size_t first_bytes = offsetof(gp_thread_table_t, entries);
  if (!gp_region_grow(threads->region, GP_SECTION_THREADS, first_bytes))
    return 0; /* not even one entry fits: events name a thread that is in no table */
  uint32_t index = gp_threads_count(threads);
  if (index >= GP_THREADS_MAX)
    return GP_THREADS_MAX - 1;
  if (!gp_region_grow(threads->region, GP_SECTION_THREADS, first_bytes + (index + 1) * sizeof(entry))) {
    index -= index > 0;
    entry.tid = 0;
  } else if (index == GP_THREADS_MAX - 1) {
    entry.tid = 0;
  }
  if (entry.tid == 0)
    strcpy(entry.name, GP_THREADS_OTHER_NAME);
  gp_assert(index < GP_THREADS_MAX && !entry.name[GP_THREAD_NAME_BYTES - 1]);
  table->entries[index] = entry;
  /* After the entry is written, because readers take no lock. */
  atomic_store_explicit(&table->count, index + 1, memory_order_release);
  return (uint16_t)index;
}

uint16_t gp_threads_add(gp_threads_t *threads, const gp_thread_entry_t *entry)
{
  gp_lock_take(&threads->lock);
  uint16_t index = add_locked(threads, *entry);
  gp_lock_release(&threads->lock);
  return index;
}

uint16_t gp_threads_add_caller(gp_threads_t *threads)
{
  const gp_thread_entry_t entry = gp_threads_describe_caller();
  return gp_threads_add(threads, &entry);
}
