/*
 * Estimates how many bytes of a device the driver's own memory pools have reserved. These pools reserve whole
 * pages and keep memory that is freed to them. They cannot reuse memory freed in stream order before that
 * stream has reached the free. A driver pool that finds no memory may wait for the device. The library has to
 * predict this before it forwards a request to the pool.
 *
 * Sizes are in bytes. The caller holds the device's lock.
 */
#ifndef GP_POOL_ASYNC_POOLS_USE_H
#define GP_POOL_ASYNC_POOLS_USE_H

#include "pool/space/size_classes.h"

/* Invariant: `taken` counts the allocations in async_live (device_record.h) in whole pages, so it is never
 * less than async_live. Device work may still use the `pending` bytes until every context has completed
 * pending_epoch (reuse/stamps.h). */
typedef struct gp_pools_use {
  uint64_t taken;
  uint64_t idle;    /* idle bytes of the pools at the driver's last report; GP_POOLS_UNTOLD: unknown */
  uint64_t room;    /* bytes then free on the device or idle in the pools, plus all bytes then counted */
  uint64_t pending; /* bytes freed to the driver in stream order and perhaps still used by the device */
  uint64_t pending_epoch;
} gp_pools_use_t;

/* The smallest size in whose multiples the driver's pools grow, as measured on an H100 and an H200. Other
 * devices may use a larger one. */
#define GP_POOLS_PIECE_LEAST (32 * GP_MIB)

#define GP_POOLS_UNTOLD (UINT64_MAX / 4) /* "the driver has not reported it": enough for any request */

/* Returns the bytes that the driver's pools may reserve for an allocation. From half a driver page on, the
 * pools reserve whole driver pages; below that, whole granules. */
static inline uint64_t gp_pools_taken(uint64_t bytes)
{
  uint64_t taken = gp_round_up(bytes, bytes >= GP_DRIVER_PAGE / 2 ? GP_DRIVER_PAGE : GP_BLOCK_GRANULE);
  return taken >= bytes ? taken : bytes;
}

static inline void gp_pools_take(gp_pools_use_t *use, uint64_t bytes)
{
  use->taken += gp_pools_taken(bytes);
}

static inline void gp_pools_drop(gp_pools_use_t *use, uint64_t bytes)
{
  gp_assert_internal(use->taken >= gp_pools_taken(bytes));
  use->taken -= gp_pools_taken(bytes);
}

/* Records that the program has freed, or may have freed, `bytes` in stream order. `epoch` is the epoch of the
 * free, and `covered` the epoch that every context has completed. */
static inline void gp_pools_note_pending(
    gp_pools_use_t *use, uint64_t bytes, uint64_t epoch, uint64_t covered)
{
  if (use->pending_epoch <= covered)
    use->pending = 0;
  use->pending += gp_pools_taken(bytes);
  use->pending_epoch = epoch;
}

/* Stores the free and idle bytes that the driver has reported. `others` is the number of bytes counted
 * outside the pools at that time. */
static inline void gp_pools_note_query(
    gp_pools_use_t *use, uint64_t free_bytes, uint64_t idle_bytes, uint64_t others)
{
  use->idle = idle_bytes;
  use->room = free_bytes + idle_bytes + use->taken + others;
}

static inline uint64_t gp_pools_less_pending(const gp_pools_use_t *use, uint64_t bytes, uint64_t covered)
{
  uint64_t pending = use->pending_epoch <= covered ? 0 : use->pending;
  return bytes > pending ? bytes - pending : 0;
}

/* Returns the bytes that were idle in the pools at the driver's last report and that any stream can use. */
static inline uint64_t gp_pools_idle(const gp_pools_use_t *use, uint64_t covered)
{
  return gp_pools_less_pending(use, use->idle, covered);
}

/* Returns the bytes that are free or idle now. The result is exact only if no other process has allocated or
 * freed memory since the driver's last report. */
static inline uint64_t gp_pools_room(const gp_pools_use_t *use, uint64_t others)
{
  uint64_t taken = use->taken + others;
  return use->room > taken ? use->room - taken : 0;
}

#endif
