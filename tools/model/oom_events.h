/*
 * When memory ran out: the out-of-memory events of a snapshot, and the one that its own report (`oom`) is of.
 * oom_moment.h says what was held at one of them.
 */
#ifndef GP_TOOLS_MODEL_OOM_EVENTS_H
#define GP_TOOLS_MODEL_OOM_EVENTS_H

#include "tools/model/lifetimes.h"

typedef struct gp_oom_event {
  int device;
  bool has_moment;      /* false: it was before the recorded events, or none were recorded */
  bool has_event;       /* it is one of the recorded events, the one before `moment` */
  bool is_reported;     /* the snapshot's own report is of it */
  bool allocated_later; /* the program got memory of the device afterwards */
  bool got_as_much;     /* at least `requested` in one piece */
  uint32_t moment;      /* after the event */
  uint64_t time_ns;
  uint64_t requested; /* bytes */
} gp_oom_event_t;

/* Events are known by their number in this list, from 1: `--at oom=N`. */
typedef struct gp_oom_events {
  gp_oom_event_t *events; /* the oldest first */
  size_t count;
  bool is_written_then; /* the snapshot was written because memory ran out */
} gp_oom_events_t;

/* Finds them. Returns 0 or ENOMEM. Fini it in any case. */
int gp_oom_events_init(gp_oom_events_t *ooms, const gp_lifetimes_t *lifetimes);
void gp_oom_events_fini(gp_oom_events_t *ooms);

/*
 * The one to describe, of device or of all (GP_REQUEST_ALL_DEVICES): that for which the snapshot was written;
 * else the last one after which the program got no more memory of the device; else the last one. Its index;
 * SIZE_MAX: there is none.
 */
size_t gp_oom_events_main(const gp_oom_events_t *ooms, int device);

#endif
