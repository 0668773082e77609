#include "trace/record/marks.h"

#include <stdbool.h>

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

  /* In a full table skips the oldest mark, which may have been half overwritten when
   * the process was killed. */
  for (uint64_t i = count >= GP_MARKS_MAX ? count - GP_MARKS_MAX + 1 : 0; i < count; i++) {
    if (i % GP_MARKS_MAX < room)
      ret_marks[kept++] = table->entries[i % GP_MARKS_MAX];
  }
  return kept;
}

/* The caller holds the lock. */
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
