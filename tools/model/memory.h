/*
 * How much memory was held at a moment of lifetimes, and when most was.
 */
#ifndef GP_TOOLS_MODEL_MEMORY_H
#define GP_TOOLS_MODEL_MEMORY_H

#include <stdint.h>

#include "tools/model/lifetimes.h"

/* Bytes of one device at a moment. Sums that do not fit stay at UINT64_MAX. */
typedef struct gp_memory {
  uint64_t requested; /* held by the program, pooled */
  uint64_t allocated; /* the same, rounded up */
  uint64_t deferred;  /* freed, but perhaps still in use by the device */
  uint64_t reserved;  /* from the driver */
  uint64_t forwarded;
  uint64_t count; /* of what the program holds, pooled or not */
} gp_memory_t;

/* What device held at the first moment. */
void gp_memory_begin(const gp_lifetimes_t *lifetimes, int device, gp_memory_t *ret_memory);

/* Carries memory over one event, which is of its device. */
void gp_memory_step(const gp_lifetimes_t *lifetimes, size_t event, gp_memory_t *memory);

/*
 * The moment at which most of what filter wants was held on device, or on all together
 * (GP_REQUEST_ALL_DEVICES): bytes asked for, pooled and not, host memory aside. The earliest of them.
 * *ret_bytes: how much.
 */
uint32_t gp_memory_peak(
    const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, int device, uint64_t *ret_bytes);

/* The moment after the last event that is not later than time_ns. */
uint32_t gp_memory_moment(const gp_lifetimes_t *lifetimes, uint64_t time_ns);

/* When a moment was: the time of the event before it. 0 for moment 0. */
uint64_t gp_memory_time(const gp_lifetimes_t *lifetimes, uint32_t moment);

#endif
