/* The stored report of an out-of-memory error. */
#ifndef GP_FORMAT_OOM_H
#define GP_FORMAT_OOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GP_OOM_OWNERS 3

/* All live blocks of one requested size. */
typedef struct gp_oom_owner {
  uint64_t size;  /* requested bytes of each block */
  uint64_t count; /* number of blocks of that size */
} gp_oom_owner_t;

/* The component that refused the allocation. */
enum { GP_OOM_BY_DRIVER, GP_OOM_BY_LIMIT, GP_OOM_BY_HOST_LIMIT };

/* Why an allocation failed. All sizes are in bytes, for the device of the allocation, at the moment when the
 * allocation failed. */
typedef struct gp_oom {
  uint64_t time_ns;
  uint64_t requested;
  uint64_t live;        /* rounded bytes of blocks in use by the program */
  uint64_t deferred;    /* freed, but work on the device may still use the memory */
  uint64_t cached;      /* idle, ready for reuse */
  uint64_t in_pieces;   /* part of `cached` that is in partly used segments and cannot be released */
  uint64_t passthrough; /* forwarded memory */
  uint64_t limit;       /* 0: no limit */
  uint64_t counted; /* bytes that the limit adds for the request and to the sizes above; 0: rounded size */
  uint64_t largest_free; /* largest idle block before the pool released its idle memory */
  /* The state that the pool would have if the device had completed all work: bytes of `cached` and `deferred`
   * that still could not be released, and the largest block that could be cut for a request. */
  uint64_t quiet_in_pieces;
  uint64_t quiet_largest;
  uint64_t device_free; /* free bytes that the driver reported; unknown if device_total is 0 */
  uint64_t device_total;
  uint64_t unaccounted;  /* bytes in use other than this process's allocations; 0: unknown */
  uint64_t waited_ns;    /* how long the allocation waited for the device */
  uint64_t busy_ns;      /* age of the fence that shows the pending work */
  uint64_t busy_context; /* id of the context with the pending work; 0: no pending work was in the way */
  gp_oom_owner_t
      owners[GP_OOM_OWNERS]; /* the groups with the largest totals, in order; count 0 ends the list */
  int32_t device;
  /* One of GP_OOM_BY_... For GP_OOM_BY_HOST_LIMIT (GPUPOOL_HOST_LIMIT, page-locked host memory), the members
   * `requested`, `live`, `counted` (in whole pages), `limit` and `owners` describe page-locked memory, and
   * the other members are 0. */
  uint32_t by_limit;
} gp_oom_t;

static inline bool gp_oom_is_of_host(const gp_oom_t *oom)
{
  return oom->by_limit == GP_OOM_BY_HOST_LIMIT;
}

/*
 * Rules for the advice after an out-of-memory error. The library uses them for its message, and the tool when
 * it reads the report.
 */

/* If this many blocks of one size are in use, the program will probably allocate more of them. Fewer blocks
 * may be buffers that it keeps for the whole run. */
#define GP_OOM_MANY_BLOCKS 8

/* Returns true if a device or limit of `capacity` bytes (0: unknown) could not serve the request even if
 * nothing else were in use. */
static inline bool gp_oom_is_too_large(uint64_t requested, uint64_t capacity)
{
  return capacity && requested > capacity;
}

/* Returns the number of bytes that the driver lacked for the request after the pool had released all idle
 * memory. Returns 0 if none were missing or if the number is unknown. */
static inline uint64_t gp_oom_missing_on_device(const gp_oom_t *oom)
{
  uint64_t idle = oom->cached > oom->in_pieces ? oom->cached - oom->in_pieces : 0;
  uint64_t there = oom->device_free + idle;
  return oom->device_total && oom->requested > there ? oom->requested - there : 0;
}

/* Returns true if the memory used by other processes and by CUDA itself would have covered the `missing`
 * bytes. Every context uses some hundred MiB, so the result is false unless more than an eighth of the device
 * is in use this way. */
static inline bool gp_oom_is_of_others(const gp_oom_t *oom, uint64_t missing)
{
  return !oom->by_limit && oom->unaccounted >= missing && oom->unaccounted > oom->device_total / 8;
}

/* The content of the section GP_SECTION_OOM. */
typedef struct gp_oom_record {
  _Atomic uint64_t is_complete; /* 1: `report` is complete; 0: it is being written */
  gp_oom_t report;
} gp_oom_record_t;

#endif
