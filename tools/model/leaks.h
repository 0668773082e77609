/*
 * Leaks: memory that the program has in use at the end of a snapshot, by the stack that allocated it. With
 * two snapshots, a leak is the growth from the first to the second. Idle memory, and freed memory that
 * pending work may still access, is not a leak.
 */
#ifndef GP_TOOLS_MODEL_LEAKS_H
#define GP_TOOLS_MODEL_LEAKS_H

#include "tools/model/holding.h"
#include "tools/model/lifetimes.h"
#include "tools/saturated.h"
#include "tools/model/suppressions.h"

/* The allocations of one stack, kind of memory and device. Without a recorded stack, those of one size. */
typedef struct gp_leak {
  char *key; /* equal for equal stacks in any snapshot: function names or, if unknown, module offsets */
  const gp_snapshot_t *snapshot; /* the snapshot that `stack` belongs to */
  const char *kind;              /* kind of forwarded memory, as in the snapshot; NULL: pooled */
  int device;
  int stack;          /* -1: none */
  uint64_t requested; /* without a stack: the bytes of each allocation */
  uint64_t bytes;     /* bytes in use in the last snapshot */
  uint64_t count;
  gp_holding_t holding;  /* blocks in the last snapshot; counts frees only if there is a stack */
  uint64_t bytes_before; /* bytes in use in the earlier snapshot; 0 if there is only one */
  uint64_t count_before;
  uint64_t first_ns;     /* time of the oldest allocation */
  bool is_before_events; /* the oldest allocation precedes the first event; its time is unknown */
  int32_t thread;        /* index of the thread that made the allocations; GP_FILTER_UNKNOWN: not known */
  bool is_of_several;    /* true if several threads made the allocations; then `thread` made the first */
} gp_leak_t;

typedef struct gp_leaks {
  gp_leak_t *leaks; /* sorted by growth, largest first; those without a stack last */
  size_t count;
  uint64_t bytes; /* growth of device memory */
  uint64_t allocations;
  uint64_t host_bytes; /* growth of page-locked host memory */
  uint64_t host_allocations;
  uint64_t suppressed_bytes;
  uint64_t suppressed_allocations;
} gp_leaks_t;

/* Finds the leaks in one snapshot, or in two in order of time: lifetimes[0..count), with one filter each.
 * Adds the bytes and allocations that each suppression matches to its sums; the list may be empty. Borrows
 * all arguments. Returns 0 or ENOMEM; call gp_leaks_fini in any case. */
int gp_leaks_init(gp_leaks_t *leaks, const gp_lifetimes_t *lifetimes, const gp_filter_t *const *filters,
    int count, gp_suppressions_t *suppressions);
void gp_leaks_fini(gp_leaks_t *leaks);

/* Returns the bytes by which the leak grew. */
static inline uint64_t gp_leak_bytes(const gp_leak_t *leak)
{
  return gp_subtract_saturated(leak->bytes, leak->bytes_before);
}

static inline uint64_t gp_leak_count(const gp_leak_t *leak)
{
  return gp_subtract_saturated(leak->count, leak->count_before);
}

#endif
