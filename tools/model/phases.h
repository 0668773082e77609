/*
 * Phases: parts of a run that the program names by ranges and marks of NVTX and gpupool.h. A thread is in the
 * innermost range that it has entered. A thread outside of all its ranges is in the phase of the process: the
 * newest range that is open, or the newest mark made inside that range. So a library's worker threads are in
 * a phase, too.
 */
#ifndef GP_TOOLS_MODEL_PHASES_H
#define GP_TOOLS_MODEL_PHASES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/hash_index.h"
#include "tools/read/snapshot.h"

/* The parent comes first in gp_phases_t.phases. */
typedef struct gp_phase {
  const char *name; /* belongs to the snapshot; never "" */
  int32_t parent;   /* the thread's range around this one; -1: none */
  uint64_t times;   /* how often it began */
} gp_phase_t;

/* The phase from that time until the next change. */
typedef struct gp_phase_change {
  uint64_t time_ns;
  int32_t phase; /* -1: none */
} gp_phase_change_t;

/* All changes of a thread or of the process, in the order of time. */
typedef struct gp_phase_changes {
  gp_phase_change_t *items;
  size_t count;
} gp_phase_changes_t;

typedef struct gp_phases {
  gp_phase_t *phases; /* one for each pair of name and parent */
  size_t count;
  gp_hash_index_t by_name;
  gp_phase_changes_t *threads;
  size_t thread_count;
  gp_phase_changes_t process;
} gp_phases_t;

/* Reads the marks of snapshot, which is borrowed. Ignores marks that violate trace/FORMAT.md. Returns 0 or
 * ENOMEM; call fini in any case. */
int gp_phases_init(gp_phases_t *phases, const gp_snapshot_t *snapshot);
void gp_phases_fini(gp_phases_t *phases);

/* Returns the index in phases->phases of the phase that the thread was in at that time, or -1 for none. That
 * is also the result for GP_FILTER_UNKNOWN, the thread of memory older than the events. Any number is
 * legal. */
int32_t gp_phases_at(const gp_phases_t *phases, int thread, uint64_t time_ns);

/* Returns the changes of the thread (or the process) that spent most time in phases up to until_ns. For
 * reports that have room for one thread only. */
const gp_phase_changes_t *gp_phases_main(const gp_phases_t *phases, uint64_t until_ns);

#endif
