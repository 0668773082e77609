/*
 * The moments that a report is about. It is one moment for all devices, so that their sums are of one moment:
 * the peak is when the devices together held most. Where the events have no times it is not known what
 * another device held then: then, and when memory ran out on a device, it is a moment of that device alone.
 */
#ifndef GP_TOOLS_MODEL_MOMENTS_H
#define GP_TOOLS_MODEL_MOMENTS_H

#include "tools/model/filter.h"
#include "tools/model/lifetimes.h"
#include "tools/model/oom_events.h"

typedef struct gp_moments {
  bool is_end;           /* the end: what the snapshot says is held counts, and `at` is the last moment */
  bool is_of_one;        /* only `device` is meant: nothing of others is held then */
  gp_moment_kind_t kind; /* what --at named; GP_MOMENT_NONE: nothing did */
  int device;            /* with is_of_one */
  size_t oom;            /* with GP_MOMENT_OOM: which, from 1 (oom_events.h) */
  uint32_t at[GP_SNAPSHOT_DEVICES]; /* by device, as moments of lifetimes */
} gp_moments_t;

/* The end of the snapshot, on all devices. */
void gp_moments_end(gp_moments_t *moments, const gp_lifetimes_t *lifetimes);

/* When the devices held most of what filter wants, together. */
void gp_moments_peak(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter);

/* When memory ran out: event, which has a moment, is the number-th of the snapshot. Of its device alone. */
void gp_moments_oom(
    gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_oom_event_t *event, size_t number);

/*
 * What request->at names in the snapshot; the end without it. file: for messages. Returns 0 or, after a
 * message, the exit status.
 */
int gp_moments_find(gp_moments_t *moments, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_request_t *request, const char *file);

/* The device that a report on moments shows: moments' only one, else that of filter, which may be all. */
int gp_moments_device(const gp_moments_t *moments, const gp_filter_t *filter);

/* The time of the moment; false: it has none, as before the first event, or without times. */
bool gp_moments_time(const gp_moments_t *moments, const gp_lifetimes_t *lifetimes, uint64_t *ret_ns);

/* "when memory ran out on device 1 (24.3 ms, event 1234)". Cut to capacity; returns buffer. */
char *gp_moments_describe(
    const gp_moments_t *moments, const gp_lifetimes_t *lifetimes, char *buffer, size_t capacity);

/* True if the program held it then. */
static inline bool gp_moments_hold(const gp_moments_t *moments, const gp_life_t *life)
{
  if (moments->is_of_one && life->device != moments->device)
    return false;
  return moments->is_end ? life->is_held : gp_life_is_held_at(life, moments->at[life->device]);
}

#endif
