/*
 * How much memory was held at a moment of lifetimes, and when most was held.
 */
#ifndef GP_TOOLS_MODEL_MEMORY_H
#define GP_TOOLS_MODEL_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/model/lifetimes.h"

/* Bytes of one device at a moment. Sums saturate at UINT64_MAX. */
typedef struct gp_memory {
  uint64_t requested; /* held by the program, pooled, as requested */
  uint64_t allocated; /* the same, rounded */
  uint64_t deferred;  /* freed, but perhaps still in use by the device */
  uint64_t reserved;  /* from the driver */
  uint64_t forwarded;
  uint64_t count; /* allocations that the program holds, pooled or not */
} gp_memory_t;

/* Sets what device held at a moment; if it is the end, as the snapshot says. */
void gp_memory_held(
    const gp_lifetimes_t *lifetimes, int device, uint32_t moment, bool is_end, gp_memory_t *ret_memory);

/* Applies one event, which must be of the memory's device. */
void gp_memory_step(const gp_lifetimes_t *lifetimes, size_t event, gp_memory_t *memory);

/*
 * The earliest moment at which the memory that filter selects was largest, on device or on all together
 * (GP_REQUEST_ALL_DEVICES). Counts requested bytes, pooled or not, without host memory. *ret_bytes: that
 * many.
 */
uint32_t gp_memory_peak(
    const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, int device, uint64_t *ret_bytes);

/* The moment after the last event with a time up to time_ns. */
uint32_t gp_memory_moment(const gp_lifetimes_t *lifetimes, uint64_t time_ns);

/* The time of a moment: that of the event before it. 0 for moment 0. */
uint64_t gp_memory_time(const gp_lifetimes_t *lifetimes, uint32_t moment);

#endif
