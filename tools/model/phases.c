#include "tools/model/phases.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "format/marks.h"
#include "tools/array.h"
#include "tools/model/filter.h"

/* A range of the process that is still open. */
typedef struct open_range {
  uint64_t scope;
  int32_t phase; /* phase of the newest mark inside the range, or the range's own */
} open_range_t;

typedef struct build {
  gp_phases_t *phases;
  open_range_t *open; /* oldest first; open[0] is not a range, but collects the marks outside of ranges */
  size_t open_count;
} build_t;

static uint64_t hash_phase(const gp_phase_t *phase)
{
  return gp_hash_bytes(gp_hash_text(GP_HASH_FIRST, phase->name), &phase->parent, sizeof(phase->parent));
}

static uint64_t hash_of(const void *self, size_t item)
{
  return hash_phase(&((const gp_phases_t *)self)->phases[item]);
}

static bool is_phase(const void *self, size_t item, const void *key)
{
  const gp_phase_t *phase = &((const gp_phases_t *)self)->phases[item];
  const gp_phase_t *wanted = key;
  return phase->parent == wanted->parent && strcmp(phase->name, wanted->name) == 0;
}

/* Begins a phase: adds it if missing, and counts it. Returns its index, or -1 if memory runs out. */
static int32_t begin_phase(gp_phases_t *phases, const char *name, int32_t parent)
{
  const gp_phase_t key = {.name = name, .parent = parent};
  gp_assert(parent >= -1 && parent < (int32_t)phases->count);

  if (!gp_hash_index_reserve(&phases->by_name, hash_of, phases))
    return -1;
  uint32_t *slot = gp_hash_index_slot(&phases->by_name, hash_phase(&key), is_phase, phases, &key);
  if (*slot) {
    phases->phases[*slot - 1].times++;
    return (int32_t)(*slot - 1);
  }
  gp_phase_t *phase = GP_ARRAY_ADD(phases->phases, phases->count);
  if (!phase)
    return -1;
  *phase = key;
  phase->times = 1;
  gp_hash_index_put(&phases->by_name, slot, phases->count - 1);
  return (int32_t)(phases->count - 1);
}

static int32_t last_of(const gp_phase_changes_t *changes)
{
  return changes->count ? changes->items[changes->count - 1].phase : -1;
}

static bool change(gp_phase_changes_t *changes, uint64_t time_ns, int32_t phase)
{
  gp_assert(changes->count == 0 || changes->items[changes->count - 1].time_ns <= time_ns);
  gp_phase_change_t *item = GP_ARRAY_ADD(changes->items, changes->count);
  if (item)
    *item = (gp_phase_change_t){time_ns, phase};
  return item;
}

/* Processes a range that a thread pushed or popped. Ignores a pop whose push is too old to be in the
 * snapshot. Returns false if memory runs out. */
static bool step_thread(
    gp_phases_t *phases, size_t thread, gp_mark_kind_t kind, const char *name, uint64_t time_ns)
{
  gp_phase_changes_t *changes = &phases->threads[thread];
  int32_t now = last_of(changes);

  if (kind == GP_MARK_PUSH) {
    int32_t next = begin_phase(phases, name, now);
    return next >= 0 && change(changes, time_ns, next);
  }
  return now < 0 || change(changes, time_ns, phases->phases[now].parent);
}

static bool step_process(
    build_t *build, gp_mark_kind_t kind, const char *name, uint64_t scope, uint64_t time_ns)
{
  if (kind == GP_MARK_END) {
    size_t at = build->open_count;
    while (at > 1 && build->open[at - 1].scope != scope)
      at--;
    if (at == 1)
      return true;
    build->open_count--;
    memmove(&build->open[at - 1], &build->open[at], (build->open_count - (at - 1)) * sizeof(build->open[0]));
  } else {
    int32_t phase = begin_phase(build->phases, name, -1);
    if (phase < 0 || (kind == GP_MARK_BEGIN && !GP_ARRAY_ADD(build->open, build->open_count)))
      return false;
    open_range_t *newest = &build->open[build->open_count - 1];
    if (kind == GP_MARK_BEGIN)
      newest->scope = scope;
    newest->phase = phase;
  }
  gp_assert(build->open_count > 0); /* open[0] is never removed */
  return change(&build->phases->process, time_ns, build->open[build->open_count - 1].phase);
}

static bool read_marks(build_t *build, const cJSON *list)
{
  gp_phases_t *phases = build->phases;
  const cJSON *item;
  uint64_t last_ns = 0;
  bool good = true;

  cJSON_ArrayForEach(item, list)
  {
    uint64_t time_ns, thread, scope = 0;
    gp_mark_kind_t kind;
    const char *name = gp_snapshot_text(item, "name");
    if (!gp_mark_kind_find(gp_snapshot_text(item, "kind"), &kind) ||
        gp_snapshot_uint(item, "time_ns", &time_ns) != 1 || gp_snapshot_uint(item, "thread", &thread) != 1 ||
        thread >= phases->thread_count || time_ns < last_ns)
      continue;
    last_ns = time_ns;
    if (kind == GP_MARK_PUSH || kind == GP_MARK_POP)
      good = step_thread(phases, (size_t)thread, kind, name, time_ns);
    else if (kind == GP_MARK_MOMENT || gp_snapshot_uint(item, "scope", &scope) == 1)
      good = step_process(build, kind, name, scope, time_ns);
    if (!good)
      return false;
  }
  return true;
}

int gp_phases_init(gp_phases_t *phases, const gp_snapshot_t *snapshot)
{
  build_t build = {.phases = phases};
  const cJSON *threads = cJSON_GetObjectItemCaseSensitive(snapshot->root, "threads");

  *phases = (gp_phases_t){.thread_count = (size_t)cJSON_GetArraySize(threads)};
  phases->threads = calloc(phases->thread_count + 1, sizeof(*phases->threads));
  open_range_t *outside = GP_ARRAY_ADD(build.open, build.open_count);
  if (outside)
    outside->phase = -1;
  bool good = phases->threads && outside &&
              read_marks(&build, cJSON_GetObjectItemCaseSensitive(snapshot->root, "marks"));
  free(build.open);
  return good ? 0 : ENOMEM;
}

void gp_phases_fini(gp_phases_t *phases)
{
  for (size_t i = 0; phases->threads && i < phases->thread_count; i++)
    free(phases->threads[i].items);
  free(phases->threads);
  free(phases->process.items);
  free(phases->phases);
  gp_hash_index_fini(&phases->by_name);
  *phases = (gp_phases_t){0};
}

static int32_t find(const gp_phase_changes_t *changes, uint64_t time_ns)
{
  size_t low = 0, high = changes->count; /* search for the first change after time_ns */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (changes->items[middle].time_ns <= time_ns)
      low = middle + 1;
    else
      high = middle;
  }
  return low ? changes->items[low - 1].phase : -1;
}

int32_t gp_phases_at(const gp_phases_t *phases, int thread, uint64_t time_ns)
{
  if (thread == GP_FILTER_UNKNOWN)
    return -1;
  int32_t own =
      thread >= 0 && (size_t)thread < phases->thread_count ? find(&phases->threads[thread], time_ns) : -1;
  return own >= 0 ? own : find(&phases->process, time_ns);
}

static uint64_t time_in_phases(const gp_phase_changes_t *changes, uint64_t until_ns)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < changes->count && changes->items[i].time_ns < until_ns; i++) {
    uint64_t end_ns = i + 1 < changes->count ? changes->items[i + 1].time_ns : until_ns;
    if (changes->items[i].phase >= 0)
      sum += (end_ns < until_ns ? end_ns : until_ns) - changes->items[i].time_ns;
  }
  return sum;
}

const gp_phase_changes_t *gp_phases_main(const gp_phases_t *phases, uint64_t until_ns)
{
  const gp_phase_changes_t *found = &phases->process;
  uint64_t longest = time_in_phases(found, until_ns);
  for (size_t i = 0; i < phases->thread_count; i++) {
    uint64_t time_ns = time_in_phases(&phases->threads[i], until_ns);
    if (time_ns <= longest)
      continue;
    found = &phases->threads[i];
    longest = time_ns;
  }
  return found;
}
