/*
 * Measures the memory in use: at one moment of the lifetimes, from event to event, and at the peak.
 */
#ifndef GP_TOOLS_MODEL_MEMORY_H
#define GP_TOOLS_MODEL_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/model/lifetimes.h"
#include "tools/saturated.h"

/* Bytes of one device, or of all devices together, at a moment. Sums saturate at UINT64_MAX. */
typedef struct gp_memory {
  uint64_t requested; /* pooled memory that the program has in use, requested bytes */
  uint64_t allocated; /* pooled memory that the program has in use, rounded bytes */
  uint64_t deferred;  /* freed by the program, but pending work may still access it */
  uint64_t reserved;  /* reserved from the driver for the pool */
  uint64_t forwarded;
  uint64_t count; /* number of allocations that the program has in use, pooled or forwarded */
  uint64_t host;  /* page-locked host memory, which the figures above exclude */
  uint64_t host_count;
} gp_memory_t;

/* A walk over the events of a recording. `memory` is the state after the first `moment` events. */
typedef struct gp_memory_walk {
  const gp_lifetimes_t *lifetimes; /* borrowed, as filter and leaves_out are */
  const gp_filter_t *filter;
  const bool *leaves_out;
  int device;
  uint32_t moment;
  gp_memory_t memory;
} gp_memory_walk_t;

/* Sums the memory that `filter` selects (NULL: everything) on `device`, or on all devices together
 * (GP_REQUEST_ALL_DEVICES), at `moment`. With `is_end`, sums the snapshot's final state instead. Of the
 * filter, reserved memory depends only on the device. */
void gp_memory_held(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, int device, uint32_t moment,
    bool is_end, gp_memory_t *ret_memory);

/* Begins a walk at moment 0. `filter` and `device` are as for gp_memory_held. `leaves_out` has an element for
 * each life, which is true if the walk must not count the life; NULL counts all lives. */
void gp_memory_walk_begin(gp_memory_walk_t *walk, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const bool *leaves_out, int device);

/* Advances over the next event, whatever its device. Returns false at the end. */
bool gp_memory_walk_next(gp_memory_walk_t *walk);

/* Returns the requested bytes of device memory that the program has in use, pooled or forwarded. */
static inline uint64_t gp_memory_requested(const gp_memory_t *memory)
{
  return gp_add_saturated(memory->requested, memory->forwarded);
}

/*
 * Returns the earliest moment at which the memory in use that `filter` selects was largest, on `device` or on
 * all devices together (GP_REQUEST_ALL_DEVICES). Sets *ret_bytes to the bytes at that moment. Counts
 * requested bytes of device memory, pooled or forwarded.
 */
uint32_t gp_memory_peak(
    const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, int device, uint64_t *ret_bytes);

/* Returns the moment directly after the last event whose time is at most time_ns. */
uint32_t gp_memory_moment(const gp_lifetimes_t *lifetimes, uint64_t time_ns);

/* Returns the time of the last event before `moment`, or 0 for moment 0. */
uint64_t gp_memory_time(const gp_lifetimes_t *lifetimes, uint32_t moment);

#endif
