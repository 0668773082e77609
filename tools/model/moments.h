/*
 * The moments that a report is about. One moment counts for all devices, so that sums make sense: the peak
 * is when all devices together held most. Without times nothing tells what another device held at a moment;
 * then the moment, and that of an out of memory, concerns one device.
 */
#ifndef GP_TOOLS_MODEL_MOMENTS_H
#define GP_TOOLS_MODEL_MOMENTS_H

#include "tools/model/filter.h"
#include "tools/model/memory.h"
#include "tools/model/oom_events.h"

typedef struct gp_moments {
  bool is_end;           /* the end: the snapshot's own state counts, and `at` is the last moment */
  bool is_of_one;        /* concerns only `device`; others count as holding nothing */
  gp_moment_kind_t kind; /* the kind that --at named; GP_MOMENT_NONE: no --at */
  int device;            /* with is_of_one */
  size_t oom;            /* with GP_MOMENT_OOM: which one, from 1 (oom_events.h) */
  uint32_t at;           /* moment of lifetimes */
} gp_moments_t;

/* The end of the snapshot, on all devices. */
void gp_moments_end(gp_moments_t *moments, const gp_lifetimes_t *lifetimes);

/* When all devices together held most of what filter selects. */
void gp_moments_peak(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter);

/* When memory ran out. event has a moment and is the number-th of the
 * snapshot. Concerns its device alone. */
void gp_moments_oom(
    gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_oom_event_t *event, size_t number);

/* Finds what request->at names in the snapshot; without --at the end. file: for messages. Returns 0 or,
 * after a message, the exit status. */
int gp_moments_find(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_request_t *request, const char *file);

/* The device to show: moments' only one, else that of filter, which may be all. */
int gp_moments_device(const gp_moments_t *moments, const gp_filter_t *filter);

/* The time of the moment; false: it has none, because it is before the first
 * event or events have no times. */
bool gp_moments_time(const gp_moments_t *moments, const gp_lifetimes_t *lifetimes, uint64_t *ret_ns);

/* "when memory ran out on device 1 (24.3 ms, event 1234)". Cut to capacity; returns buffer. */
char *gp_moments_describe(
    const gp_moments_t *moments, const gp_lifetimes_t *lifetimes, char *buffer, size_t capacity);

/* Sums up the memory that filter (NULL: everything) selects on device, or on all together
 * (GP_REQUEST_ALL_DEVICES), at moments. All zero for a device that moments does not concern. */
void gp_moments_memory(const gp_moments_t *moments, const gp_lifetimes_t *lifetimes,
    const gp_filter_t *filter, int device, gp_memory_t *ret_memory);

/* True if the program had freed it by then. */
static inline bool gp_moments_freed(const gp_moments_t *moments, const gp_life_t *life)
{
  if (moments->is_of_one && life->device != moments->device)
    return false;
  return moments->is_end ? !life->is_held : life->freed <= moments->at;
}

/* True if the program held the life at that moment. */
static inline bool gp_moments_hold(const gp_moments_t *moments, const gp_life_t *life)
{
  if (moments->is_of_one && life->device != moments->device)
    return false;
  return moments->is_end ? life->is_held : gp_life_is_held_at(life, moments->at);
}

#endif
