/*
 * Lists the out-of-memory events of a snapshot, and finds the one that the snapshot's own report (`oom`)
 * describes. oom_moment.h has what was in use at one of them.
 */
#ifndef GP_TOOLS_MODEL_OOM_EVENTS_H
#define GP_TOOLS_MODEL_OOM_EVENTS_H

#include "format/oom.h"
#include "tools/model/lifetimes.h"
#include "tools/symbols/stack_owners.h"

typedef struct gp_oom_event {
  int device;
  bool has_moment;      /* false: it happened before the recorded events, or there are none */
  bool has_event;       /* it is recorded, as the event before `moment` */
  bool is_reported;     /* the snapshot's own report describes it */
  bool allocated_later; /* an allocation on the device succeeded afterwards */
  bool got_as_much;     /* a single later allocation had at least `requested` bytes */
  uint32_t moment;      /* the moment after the event */
  uint64_t time_ns;
  uint64_t requested; /* bytes */
} gp_oom_event_t;

/* Users name events by their number in this list, from 1: `--at oom=N`. */
typedef struct gp_oom_events {
  gp_oom_event_t *events; /* the oldest first */
  size_t count;
  bool is_written_then; /* the snapshot was written because memory ran out */
} gp_oom_events_t;

/* Reads the sizes and the cause of the refusal (the limit or the driver) from the snapshot's own report,
 * `oom` or `host_oom`. Figures that the report lacks stay unchanged in *ret_oom. Returns false if there is no
 * report, or the report names no device. */
bool gp_oom_report_read(const gp_snapshot_t *snapshot, const char *key, gp_oom_t *ret_oom);

/* Finds the out-of-memory events. Returns 0 or ENOMEM; call fini in any case. */
int gp_oom_events_init(gp_oom_events_t *ooms, const gp_lifetimes_t *lifetimes);
void gp_oom_events_fini(gp_oom_events_t *ooms);

/*
 * Returns the index of the event to describe, of device or of all (GP_REQUEST_ALL_DEVICES), or SIZE_MAX. This
 * is the first that exists of: the event for which the snapshot was written; the last event after which no
 * allocation on its device succeeded; the last event.
 */
size_t gp_oom_events_main(const gp_oom_events_t *ooms, int device);

#define GP_OOM_ASKER_BYTES (3 * GP_OWNER_NAME_BYTES)

/* The code that requested the memory. gp_owner_describe, without the language, writes `by`; gp_frame_describe
 * writes `from`. */
typedef struct gp_oom_asker {
  int stack;                     /* -1: none was recorded */
  char by[GP_OOM_ASKER_BYTES];   /* the owner of the request's stack; "": no stack was recorded */
  char from[GP_OOM_ASKER_BYTES]; /* the user's function that called the owner; "": none is known */
  const char *language;          /* the script's, if its frames are not recorded; else NULL. Static */
} gp_oom_asker_t;

/* Finds the code whose request failed in that event. */
void gp_oom_asker_find(const gp_snapshot_t *snapshot, const gp_oom_event_t *event, gp_oom_asker_t *asker);

#endif
