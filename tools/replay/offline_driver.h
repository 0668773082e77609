/*
 * A simulated driver for the pool's engine (pool/driver.h). Its devices have a capacity and a clock. The
 * driver counts calls and their estimated cost, and never touches memory. Not thread-safe.
 *
 * Invariants: held_bytes is the sum of the pages of allocations, physical memory and forwarded memory. It
 * never exceeds the capacity.
 */
#ifndef GP_TOOLS_REPLAY_OFFLINE_DRIVER_H
#define GP_TOOLS_REPLAY_OFFLINE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver.h"
#include "tools/read/block_map.h"

/*
 * The addresses of a simulated device. Freed addresses are used again, as on a real device. This affects
 * results if segments are divided, since the pool then serves requests from the lowest address that fits.
 *
 * Invariants: free ranges are not empty, do not overlap or touch, and end below `next`. `sizes` contains the
 * free ranges, sorted by size and then by address. Each free range is in both maps.
 */

typedef struct gp_address_range {
  uint64_t size; /* in bytes */
  uint64_t begin;
} gp_address_range_t;

typedef struct gp_addresses {
  gp_address_range_t *sizes;
  size_t count;
  gp_block_map_t by_begin; /* free ranges by first address; `size` is the size of the range */
  gp_block_map_t by_end;   /* free ranges by end; `size` is the size of the range */
  uint64_t next;           /* all addresses from `next` on are free */
} gp_addresses_t;

/* Reserves `bytes` of addresses at the beginning of the smallest free range that is large enough, or at
 * `next`. Of equally large ranges, uses the one with the lowest address. Returns the first address. */
uint64_t gp_addresses_take(gp_addresses_t *addresses, uint64_t bytes);

/* Frees a range of addresses. If host memory runs out, the range is never used again. */
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
  uint64_t shared_page; /* address of the open page; 0: none */
} gp_offline_device_t;

/* A fence. It is complete when the device has completed the work submitted before it. */
typedef struct gp_offline_fence {
  uint64_t request; /* number of the next request when the fence was recorded */
  uint64_t work;    /* `work`, `waits` and `paused_ns` of the driver when the fence was recorded */
  uint64_t waits;
  uint64_t paused_ns;
} gp_offline_fence_t;

typedef struct gp_offline_driver {
  gp_driver_ops_t ops;
  gp_offline_device_t *devices; /* indexed by ordinal; borrowed */
  gp_block_map_t memory;        /* allocations by address, and physical memory by handle */
  gp_block_map_t mapped;        /* by address: handle of the memory that is mapped there */
  gp_block_map_t shared; /* pages for small allocations; `rounded` is the number of pieces in the page */
  gp_addresses_t addresses;
  uint64_t next_handle; /* next handle of physical memory, beyond all addresses */
  uint64_t now_ns;
  uint64_t paused_ns; /* part of now_ns in which the pool waited for the device */
  uint64_t request;   /* number of the current request, from which `lag` counts back */
  uint64_t lag;       /* number of requests that the device is behind; UINT64_MAX: unknown */
  uint64_t work;      /* number of steps so far that submitted work to the device (see simulation.c) */
  uint64_t waits;     /* number of calls that waited for the device */
  uint64_t complete;  /* the work of the first `complete` steps counted in `work` is complete */
  uint64_t calls[GP_OFFLINE_CALLS];
  double cost_ns;      /* cost of all calls so far on an idle device, and ... */
  double busy_cost_ns; /* ... while a kernel runs (offline_driver.c) */
  gp_offline_fence_t **fences;
  size_t fence_count;
} gp_offline_driver_t;

/* Returns the name of the driver function (static). */
const char *gp_offline_call_name(gp_offline_call_t call);

/* Initializes a driver. `devices` must be zeroed except for their capacities. Call gp_offline_driver_fini
 * when no engine uses the driver any more. */
void gp_offline_driver_init(gp_offline_driver_t *driver, gp_offline_device_t *devices);
void gp_offline_driver_fini(gp_offline_driver_t *driver);

/* Returns the argument for gp_engine_create. The engine borrows the driver. */
gp_driver_t gp_offline_driver_ops(gp_offline_driver_t *driver);

/* gp_offline_take allocates device memory outside the pool, or returns false; gp_offline_give frees it. */
bool gp_offline_take(gp_offline_driver_t *driver, int device, uint64_t bytes);
void gp_offline_give(gp_offline_driver_t *driver, int device, uint64_t bytes);

#endif
