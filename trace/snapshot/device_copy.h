/* The state of the engine's devices at one moment, copied for the snapshot writer. */
#ifndef GP_TRACE_SNAPSHOT_DEVICE_COPY_H
#define GP_TRACE_SNAPSHOT_DEVICE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/forwarded/forwarded.h"
#include "base/sort.h"

/* An array from the engine, grown until everything fits, with the order for display. */
typedef struct gp_copied_array {
  void *items;
  gp_sort_key_t *by_address;
  size_t count;
  void *pages;
  size_t bytes;
} gp_copied_array_t;

typedef struct gp_device_copy {
  uint64_t until_ns; /* set at the moment of the copy: exactly the events up to it led to these blocks */
  uint64_t limit;    /* bytes; 0: none */
  gp_stats_t stats;  /* of the same moment */
  gp_device_use_t use;
  bool has_use;        /* the pool has asked the driver for the device's figures */
  uint64_t idle_bytes; /* of the copied blocks */
  uint64_t largest_idle;
  gp_copied_array_t blocks;    /* of gp_block_view_t */
  gp_copied_array_t forwarded; /* of gp_forwarded_t */
} gp_device_copy_t;

/*
 * Fills *ret_copy for one device, except until_ns, which moment sets: it is called when the blocks are
 * copied, more than once if they did not fit at first, and the last call counts. Returns false if the host
 * has no memory. The caller calls gp_device_copy_fini in both cases. Takes the engine's locks.
 */
bool gp_device_copy_take(
    gp_engine_t *engine, int device, const gp_moment_t *moment, gp_device_copy_t *ret_copy);
void gp_device_copy_fini(gp_device_copy_t *copy);

static inline const gp_block_view_t *gp_device_copy_block(const gp_device_copy_t *copy, size_t i)
{
  return (const gp_block_view_t *)copy->blocks.items + copy->blocks.by_address[i].index;
}

static inline const gp_forwarded_t *gp_device_copy_forwarded(const gp_device_copy_t *copy, size_t i)
{
  return (const gp_forwarded_t *)copy->forwarded.items + copy->forwarded.by_address[i].index;
}

#endif
