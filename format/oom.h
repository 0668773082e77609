/* The stored data of an out of memory. */
#ifndef GP_FORMAT_OOM_H
#define GP_FORMAT_OOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GP_OOM_OWNERS 3

/* Live blocks of one requested size, taken together. */
typedef struct gp_oom_owner {
  uint64_t size;  /* bytes asked for, each */
  uint64_t count; /* blocks */
} gp_oom_owner_t;

/* What refused. */
enum { GP_OOM_BY_DRIVER, GP_OOM_BY_LIMIT, GP_OOM_BY_HOST_LIMIT };

/* Why an allocation failed. All sizes in bytes, for the device in question, when the allocation gave up. */
typedef struct gp_oom {
  uint64_t time_ns;
  uint64_t requested;
  uint64_t live;         /* rounded bytes of blocks that the program holds */
  uint64_t deferred;     /* freed, still in use by the device */
  uint64_t cached;       /* idle */
  uint64_t in_pieces;    /* the part of cached in partly used segments, so that it cannot go back */
  uint64_t passthrough;  /* not pooled */
  uint64_t limit;        /* 0: none */
  uint64_t counted;      /* what the limit counts for it, and beyond the sizes above; 0: rounded size */
  uint64_t largest_free; /* largest idle block before the pool gave everything back */
  /* If the device had finished everything: how much of cached and deferred still could not go back, and the
   * largest block that could be cut for a request. */
  uint64_t quiet_in_pieces;
  uint64_t quiet_largest;
  uint64_t device_free; /* the driver's figure; 0 with device_total 0 if the pool could not ask */
  uint64_t device_total;
  uint64_t unaccounted;  /* in use by something other than memory that this process asked for; 0: unknown */
  uint64_t waited_ns;    /* how long the allocation waited for the device */
  uint64_t busy_ns;      /* age of the fence for the work that has not ended */
  uint64_t busy_context; /* the driver's id of that work's context; 0: no work was in the way */
  gp_oom_owner_t owners[GP_OOM_OWNERS]; /* largest total first; count 0: no more */
  int32_t device;
  /* GP_OOM_BY_... GPUPOOL_HOST_LIMIT is about page-locked memory of the host: of it are requested, live and
   * counted (in whole pages), limit and owners, and the rest is 0. */
  uint32_t by_limit;
} gp_oom_t;

static inline bool gp_oom_is_of_host(const gp_oom_t *oom)
{
  return oom->by_limit == GP_OOM_BY_HOST_LIMIT;
}

/*
 * The rules of advice that the library gives when memory runs out, and the tool when it reads the report.
 */

/* Blocks in use of one kind, from which on more of them are to be expected; fewer may be buffers of the whole
 * run. */
#define GP_OOM_MANY_BLOCKS 8

/* True if the device, or a limit, of that capacity (0: unknown) could not serve the request even if nothing
 * else were in use. */
static inline bool gp_oom_is_too_large(uint64_t requested, uint64_t capacity)
{
  return capacity && requested > capacity;
}

/* The bytes that the driver lacked for the request after all idle memory had gone back; 0: none, or unknown.
 */
static inline uint64_t gp_oom_missing_on_device(const gp_oom_t *oom)
{
  uint64_t idle = oom->cached > oom->in_pieces ? oom->cached - oom->in_pieces : 0;
  uint64_t there = oom->device_free + idle;
  return oom->device_total && oom->requested > there ? oom->requested - there : 0;
}

/* True if what others and CUDA itself use would have covered the missing bytes. Every context takes some
 * hundred MiB: only more than that deserves a mention. */
static inline bool gp_oom_is_of_others(const gp_oom_t *oom, uint64_t missing)
{
  return !oom->by_limit && oom->unaccounted >= missing && oom->unaccounted > oom->device_total / 8;
}

/* The section GP_SECTION_OOM. */
typedef struct gp_oom_record {
  _Atomic uint64_t is_complete; /* 1: report is whole; 0: it is being written */
  gp_oom_t report;
} gp_oom_record_t;

#endif
