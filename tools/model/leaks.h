/*
 * What the program holds at the end of a snapshot, or holds more of at the end of the second of two, by who
 * asked for it. Idle memory and memory that was freed but is still in use by the device are no leaks.
 */
#ifndef GP_TOOLS_MODEL_LEAKS_H
#define GP_TOOLS_MODEL_LEAKS_H

#include "tools/model/lifetimes.h"
#include "tools/model/saturated.h"
#include "tools/model/suppressions.h"

/* Allocations of one stack, kind of memory and device; without a stack, of one size. */
typedef struct gp_leak {
  char *key; /* the same for the same stack of two snapshots: by names where they are known, else by places in
                files */
  const gp_snapshot_t *snapshot; /* of the stack */
  const char *kind;              /* as in the snapshot; NULL: pooled */
  int device;
  int stack;          /* -1: none */
  uint64_t requested; /* bytes of each, if there is no stack */
  uint64_t bytes;     /* in the last snapshot */
  uint64_t count;
  uint64_t bytes_before; /* in the one before; 0 if there is only one */
  uint64_t count_before;
  uint64_t first_ns;     /* when the oldest of them was allocated */
  bool is_before_events; /* the oldest was there before the first event, and when it came is not known */
} gp_leak_t;

typedef struct gp_leaks {
  gp_leak_t *leaks; /* that are to be reported: largest growth first */
  size_t count;
  uint64_t bytes; /* of device memory: by how much it is more than before */
  uint64_t allocations;
  uint64_t host_bytes; /* the same of page-locked host memory */
  uint64_t host_allocations;
  uint64_t suppressed_bytes;
  uint64_t suppressed_allocations;
} gp_leaks_t;

/*
 * lifetimes[0..count): one, or two in the order of time. filters: of each. suppressions: may be empty; what
 * they matched is added to them. Borrows all of them. Returns 0 or ENOMEM; fini it in any case.
 */
int gp_leaks_init(gp_leaks_t *leaks, const gp_lifetimes_t *lifetimes, const gp_filter_t *const *filters,
    int count, gp_suppressions_t *suppressions);
void gp_leaks_fini(gp_leaks_t *leaks);

/* By how much it grew. */
static inline uint64_t gp_leak_bytes(const gp_leak_t *leak)
{
  return gp_subtract_saturated(leak->bytes, leak->bytes_before);
}

static inline uint64_t gp_leak_count(const gp_leak_t *leak)
{
  return gp_subtract_saturated(leak->count, leak->count_before);
}

#endif
