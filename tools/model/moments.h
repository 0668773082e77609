/*
 * The moment that a report is about. One moment counts for all devices, so that sums make sense: the peak is
 * when all devices together had most memory in use. If events have no times, the state of the other devices
 * at a moment is unknown, so the peak concerns one device. So does the moment of an out-of-memory event.
 */
#ifndef GP_TOOLS_MODEL_MOMENTS_H
#define GP_TOOLS_MODEL_MOMENTS_H

#include "tools/model/filter.h"
#include "tools/model/memory.h"
#include "tools/model/oom_events.h"

typedef struct gp_moments {
  bool is_end;           /* the end: reports use the snapshot's final state, and `at` is the last moment */
  bool is_of_one;        /* concerns only `device`; other devices count as empty */
  gp_moment_kind_t kind; /* the kind that --at named; GP_MOMENT_NONE: no --at */
  int device;            /* with is_of_one */
  size_t oom;            /* with GP_MOMENT_OOM: number of the out-of-memory event, from 1 (oom_events.h) */
  uint32_t at;           /* moment of lifetimes */
} gp_moments_t;

/* Sets moments to the end of the snapshot, on all devices. */
void gp_moments_end(gp_moments_t *moments, const gp_lifetimes_t *lifetimes);

/* Sets moments to the peak: when most memory that filter selects was in use, on all devices together. */
void gp_moments_peak(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter);

/* Sets moments to the out-of-memory event with that number, which has a moment. Concerns only its device. */
void gp_moments_oom(
    gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_oom_event_t *event, size_t number);

/* Sets moments to what request->at names, or to the end without --at. Messages name `file`. Returns 0 or,
 * after a message, the exit status. */
int gp_moments_find(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_request_t *request, const char *file);

/* Returns the device to show: the only one that moments concerns, else the device of filter, which may be
 * all. */
int gp_moments_device(const gp_moments_t *moments, const gp_filter_t *filter);

/* Gets the time of the moment. Returns false if it has none: it is before the first event, or events have no
 * times. */
bool gp_moments_time(const gp_moments_t *moments, const gp_lifetimes_t *lifetimes, uint64_t *ret_ns);

/* Writes "when memory ran out on device 1 (24.3 ms, event 1234)", truncated to capacity. Returns buffer. */
char *gp_moments_describe(
    const gp_moments_t *moments, const gp_lifetimes_t *lifetimes, char *buffer, size_t capacity);

/* Sums up the memory that filter (NULL: everything) selects on device, or on all together
 * (GP_REQUEST_ALL_DEVICES), at moments. All zero for a device that moments does not concern. */
void gp_moments_memory(const gp_moments_t *moments, const gp_lifetimes_t *lifetimes,
    const gp_filter_t *filter, int device, gp_memory_t *ret_memory);

/* Returns true if the program had freed the life's memory at that moment. */
static inline bool gp_moments_freed(const gp_moments_t *moments, const gp_life_t *life)
{
  if (moments->is_of_one && life->device != moments->device)
    return false;
  return moments->is_end ? !life->is_held : life->freed <= moments->at;
}

/* Returns true if the program had the life's memory in use at that moment. */
static inline bool gp_moments_hold(const gp_moments_t *moments, const gp_life_t *life)
{
  if (moments->is_of_one && life->device != moments->device)
    return false;
  return moments->is_end ? life->is_held : gp_life_is_held_at(life, moments->at);
}

#endif
