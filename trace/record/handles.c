#include "trace/record/handles.h"

#include <stdbool.h>

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

/* Finds the slot of a handle, or the empty slot for it. The search ends, since at most a
 * quarter of the slots is taken. */
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
  /* Searches again: another thread may have added the handle since. */
  if (!find_slot(handles, handle, &slot, &index) && count < GP_HANDLES_MAX &&
      gp_region_grow(handles->region, GP_SECTION_STREAMS,
          offsetof(gp_handle_table_t, handles) + (count + 1) * sizeof(handle))) {
    gp_assert_internal(gp_lock_is_held(&handles->lock));
    gp_assert(atomic_load(&handles->slots[slot]) == 0 && count < GP_HANDLES_SLOTS / 4);
    table->handles[count] = handle;
    atomic_store_explicit(&table->count, count + 1, memory_order_release);
    /* Last: a thread that finds the slot reads the handle without a lock. */
    atomic_store_explicit(&handles->slots[slot], (uint16_t)(count + 1), memory_order_release);
    index = (int16_t)count;
  }
  gp_lock_release(&handles->lock);
  return index;
}
