#include "trace/record/tables.h"

#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

void gp_marks_init(gp_marks_t *marks, gp_region_t *region)
{
  marks->region = region;
  marks->table = gp_region_section(region, GP_SECTION_MARKS, NULL);
  gp_lock_init(&marks->lock, GP_RANK_MARKS);
}

void gp_marks_fini(gp_marks_t *marks)
{
  gp_assert_internal(gp_lock_is_free(&marks->lock));
}

static bool is_there(const gp_marks_t *marks)
{
  return gp_region_used(marks->region, GP_SECTION_MARKS) > 0;
}

void gp_marks_add(
    gp_marks_t *marks, const gp_mark_record_t *mark, uint64_t (*clock)(void *self), void *clock_self)
{
  gp_lock_take(&marks->lock);
  uint64_t count = is_there(marks) ? atomic_load_explicit(&marks->table->count, memory_order_relaxed) : 0;
  size_t entries = count < GP_MARKS_MAX ? (size_t)count + 1 : GP_MARKS_MAX;
  if (gp_region_grow(
          marks->region, GP_SECTION_MARKS, offsetof(gp_mark_table_t, entries) + entries * sizeof(*mark))) {
    gp_assert_internal(gp_lock_is_held(&marks->lock));
    gp_mark_record_t *entry = &marks->table->entries[count % GP_MARKS_MAX];
    *entry = *mark;
    entry->time_ns = clock(clock_self);
    atomic_store_explicit(&marks->table->count, count + 1, memory_order_release);
  }
  gp_lock_release(&marks->lock);
}

size_t gp_marks_order(const gp_mark_table_t *table, size_t room, gp_mark_record_t *ret_marks)
{
  uint64_t count = atomic_load_explicit(&table->count, memory_order_relaxed);
  size_t kept = 0;

  /* Skips the oldest mark of a full table, because the process may have been killed while it was overwriting
   * that mark. */
  for (uint64_t i = count >= GP_MARKS_MAX ? count - GP_MARKS_MAX + 1 : 0; i < count; i++) {
    if (i % GP_MARKS_MAX < room)
      ret_marks[kept++] = table->entries[i % GP_MARKS_MAX];
  }
  return kept;
}

/* Does what gp_marks_copy does. The caller holds the lock. */
static size_t copy_locked(const gp_marks_t *marks, gp_mark_record_t *ret_marks)
{
  gp_assert_internal(gp_lock_is_held(&marks->lock));
  return gp_marks_order(marks->table, GP_MARKS_MAX, ret_marks);
}

size_t gp_marks_copy(gp_marks_t *marks, gp_mark_record_t *ret_marks)
{
  if (!is_there(marks))
    return 0;
  gp_lock_take(&marks->lock);
  size_t count = copy_locked(marks, ret_marks);
  gp_lock_release(&marks->lock);
  return count;
}

void gp_handles_init(gp_handles_t *handles, gp_region_t *region)
{
  handles->region = region;
  handles->table = gp_region_section(region, GP_SECTION_STREAMS, NULL);
  gp_lock_init(&handles->lock, GP_RANK_HANDLES);
}

void gp_handles_fini(gp_handles_t *handles)
{
  gp_assert_internal(gp_lock_is_free(&handles->lock));
}

/* Returns true and the handle's slot and index if the table has the handle. Otherwise returns false and an
 * empty slot for the handle. The search always ends, because at most a quarter of the slots are in use. */
static bool find_slot(gp_handles_t *handles, uint64_t handle, uint32_t *ret_slot, int16_t *ret_index)
{
  uint32_t slot = (uint32_t)((handle * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
  for (;; slot++) {
    slot &= GP_HANDLES_SLOTS - 1;
    uint16_t taken = atomic_load_explicit(&handles->slots[slot], memory_order_acquire);
    if (!taken) {
      *ret_slot = slot;
      return false;
    }
    if (handles->table->handles[taken - 1] == handle) {
      *ret_index = (int16_t)(taken - 1);
      return true;
    }
  }
}

int16_t gp_handles_intern(gp_handles_t *handles, uint64_t handle)
{
  uint32_t slot;
  int16_t index = -1;
  if (find_slot(handles, handle, &slot, &index))
    return index;

  gp_lock_take(&handles->lock);
  gp_handle_table_t *table = handles->table;
  uint32_t count = gp_handles_count(handles);
  /* Searches again, because another thread may have added the handle since the first search. */
  if (!find_slot(handles, handle, &slot, &index) && count < GP_HANDLES_MAX &&
      gp_region_grow(handles->region, GP_SECTION_STREAMS,
          offsetof(gp_handle_table_t, handles) + (count + 1) * sizeof(handle))) {
    gp_assert_internal(gp_lock_is_held(&handles->lock));
    gp_assert(atomic_load(&handles->slots[slot]) == 0 && count < GP_HANDLES_SLOTS / 4);
    table->handles[count] = handle;
    atomic_store_explicit(&table->count, count + 1, memory_order_release);
    /* The slot is stored last, because a thread that finds the slot reads the handle without a lock. */
    atomic_store_explicit(&handles->slots[slot], (uint16_t)(count + 1), memory_order_release);
    index = (int16_t)count;
  }
  gp_lock_release(&handles->lock);
  return index;
}

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
    return 0; /* no memory for any entry: the thread's events refer to a missing entry */
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
  /* The count is stored after the entry, because readers take no lock. */
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
