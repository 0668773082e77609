/* Stream handles as small indexes, in order of first appearance. A handle is not an identity (the driver
 * reuses the values), so neither is an index. */
#ifndef GP_TRACE_RECORD_HANDLES_H
#define GP_TRACE_RECORD_HANDLES_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/lock.h"
#include "trace/region/region.h"

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

#endif
