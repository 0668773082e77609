/*
 * Lists the out-of-memory events of a snapshot, and finds the event that the snapshot's own report (`oom`)
 * describes. oom_moment.h adds the memory in use at one event.
 */
#ifndef GP_TOOLS_MODEL_OOM_EVENTS_H
#define GP_TOOLS_MODEL_OOM_EVENTS_H

#include "format/oom.h"
#include "tools/model/lifetimes.h"
#include "tools/symbols/stack_owners.h"

typedef struct gp_oom_event {
  int device;
  bool has_moment;      /* false: the event precedes the recorded events, or no events were recorded */
  bool has_event;       /* the event was recorded, directly before `moment` */
  bool is_reported;     /* the snapshot's own report describes it */
  bool allocated_later; /* a later allocation on the device succeeded */
  bool got_as_much;     /* one later allocation on the device had at least `requested` bytes */
  uint32_t moment;      /* moment directly after the event */
  uint64_t time_ns;
  uint64_t requested; /* bytes of the failed request */
} gp_oom_event_t;

/* The user refers to an event by its number in this list, from 1 on: `--at oom=N`. */
typedef struct gp_oom_events {
  gp_oom_event_t *events; /* oldest first */
  size_t count;
  bool is_written_then; /* the snapshot was written because memory ran out */
} gp_oom_events_t;

/* Reads the sizes, and whether the limit or the driver refused the request, from the snapshot's own report.
 * `key` is `oom` or `host_oom`. Figures that the report lacks stay unchanged in *ret_oom. Returns false if
 * there is no report, or if it names no device. */
bool gp_oom_report_read(const gp_snapshot_t *snapshot, const char *key, gp_oom_t *ret_oom);

/* Finds the out-of-memory events. Returns 0 or ENOMEM; call gp_oom_events_fini in any case. */
int gp_oom_events_init(gp_oom_events_t *ooms, const gp_lifetimes_t *lifetimes);
void gp_oom_events_fini(gp_oom_events_t *ooms);

/*
 * Returns the index of the event to describe on `device`, or on all devices (GP_REQUEST_ALL_DEVICES). Prefers
 * the event for which the snapshot was written. Otherwise chooses the last event after which no allocation on
 * its device succeeded, then the last event. Returns SIZE_MAX if there is none.
 */
size_t gp_oom_events_main(const gp_oom_events_t *ooms, int device);

#define GP_OOM_ASKER_BYTES (3 * GP_OWNER_NAME_BYTES)

/* The code whose request failed. gp_owner_describe, without the language, writes `by`, and gp_frame_describe
 * writes `from`. */
typedef struct gp_oom_asker {
  int stack;                     /* stack of the request; -1: none was recorded */
  char by[GP_OOM_ASKER_BYTES];   /* owner of the stack; "": no stack was recorded */
  char from[GP_OOM_ASKER_BYTES]; /* user's function that called the owner; "": unknown */
  const char *language; /* the script's language if its frames were not recorded, otherwise NULL (static) */
} gp_oom_asker_t;

/* Finds the code whose request failed at the event. */
void gp_oom_asker_find(const gp_snapshot_t *snapshot, const gp_oom_event_t *event, gp_oom_asker_t *asker);

#endif
