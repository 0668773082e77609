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
  uint64_t count; /* number of blocks */
} gp_oom_owner_t;

/* What refused the allocation. */
enum { GP_OOM_BY_DRIVER, GP_OOM_BY_LIMIT, GP_OOM_BY_HOST_LIMIT };

/* Why an allocation failed. All sizes are in bytes, for the device in question, at the moment when the
 * allocation gave up. */
typedef struct gp_oom {
  uint64_t time_ns;
  uint64_t requested;
  uint64_t live;         /* rounded bytes of blocks in use by the program */
  uint64_t deferred;     /* freed, but work of the device may still use them */
  uint64_t cached;       /* idle */
  uint64_t in_pieces;    /* part of cached that lies in partly used segments and cannot be released */
  uint64_t passthrough;  /* forwarded */
  uint64_t limit;        /* 0: no limit */
  uint64_t counted;      /* what the limit counts for it and beyond the sizes above; 0: rounded size */
  uint64_t largest_free; /* largest idle block before the pool released everything */
  /* The state if the device had completed all work: the part of cached and deferred that still could not
   * be released, and the largest block that could be cut for a request. */
  uint64_t quiet_in_pieces;
  uint64_t quiet_largest;
  uint64_t
      device_free; /* free bytes reported by the driver; 0 with device_total 0: it could not be queried */
  uint64_t device_total;
  uint64_t unaccounted;  /* bytes in use other than memory that this process requested; 0: unknown */
  uint64_t waited_ns;    /* how long the allocation waited for the device */
  uint64_t busy_ns;      /* age of the fence for the work that is not complete */
  uint64_t busy_context; /* driver id of the context of that work; 0: no pending work was in the way */
  gp_oom_owner_t owners[GP_OOM_OWNERS]; /* largest total first; the list ends at count 0 */
  int32_t device;
  /* One of GP_OOM_BY_... With GP_OOM_BY_HOST_LIMIT (GPUPOOL_HOST_LIMIT, page-locked host memory),
   * requested, live and counted (in whole pages), limit and owners describe page-locked memory, and the
   * other members are 0. */
  uint32_t by_limit;
} gp_oom_t;

static inline bool gp_oom_is_of_host(const gp_oom_t *oom)
{
  return oom->by_limit == GP_OOM_BY_HOST_LIMIT;
}

/*
 * The rules for the advice that the library gives when memory runs out, and the tool when it reads the
 * report.
 */

/* If this many blocks of one kind are in use, more of them are to be expected. Fewer may be buffers for
 * the whole run. */
#define GP_OOM_MANY_BLOCKS 8

/* Returns true if the device, or a limit, of that capacity (0: unknown) could not serve the request even
 * if nothing else were in use. */
static inline bool gp_oom_is_too_large(uint64_t requested, uint64_t capacity)
{
  return capacity && requested > capacity;
}

/* Returns the bytes that the driver lacked for the request after all idle memory had been released; 0:
 * none, or unknown. */
static inline uint64_t gp_oom_missing_on_device(const gp_oom_t *oom)
{
  uint64_t idle = oom->cached > oom->in_pieces ? oom->cached - oom->in_pieces : 0;
  uint64_t there = oom->device_free + idle;
  return oom->device_total && oom->requested > there ? oom->requested - there : 0;
}

/* Returns true if the memory that others and CUDA itself use would have covered the missing bytes. Every
 * context uses some hundred MiB, so only more than that is worth mentioning. */
static inline bool gp_oom_is_of_others(const gp_oom_t *oom, uint64_t missing)
{
  return !oom->by_limit && oom->unaccounted >= missing && oom->unaccounted > oom->device_total / 8;
}

/* The content of the section GP_SECTION_OOM. */
typedef struct gp_oom_record {
  _Atomic uint64_t is_complete; /* 1: report is complete; 0: it is being written */
  gp_oom_t report;
} gp_oom_record_t;

#endif
