/*
 * What the program holds at the end of a snapshot, by who asked for it. With two snapshots: what it holds
 * in addition at the end of the second. Idle memory, and freed memory that the device still uses, is not a
 * leak.
 */
#ifndef GP_TOOLS_MODEL_LEAKS_H
#define GP_TOOLS_MODEL_LEAKS_H

#include "tools/model/holding.h"
#include "tools/model/lifetimes.h"
#include "tools/saturated.h"
#include "tools/model/suppressions.h"

/* Allocations of one stack, kind of memory and device; without a stack, of one size. */
typedef struct gp_leak {
  char *key; /* equal for the same stack in two snapshots: from names if known, else from places in files */
  const gp_snapshot_t *snapshot; /* the snapshot of the stack */
  const char *kind;              /* as in the snapshot; NULL: pooled */
  int device;
  int stack;          /* -1: none */
  uint64_t requested; /* bytes of each allocation, if there is no stack */
  uint64_t bytes;     /* in the last snapshot */
  uint64_t count;
  gp_holding_t holding;  /* in the last snapshot; without a stack no frees are counted */
  uint64_t bytes_before; /* in the earlier one; 0 if there is only one */
  uint64_t count_before;
  uint64_t first_ns;     /* when the oldest allocation was made */
  bool is_before_events; /* the oldest is from before the first event, at an unknown time */
  int32_t thread;        /* that made them all, an index into the snapshot's; GP_FILTER_UNKNOWN: not known */
  bool is_of_several;    /* threads; then `thread` is that of the first one */
} gp_leak_t;

typedef struct gp_leaks {
  gp_leak_t *leaks; /* leaks to report, largest growth first; those without a stack last */
  size_t count;
  uint64_t bytes; /* growth of device memory */
  uint64_t allocations;
  uint64_t host_bytes; /* growth of page-locked host memory */
  uint64_t host_allocations;
  uint64_t suppressed_bytes;
  uint64_t suppressed_allocations;
} gp_leaks_t;

/* lifetimes[0..count): one, or two in order of time. filters: one for each. suppressions: may be empty;
 * adds to each what it matched. Borrows all of them. Returns 0 or ENOMEM; call fini in any case. */
int gp_leaks_init(gp_leaks_t *leaks, const gp_lifetimes_t *lifetimes, const gp_filter_t *const *filters,
    int count, gp_suppressions_t *suppressions);
void gp_leaks_fini(gp_leaks_t *leaks);

/* Bytes by which it grew. */
static inline uint64_t gp_leak_bytes(const gp_leak_t *leak)
{
  return gp_subtract_saturated(leak->bytes, leak->bytes_before);
}

static inline uint64_t gp_leak_count(const gp_leak_t *leak)
{
  return gp_subtract_saturated(leak->count, leak->count_before);
}

#endif
