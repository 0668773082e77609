/*
 * Stream handles by small indexes, in order of first appearance. A handle is not an identity (the driver uses
 * the values again), so an index says no more than the handle did.
 */
#ifndef GP_TRACE_RECORD_HANDLES_H
#define GP_TRACE_RECORD_HANDLES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "trace/region/region.h"

#define GP_STREAMS_SLOTS (4 * GP_HANDLES_MAX) /* a power of two */

/* Zeroed memory plus gp_streams_init. */
typedef struct gp_streams {
  pthread_mutex_t mutex;
  gp_region_t *region;
  gp_handle_table_t *table;
  _Atomic uint16_t slots[GP_STREAMS_SLOTS]; /* index + 1, open addressing; 0: empty */
} gp_streams_t;

/* The region is borrowed. Returns 0 or an errno. */
int gp_streams_init(gp_streams_t *streams, gp_region_t *region);
void gp_streams_fini(gp_streams_t *streams);

/* Handles that may be read. */
static inline uint32_t gp_streams_count(const gp_streams_t *streams)
{
  bool is_there = gp_region_used(streams->region, GP_SECTION_STREAMS) > 0;
  return is_there ? atomic_load_explicit(&streams->table->count, memory_order_acquire) : 0;
}

/* The index of a handle; -1 if it is new and the table is full (or the
 * memory is). Locks only for a new handle. Safe from any
 * thread. */
int16_t gp_streams_intern(gp_streams_t *streams, uint64_t handle);

#endif
