/*
 * Phases: what the program says it does, by ranges and marks of NVTX and gpupool.h. A thread is in the
 * innermost range that it has entered. Outside of all its ranges the process counts: the newest range that is
 * open, or the newest mark made inside it. So work that a library hands to threads of its own is in a phase,
 * too.
 */
#ifndef GP_TOOLS_MODEL_PHASES_H
#define GP_TOOLS_MODEL_PHASES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/hash_index.h"
#include "tools/read/snapshot.h"

/* parent stands before it in the list. */
typedef struct gp_phase {
  const char *name; /* belongs to the snapshot; "" for none is never here */
  int32_t parent;   /* the range of the thread around it; -1: none */
  uint64_t times;   /* how often it began */
} gp_phase_t;

/* From that time on, until the next change. */
typedef struct gp_phase_change {
  uint64_t time_ns;
  int32_t phase; /* -1: none */
} gp_phase_change_t;

/* In the order of time. */
typedef struct gp_phase_changes {
  gp_phase_change_t *items;
  size_t count;
} gp_phase_changes_t;

typedef struct gp_phases {
  gp_phase_t *phases; /* each name inside the same parent once */
  size_t count;
  gp_hash_index_t by_name;
  gp_phase_changes_t *threads;
  size_t thread_count;
  gp_phase_changes_t process;
} gp_phases_t;

/* Reads the marks of snapshot, which is borrowed. Leaves out what does not follow trace/FORMAT.md. Returns 0
 * or ENOMEM; call fini in any case. */
int gp_phases_init(gp_phases_t *phases, const gp_snapshot_t *snapshot);
void gp_phases_fini(gp_phases_t *phases);

/* The place in phases->phases of what the thread was in at that time; -1: in none, as of
 * memory from before the events, whose thread is GP_FILTER_UNKNOWN. thread may be any other number. */
int32_t gp_phases_at(const gp_phases_t *phases, int thread, uint64_t time_ns);

/* The changes of the thread that is in phases for the longest until that time, or of the process if that is:
 * where there is room for one only. */
const gp_phase_changes_t *gp_phases_main(const gp_phases_t *phases, uint64_t until_ns);

#endif
