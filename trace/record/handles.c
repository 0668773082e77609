#include "trace/record/handles.h"

#include <stdbool.h>

int gp_streams_init(gp_streams_t *streams, gp_region_t *region)
{
  streams->region = region;
  streams->table = gp_region_section(region, GP_SECTION_STREAMS, NULL);
  return pthread_mutex_init(&streams->mutex, NULL);
}

void gp_streams_fini(gp_streams_t *streams)
{
  (void)pthread_mutex_destroy(&streams->mutex); /* nobody holds it */
}

/* Finds the slot of a handle, or the empty slot where it belongs. Ends: at most a quarter of the slots is
 * taken. */
static bool find_slot(gp_streams_t *streams, uint64_t handle, uint32_t *ret_slot, int16_t *ret_index)
{
  uint32_t slot = (uint32_t)((handle * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
  for (;; slot++) {
    slot &= GP_STREAMS_SLOTS - 1;
    uint16_t taken = atomic_load_explicit(&streams->slots[slot], memory_order_acquire);
    if (!taken) {
      *ret_slot = slot;
      return false;
    }
    if (streams->table->handles[taken - 1] == handle) {
      *ret_index = (int16_t)(taken - 1);
      return true;
    }
  }
}

int16_t gp_streams_intern(gp_streams_t *streams, uint64_t handle)
{
  uint32_t slot;
  int16_t index = -1;
  if (find_slot(streams, handle, &slot, &index))
    return index;

  (void)pthread_mutex_lock(&streams->mutex); /* a plain mutex cannot fail */
  gp_handle_table_t *table = streams->table;
  uint32_t count = gp_streams_count(streams);
  /* Again: another thread may have added it since. */
  if (!find_slot(streams, handle, &slot, &index) && count < GP_HANDLES_MAX &&
      gp_region_grow(streams->region, GP_SECTION_STREAMS,
          offsetof(gp_handle_table_t, handles) + (count + 1) * sizeof(handle))) {
    table->handles[count] = handle;
    atomic_store_explicit(&table->count, count + 1, memory_order_release);
    /* Last: who finds the slot reads the handle without a lock. */
    atomic_store_explicit(&streams->slots[slot], (uint16_t)(count + 1), memory_order_release);
    index = (int16_t)count;
  }
  (void)pthread_mutex_unlock(&streams->mutex); /* held */
  return index;
}
