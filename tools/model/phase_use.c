#include "tools/model/phase_use.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/saturated.h"

/* The current position of a thread, or of the process, in its list of phase changes. */
typedef struct walker {
  const gp_phase_changes_t *changes;
  size_t next;
  int32_t phase;
  uint64_t highest; /* the most bytes in use since the last change of phase */
} walker_t;

typedef struct build {
  gp_phase_use_t *use;
  gp_phases_t phases;
  size_t *row_of; /* index of each phase's row */
  walker_t *walkers;
  size_t walker_count;
  uint64_t held;
  uint64_t since_ns; /* time from which on the memory in use is known; UINT64_MAX: no events */
} build_t;

static int make_rows(build_t *build)
{
  const gp_phases_t *phases = &build->phases;
  gp_phase_use_t *use = build->use;
  gp_hash_index_t by_name = {0};
  int error = 0;

  build->row_of = calloc(phases->count + 1, sizeof(*build->row_of));
  if (!build->row_of)
    return ENOMEM;
  for (size_t i = 0; i < phases->count; i++) {
    gp_phase_row_t *row = GP_HASH_TEXT(&by_name, use->rows, use->count, phases->phases[i].name, false);
    error = row ? 0 : ENOMEM;
    if (!row)
      break;
    build->row_of[i] = (size_t)(row - use->rows);
    row->times += phases->phases[i].times;
  }
  gp_hash_index_fini(&by_name);
  return error;
}

/* Iterates over a phase and the phases around it, innermost first. */
#define FOR_EACH_AROUND(build, phase, at)                                                                    \
  for (int32_t at = (phase); at >= 0; at = (build)->phases.phases[at].parent)

static void end_stay(build_t *build, walker_t *walker)
{
  FOR_EACH_AROUND(build, walker->phase, at)
  {
    gp_phase_row_t *row = &build->use->rows[build->row_of[at]];
    if (walker->highest > row->peak)
      row->peak = walker->highest;
  }
  walker->highest = build->held;
}

/* Returns true if the phase `now` is `at` or inside `at`. Then a thread that changes to `now` stays in
 * `at`. */
static bool is_inside(const build_t *build, int32_t at, int32_t now)
{
  FOR_EACH_AROUND(build, now, around)
  {
    if (around == at)
      return true;
  }
  return false;
}

/* Ends the phases that a thread leaves when it changes from `phase` to `next`. If both are equal, the program
 * repeated a mark, which ends the phase, too. */
static void end_phases(build_t *build, int32_t phase, int32_t next)
{
  FOR_EACH_AROUND(build, phase, at)
  {
    if (next != phase && is_inside(build, at, next))
      return;
    gp_phase_row_t *row = &build->use->rows[build->row_of[at]];
    if (!row->ends++)
      row->first_end = build->held;
    row->last_end = build->held;
    if (build->held > row->most_end)
      row->most_end = build->held;
  }
}

/* Processes the phase changes up to `time_ns`, which is the time of the next event. */
static void advance(build_t *build, uint64_t time_ns)
{
  for (size_t i = 0; i < build->walker_count; i++) {
    walker_t *walker = &build->walkers[i];
    while (walker->next < walker->changes->count && walker->changes->items[walker->next].time_ns <= time_ns) {
      const gp_phase_change_t *change = &walker->changes->items[walker->next++];
      end_stay(build, walker);
      if (change->time_ns > build->since_ns)
        end_phases(build, walker->phase, change->phase);
      walker->phase = change->phase;
    }
  }
}

static void count_left(build_t *build, const gp_life_t *life)
{
  int32_t phase = gp_phases_at(&build->phases, life->thread, life->begin_ns);
  FOR_EACH_AROUND(build, phase, at)
  {
    bool is_counted = false; /* true if a range of the same name inside this one was counted */
    for (int32_t inner = phase; inner != at; inner = build->phases.phases[inner].parent)
      is_counted = is_counted || build->row_of[inner] == build->row_of[at];
    gp_phase_row_t *row = &build->use->rows[build->row_of[at]];
    if (!is_counted)
      row->left = gp_add_saturated(row->left, life->requested);
  }
}

static bool counts(const gp_filter_t *filter, const gp_life_t *life)
{
  return life->kind != GP_LIFE_HOST && gp_lifetimes_has(filter, life);
}

/* Tracks the memory in use from event to event, and its peak in each phase. */
static void follow(build_t *build, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter)
{
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;
  gp_memory_walk_t walk;

  build->since_ns = lifetimes->end ? lifetimes->snapshot->recorded_since_ns : UINT64_MAX;
  gp_memory_walk_begin(&walk, lifetimes, filter, NULL, GP_REQUEST_ALL_DEVICES);
  build->held = gp_memory_requested(&walk.memory);
  while (walk.moment < lifetimes->end) {
    advance(build, (uint64_t)gp_snapshot_event(events, GP_COLUMN_TIME_NS, walk.moment, 0));
    gp_memory_walk_next(&walk);
    build->held = gp_memory_requested(&walk.memory);
    for (size_t k = 0; k < build->walker_count; k++) {
      if (build->held > build->walkers[k].highest)
        build->walkers[k].highest = build->held;
    }
  }
  advance(build, UINT64_MAX);
  for (size_t i = 0; i < build->walker_count; i++) {
    gp_assert(build->walkers[i].next == build->walkers[i].changes->count);
    end_stay(build, &build->walkers[i]);
  }
}

int gp_phase_use_init(gp_phase_use_t *use, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments)
{
  build_t build = {.use = use};

  *use = (gp_phase_use_t){.count = 0};
  int error = gp_phases_init(&build.phases, lifetimes->snapshot);
  if (!error)
    error = make_rows(&build);
  if (!error && use->count > 0) {
    build.walkers = calloc(build.phases.thread_count + 1, sizeof(*build.walkers));
    error = build.walkers ? 0 : ENOMEM;
  }
  if (!error && use->count > 0) {
    for (size_t i = 0; i < build.phases.thread_count; i++) {
      if (build.phases.threads[i].count > 0)
        build.walkers[build.walker_count++] = (walker_t){.changes = &build.phases.threads[i], .phase = -1};
    }
    if (build.phases.process.count > 0)
      build.walkers[build.walker_count++] = (walker_t){.changes = &build.phases.process, .phase = -1};
    follow(&build, lifetimes, filter);
    for (size_t i = 0; i < lifetimes->life_count; i++) {
      const gp_life_t *life = &lifetimes->lives[i];
      if (counts(filter, life) && gp_moments_hold(moments, life))
        count_left(&build, life);
    }
  }
  gp_phases_fini(&build.phases);
  free(build.row_of);
  free(build.walkers);
  return error;
}

void gp_phase_use_fini(gp_phase_use_t *use)
{
  free(use->rows);
  *use = (gp_phase_use_t){.count = 0};
}
