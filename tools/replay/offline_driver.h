/*
 * A simulated driver for the pool's engine (pool/driver.h). Its devices have a capacity and a clock. It
 * counts calls and what they would cost, and never touches memory. One thread.
 *
 * Invariants: held_bytes is the sum of the pages that allocations, physical memory and memory outside the
 * pool take; it never exceeds capacity.
 */
#ifndef GP_TOOLS_REPLAY_OFFLINE_DRIVER_H
#define GP_TOOLS_REPLAY_OFFLINE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver.h"
#include "tools/read/block_map.h"

/*
 * Addresses of a simulated device. Like a real one, it reuses the addresses of freed memory. This affects
 * results if segments are divided, since the pool then serves requests from the lowest address that fits.
 *
 * Invariants: free ranges are not empty, do not overlap or touch, and end below `next`; `sizes` has them
 * sorted by size, then by address, and each is in both maps.
 */

typedef struct gp_address_range {
  uint64_t size; /* bytes */
  uint64_t begin;
} gp_address_range_t;

typedef struct gp_addresses {
  gp_address_range_t *sizes;
  size_t count;
  gp_block_map_t by_begin; /* free ranges by their begin; `size` is the range's */
  gp_block_map_t by_end;   /* free ranges by their end; `size` is the range's */
  uint64_t next;           /* all addresses from here on are free */
} gp_addresses_t;

/* Takes `bytes` from the begin of the smallest free range that is large enough, the lowest of equal ones, or
 * at `next`. Returns their address. */
uint64_t gp_addresses_take(gp_addresses_t *addresses, uint64_t bytes);

/* Frees a range of addresses. If host memory runs out, the range is not reused. */
void gp_addresses_give(gp_addresses_t *addresses, uint64_t begin, uint64_t bytes);

void gp_addresses_fini(gp_addresses_t *addresses);

#define GP_OFFLINE_CODE_OUT_OF_MEMORY 2
#define GP_OFFLINE_CODE_INVALID_VALUE 1
#define GP_OFFLINE_CODE_NOT_READY     600

/* The driver functions that allocate, map or free memory. */
typedef enum gp_offline_call {
  GP_OFFLINE_ALLOC,
  GP_OFFLINE_FREE,
  GP_OFFLINE_CREATE,
  GP_OFFLINE_MAP,
  GP_OFFLINE_ALLOW,
  GP_OFFLINE_UNMAP,
  GP_OFFLINE_RELEASE,
  GP_OFFLINE_RESERVE,
  GP_OFFLINE_UNRESERVE,
  GP_OFFLINE_CALLS
} gp_offline_call_t;

typedef struct gp_offline_device {
  uint64_t capacity;
  uint64_t held_bytes;
  uint64_t peak_bytes;
  uint64_t shared_free; /* free bytes in the open page for small allocations */
  uint64_t shared_page; /* address of that page; 0: none */
} gp_offline_device_t;

/* A fence: complete when the device has done the work submitted before it. */
typedef struct gp_offline_fence {
  uint64_t request; /* number of the next request when the fence was recorded */
  uint64_t work;    /* the driver's `work`, `waits` and `paused_ns` then */
  uint64_t waits;
  uint64_t paused_ns;
} gp_offline_fence_t;

typedef struct gp_offline_driver {
  gp_driver_ops_t ops;
  gp_offline_device_t *devices; /* by ordinal; borrowed */
  gp_block_map_t memory;        /* allocations by address, physical memory by handle */
  gp_block_map_t mapped;        /* by address: the handle of the memory mapped there */
  gp_block_map_t shared;        /* pages of small allocations; `rounded` is the number of pieces in a page */
  gp_addresses_t addresses;
  uint64_t next_handle; /* of physical memory: beyond all addresses */
  uint64_t now_ns;
  uint64_t paused_ns; /* part of now_ns: time during which the pool waited for the device */
  uint64_t request;   /* number of the current request; `lag` counts back from it */
  uint64_t lag;       /* number of requests by which the device is behind; UINT64_MAX: unknown */
  uint64_t work;      /* number of steps so far that leave work on the device (see simulation.c) */
  uint64_t waits;     /* calls that waited for the device */
  uint64_t complete;  /* the work of the first `complete` such steps is complete */
  uint64_t calls[GP_OFFLINE_CALLS];
  double cost_ns;      /* of all calls so far on an idle device, and ... */
  double busy_cost_ns; /* ... while a kernel runs (offline_driver.c) */
  gp_offline_fence_t **fences;
  size_t fence_count;
} gp_offline_driver_t;

/* Returns the name of the driver's function (static). */
const char *gp_offline_call_name(gp_offline_call_t call);

/* Makes a driver. devices must be zeroed except for their capacities. Call fini when no engine uses the
 * driver. */
void gp_offline_driver_init(gp_offline_driver_t *driver, gp_offline_device_t *devices);
void gp_offline_driver_fini(gp_offline_driver_t *driver);

/* Returns the argument for gp_engine_create, which borrows driver. */
gp_driver_t gp_offline_driver_ops(gp_offline_driver_t *driver);

/* Take and free device memory outside the pool. Taking returns false if there is not enough. */
bool gp_offline_take(gp_offline_driver_t *driver, int device, uint64_t bytes);
void gp_offline_give(gp_offline_driver_t *driver, int device, uint64_t bytes);

#endif
