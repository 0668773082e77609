/*
 * When memory ran out: the out-of-memory events of a snapshot, and which of them its own report (`oom`)
 * describes. oom_moment.h says what was held at one of them.
 */
#ifndef GP_TOOLS_MODEL_OOM_EVENTS_H
#define GP_TOOLS_MODEL_OOM_EVENTS_H

#include "format/oom.h"
#include "tools/model/lifetimes.h"
#include "tools/symbols/stack_owners.h"

typedef struct gp_oom_event {
  int device;
  bool has_moment;      /* false: before the recorded events, or no events */
  bool has_event;       /* a recorded event, the one before `moment` */
  bool is_reported;     /* the snapshot's own report describes it */
  bool allocated_later; /* the program got memory of the device afterwards */
  bool got_as_much;     /* at least `requested` in one piece */
  uint32_t moment;      /* after the event */
  uint64_t time_ns;
  uint64_t requested; /* bytes */
} gp_oom_event_t;

/* Users name events by their number in this list, from 1: `--at oom=N`. */
typedef struct gp_oom_events {
  gp_oom_event_t *events; /* the oldest first */
  size_t count;
  bool is_written_then; /* the snapshot was written because memory ran out */
} gp_oom_events_t;

/* Reads the snapshot's own report, `oom` or `host_oom`: the sizes, and what refused. What it lacks stays as
 * it is in *ret_oom. False: there is no report, or no device in it. */
bool gp_oom_report_read(const gp_snapshot_t *snapshot, const char *key, gp_oom_t *ret_oom);

/* Finds the events. Returns 0 or ENOMEM. Call fini in any case. */
int gp_oom_events_init(gp_oom_events_t *ooms, const gp_lifetimes_t *lifetimes);
void gp_oom_events_fini(gp_oom_events_t *ooms);

/*
 * The event to describe, on device or on all (GP_REQUEST_ALL_DEVICES). The first rule that applies: the
 * event for which the snapshot was written; the last one after which the program got no memory of the
 * device; the last one. Returns its index; SIZE_MAX: none.
 */
size_t gp_oom_events_main(const gp_oom_events_t *ooms, int device);

#define GP_OOM_ASKER_BYTES (3 * GP_OWNER_NAME_BYTES)

/* Each as gp_owner_describe, without the language, and gp_frame_describe write it. */
typedef struct gp_oom_asker {
  int stack;                     /* -1: none was recorded */
  char by[GP_OOM_ASKER_BYTES];   /* the owner of the request's stack; "": no stack was recorded */
  char from[GP_OOM_ASKER_BYTES]; /* the next function of the user's that called it; "": none is known */
  const char *language;          /* of a script whose frames are not recorded; else NULL. Static */
} gp_oom_asker_t;

/* Finds who asked for the memory. */
void gp_oom_asker_find(const gp_snapshot_t *snapshot, const gp_oom_event_t *event, gp_oom_asker_t *asker);

#endif
