/*
 * The figures of a snapshot. findings.h interprets them.
 */
#ifndef GP_TOOLS_MODEL_SUMMARY_H
#define GP_TOOLS_MODEL_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/model/component_use.h"
#include "tools/model/filter.h"
#include "tools/model/growth.h"
#include "tools/model/lifetimes.h"
#include "tools/model/oom_moment.h"
#include "tools/model/phase_use.h"
#include "tools/model/sites.h"
#include "tools/read/snapshot.h"

#define GP_SUMMARY_GROUPS 10

/* The columns that the summary needs. The reader checks and drops all others. */
#define GP_SUMMARY_COLUMNS (GP_LIFETIMES_COLUMNS | 1u << GP_COLUMN_DURATION_NS)

/* Live blocks of one requested size. */
typedef struct gp_summary_group {
  uint64_t requested; /* bytes of each, as requested */
  uint64_t count;
  uint64_t bytes; /* rounded bytes of all */
} gp_summary_group_t;

/* Events of one action. */
typedef struct gp_summary_action {
  const char *name;
  uint64_t count;
  uint64_t driver_calls; /* events with a duration, which are calls of the driver */
  uint64_t driver_ns;
  uint64_t longest_ns;
} gp_summary_action_t;

/* Events of one action and detail, if it has one: "trim" of "idle", "mode" of "dead" ... */
typedef struct gp_summary_detail {
  const char *action;
  const char *detail;
  uint64_t count;
} gp_summary_detail_t;

typedef struct gp_summary_device {
  const gp_snapshot_device_t *device;
  uint64_t live_count;
  uint64_t live_bytes; /* rounded */
  uint64_t pending_count;
  uint64_t pending_bytes;
  uint64_t idle_count;
  uint64_t idle_bytes;
  uint64_t largest_idle;
  gp_summary_group_t groups[GP_SUMMARY_GROUPS]; /* largest sum first */
  size_t group_count;
  size_t size_count; /* number of different sizes of live blocks */
  gp_component_use_t components;
  bool has_then;       /* the summary's moment concerns this device and is not the end: the members below are
                          valid */
  bool knows_reserved; /* false: then.reserved and the next two are unknown */
  gp_memory_t then;
  uint64_t then_segments; /* number of segments, joined as in the map */
  uint64_t then_hole;     /* the largest idle piece */
} gp_summary_device_t;

typedef struct gp_summary {
  const char *file;
  const gp_snapshot_t *snapshot;
  const gp_filter_t *filter;
  gp_lifetimes_t lifetimes;
  gp_oom_events_t ooms;
  bool has_oom;
  gp_oom_moment_t oom;  /* the event described; valid with has_oom */
  gp_moments_t moments; /* what the summary is about: the moment of --at; else when memory ran out, if no
                           later allocation on that device was as large; else the end, with GP_MOMENT_NONE */
  gp_sites_t sites;     /* by function, or by size if there are no stacks; live at moments */
  gp_growth_t growth;
  gp_growth_t pinned_growth; /* of page-locked memory */
  gp_phase_use_t phases;     /* `left` is at moments */
  gp_summary_device_t devices[GP_SNAPSHOT_DEVICES];
  size_t device_count;
  gp_summary_action_t *actions; /* in the order of the file; also actions without events */
  size_t action_count;
  gp_summary_detail_t *details;
  size_t detail_count;
  uint64_t event_count;
  uint64_t first_ns; /* time of the first counted event */
  uint64_t last_ns;
  uint64_t driver_calls;
  uint64_t driver_ns;
  uint64_t until_ns; /* the latest time in the file */
  bool is_partial;
} gp_summary_t;

/*
 * Computes the figures of what filter selects from snapshot; statistics always cover whole devices. file
 * names the input. Borrows all three for the life of the summary. Returns 0, ENOMEM, or EOVERFLOW for too
 * many events. Call fini in any case.
 */
int gp_summary_init(
    gp_summary_t *summary, const gp_snapshot_t *snapshot, const char *file, const gp_filter_t *filter);

/* Like gp_summary_init, at the moment that request->at names. *ret_status is the exit status if that moment
 * is wrong, after a message; else 0. */
int gp_summary_init_at(gp_summary_t *summary, const gp_snapshot_t *snapshot, const char *file,
    const gp_filter_t *filter, const gp_request_t *request, int *ret_status);
void gp_summary_fini(gp_summary_t *summary);

/* Returns the number of events with that action and detail. */
uint64_t gp_summary_detail_count(const gp_summary_t *summary, const char *action, const char *detail);

#endif
