/*
 * Computes the figures of a snapshot. findings.h interprets them.
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

/* The columns that the summary needs. The reader checks the other columns, but does not keep them. */
#define GP_SUMMARY_COLUMNS (GP_LIFETIMES_COLUMNS | 1u << GP_COLUMN_DURATION_NS)

/* Blocks in use that have the same requested size. */
typedef struct gp_summary_group {
  uint64_t requested; /* requested bytes of each block */
  uint64_t count;
  uint64_t bytes; /* rounded bytes of all blocks together */
} gp_summary_group_t;

/* The events with one action. */
typedef struct gp_summary_action {
  const char *name;
  uint64_t count;
  uint64_t driver_calls; /* number of events with a duration; each of these is a driver call */
  uint64_t driver_ns;
  uint64_t longest_ns;
} gp_summary_action_t;

/* The events with one action and detail, if the action has details: "trim" of "idle", "mode" of "dead" ... */
typedef struct gp_summary_detail {
  const char *action;
  const char *detail;
  uint64_t count;
} gp_summary_detail_t;

typedef struct gp_summary_device {
  const gp_snapshot_device_t *device;
  uint64_t live_count;
  uint64_t live_bytes; /* rounded bytes */
  uint64_t pending_count;
  uint64_t pending_bytes;
  uint64_t idle_count;
  uint64_t idle_bytes;
  uint64_t largest_idle;
  gp_summary_group_t groups[GP_SUMMARY_GROUPS]; /* sorted by sum, largest first */
  size_t group_count;
  size_t size_count; /* number of different sizes of blocks in use */
  gp_component_use_t components;
  /* The moment of the summary concerns this device and is not the end, so the members below are valid. */
  bool has_then;
  bool knows_reserved; /* false: then.reserved and the next two members are unknown */
  gp_memory_t then;
  uint64_t then_segments; /* number of segments, joined as in the map (memory_map.h) */
  uint64_t then_hole;     /* largest idle piece */
} gp_summary_device_t;

typedef struct gp_summary {
  const char *file;
  const gp_snapshot_t *snapshot;
  const gp_filter_t *filter;
  gp_lifetimes_t lifetimes;
  gp_oom_events_t ooms;
  bool has_oom;
  gp_oom_moment_t oom; /* the out-of-memory event to describe; valid with has_oom */
  /* The moment that the summary describes. This is the moment of --at; otherwise when memory ran out, if no
   * later allocation on that device was as large; otherwise the end, with GP_MOMENT_NONE. */
  gp_moments_t moments;
  gp_sites_t sites; /* by function, or by size if there are no stacks; GP_SITE_LIVE is at `moments` */
  gp_growth_t growth;
  gp_growth_t pinned_growth; /* growth of page-locked memory */
  gp_phase_use_t phases;     /* `left` is at `moments` */
  gp_summary_device_t devices[GP_SNAPSHOT_DEVICES];
  size_t device_count;
  gp_summary_action_t *actions; /* in the order of the file; includes actions without events */
  size_t action_count;
  gp_summary_detail_t *details;
  size_t detail_count;
  uint64_t event_count;
  uint64_t first_ns; /* time of the first counted event */
  uint64_t last_ns;
  uint64_t driver_calls;
  uint64_t driver_ns;
  uint64_t until_ns; /* latest time in the file */
  bool is_partial;
} gp_summary_t;

/*
 * Computes the figures of the part of `snapshot` that `filter` selects; statistics always cover whole
 * devices. `file` is the input's name. Borrows all three for the life of the summary. Returns 0, ENOMEM, or
 * EOVERFLOW for too many events. Call gp_summary_fini in any case.
 */
int gp_summary_init(
    gp_summary_t *summary, const gp_snapshot_t *snapshot, const char *file, const gp_filter_t *filter);

/* Like gp_summary_init, for the moment that request->at gives. If that moment is wrong, prints a message and
 * sets *ret_status to the exit status; otherwise sets it to 0. */
int gp_summary_init_at(gp_summary_t *summary, const gp_snapshot_t *snapshot, const char *file,
    const gp_filter_t *filter, const gp_request_t *request, int *ret_status);
void gp_summary_fini(gp_summary_t *summary);

/* Returns the number of events with that action and detail. */
uint64_t gp_summary_detail_count(const gp_summary_t *summary, const char *action, const char *detail);

#endif
