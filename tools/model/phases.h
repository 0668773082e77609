/*
 * Phases: parts of a run that the program names with ranges and marks of NVTX and gpupool.h. A thread is in
 * the innermost range that it has entered. Outside of all its ranges, a thread is in the phase of the
 * process. That is the newest open range of the process, or the newest mark inside that range. So worker
 * threads of a library are in a phase, too.
 */
#ifndef GP_TOOLS_MODEL_PHASES_H
#define GP_TOOLS_MODEL_PHASES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/hash_index.h"
#include "tools/read/snapshot.h"

/* A range or mark. In gp_phases_t.phases, a parent precedes its children. */
typedef struct gp_phase {
  const char *name; /* belongs to the snapshot; never "" */
  int32_t parent;   /* index of the thread's range around this one; -1: none */
  uint64_t times;   /* number of times the phase began */
} gp_phase_t;

/* The phase from time_ns until the next change. */
typedef struct gp_phase_change {
  uint64_t time_ns;
  int32_t phase; /* index of the phase; -1: none */
} gp_phase_change_t;

/* All phase changes of a thread or of the process, in order of time. */
typedef struct gp_phase_changes {
  gp_phase_change_t *items;
  size_t count;
} gp_phase_changes_t;

typedef struct gp_phases {
  gp_phase_t *phases; /* one for each pair of a name and a parent */
  size_t count;
  gp_hash_index_t by_name;
  gp_phase_changes_t *threads;
  size_t thread_count;
  gp_phase_changes_t process;
} gp_phases_t;

/* Reads the marks of `snapshot`, which is borrowed. Ignores marks that violate trace/FORMAT.md. Returns 0 or
 * ENOMEM; call gp_phases_fini in any case. */
int gp_phases_init(gp_phases_t *phases, const gp_snapshot_t *snapshot);
void gp_phases_fini(gp_phases_t *phases);

/* Returns the index in phases->phases of the phase that `thread` was in at time_ns, or -1 if it was in none.
 * Any thread is legal. GP_FILTER_UNKNOWN, the thread of memory older than the events, is in no phase. */
int32_t gp_phases_at(const gp_phases_t *phases, int thread, uint64_t time_ns);

/* Returns the changes of the thread (or process) that spent the most time in phases up to until_ns. Reports
 * use this if they have room for one thread only. */
const gp_phase_changes_t *gp_phases_main(const gp_phases_t *phases, uint64_t until_ns);

#endif
