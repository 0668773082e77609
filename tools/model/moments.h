/*
 * The moment that a report describes. All devices share one moment, so that sums make sense: at the peak, all
 * devices together had the most memory in use. If events have no times, the state of the other devices at a
 * moment is unknown. Then the peak concerns one device, as the moment of an out-of-memory event always does.
 */
#ifndef GP_TOOLS_MODEL_MOMENTS_H
#define GP_TOOLS_MODEL_MOMENTS_H

#include "tools/model/filter.h"
#include "tools/model/memory.h"
#include "tools/model/oom_events.h"

typedef struct gp_moments {
  bool is_end;           /* the end: reports use the snapshot's final state, and `at` is the last moment */
  bool is_of_one;        /* the moment concerns only `device`; other devices count as empty */
  gp_moment_kind_t kind; /* kind of moment that the user gave to --at; GP_MOMENT_NONE: no --at */
  int device;            /* valid with is_of_one */
  size_t oom;            /* with GP_MOMENT_OOM: number of the out-of-memory event, from 1 on (oom_events.h) */
  uint32_t at;           /* moment of lifetimes */
} gp_moments_t;

/* Sets moments to the end of the snapshot, on all devices. */
void gp_moments_end(gp_moments_t *moments, const gp_lifetimes_t *lifetimes);

/* Sets moments to the peak: when all devices together had the most selected memory in use. */
void gp_moments_peak(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter);

/* Sets moments to the out-of-memory event `number`, which must have a moment, on the event's device only. */
void gp_moments_oom(
    gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_oom_event_t *event, size_t number);

/* Sets moments to the moment that request->at gives, or to the end without --at. `file` is the name for
 * messages. Returns 0, or the exit status after printing a message. */
int gp_moments_find(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_request_t *request, const char *file);

/* Returns the device to show. This is the only device that `moments` concerns, or else the device of
 * `filter`, which may be all devices. */
int gp_moments_device(const gp_moments_t *moments, const gp_filter_t *filter);

/* Gets the time of the moment. Returns false if no event precedes the moment, or if events have no times. */
bool gp_moments_time(const gp_moments_t *moments, const gp_lifetimes_t *lifetimes, uint64_t *ret_ns);

/* Writes "when memory ran out on device 1 (24.3 ms, event 1234)", truncated to capacity. Returns buffer. */
char *gp_moments_describe(
    const gp_moments_t *moments, const gp_lifetimes_t *lifetimes, char *buffer, size_t capacity);

/* Sums the memory that `filter` selects (NULL: everything) on `device`, or on all devices together
 * (GP_REQUEST_ALL_DEVICES), at `moments`. The figures of a device that `moments` does not concern are 0. */
void gp_moments_memory(const gp_moments_t *moments, const gp_lifetimes_t *lifetimes,
    const gp_filter_t *filter, int device, gp_memory_t *ret_memory);

/* Returns true if the program had already freed the life's memory at the moment. */
static inline bool gp_moments_freed(const gp_moments_t *moments, const gp_life_t *life)
{
  if (moments->is_of_one && life->device != moments->device)
    return false;
  return moments->is_end ? !life->is_held : life->freed <= moments->at;
}

/* Returns true if the program had the life's memory in use at the moment. */
static inline bool gp_moments_hold(const gp_moments_t *moments, const gp_life_t *life)
{
  if (moments->is_of_one && life->device != moments->device)
    return false;
  return moments->is_end ? life->is_held : gp_life_is_held_at(life, moments->at);
}

#endif
