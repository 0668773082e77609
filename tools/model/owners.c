#include "tools/model/owners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/model/memory.h"
#include "tools/model/saturated.h"
#include "tools/symbols/frame_text.h"

#define NAME_BYTES    1024
#define HELPER_SHARE  0.75 /* an owner of that much gives way to its callers */
#define CALLERS_SHARE 0.5  /* which the largest callers have to explain that much of, or else it stays */
#define MOST_LEVELS   16

/* What one stack holds, and the frame of it that is named for that. */
typedef struct share {
  size_t at;  /* place in frame_indexes */
  size_t end; /* of the stack */
  uint64_t bytes;
  char *name;
  char *caller; /* the caller, while owners give way; NULL: none is known */
  size_t caller_at;
  char *through; /* the name before */
} share_t;

typedef struct build {
  const gp_snapshot_t *snapshot;
  share_t *shares;
  size_t count;
  uint64_t sum;
} build_t;

/* Shares of one name. */
typedef struct group {
  size_t first;
  size_t end;
  uint64_t bytes;
} group_t;

static char *name_at(const build_t *build, size_t at)
{
  char buffer[NAME_BYTES];
  return strdup(
      gp_frame_function(build->snapshot, build->snapshot->stacks.frame_indexes[at], buffer, sizeof(buffer)));
}

static int measure(
    build_t *build, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, gp_site_measure_t measure)
{
  const gp_snapshot_stacks_t *stacks = &build->snapshot->stacks;
  uint32_t moments[GP_SNAPSHOT_DEVICES] = {0};
  uint64_t bytes;

  for (int device = 0; measure == GP_SITE_PEAK && device < GP_SNAPSHOT_DEVICES; device++) {
    if (gp_filter_has_device(filter, device))
      moments[device] = gp_memory_peak(lifetimes, filter, device, &bytes);
  }
  uint64_t *held = calloc(stacks->count + 1, sizeof(*held));
  build->shares = calloc(stacks->count + 1, sizeof(*build->shares));
  if (!held || !build->shares) {
    free(held);
    return ENOMEM;
  }
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    bool is_held = measure == GP_SITE_PEAK ? gp_life_is_held_at(life, moments[life->device]) : life->is_held;
    if (is_held && life->stack >= 0 && life->kind != GP_LIFE_HOST && gp_lifetimes_has(filter, life))
      held[life->stack] = gp_add_saturated(held[life->stack], life->requested);
  }
  int error = 0;
  for (size_t i = 0; i < stacks->count && !error; i++) {
    size_t at = gp_stack_owner_place(build->snapshot, (int)i);
    if (!held[i] || at == SIZE_MAX)
      continue;
    share_t *share = &build->shares[build->count++];
    *share = (share_t){.at = at, .end = stacks->first[i + 1], .bytes = held[i], .name = name_at(build, at)};
    build->sum = gp_add_saturated(build->sum, held[i]);
    error = share->name ? 0 : ENOMEM;
  }
  free(held);
  return error;
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(((const share_t *)a)->name, ((const share_t *)b)->name);
}

static int compare_callers(const void *a, const void *b)
{
  const share_t *x = a, *y = b;
  if (!x->caller || !y->caller)
    return !x->caller - !y->caller;
  return strcmp(x->caller, y->caller);
}

/* Groups by name, or within [first, end) by caller; the largest of them, at most GP_OWNERS. Shares are sorted
 * so. */
static size_t largest_groups(const build_t *build, size_t first, size_t end,
    int (*compare)(const void *, const void *), group_t *ret_groups)
{
  size_t count = 0;
  while (first < end) {
    group_t group = {first, first, 0};
    while (group.end < end && compare(&build->shares[first], &build->shares[group.end]) == 0)
      group.bytes = gp_add_saturated(group.bytes, build->shares[group.end++].bytes);
    size_t at = count;
    while (at > 0 && ret_groups[at - 1].bytes < group.bytes)
      at--;
    if (at < GP_OWNERS) {
      count += count < GP_OWNERS;
      memmove(&ret_groups[at + 1], &ret_groups[at], (count - 1 - at) * sizeof(group));
      ret_groups[at] = group;
    }
    first = group.end;
  }
  return count;
}

static void drop_callers(const build_t *build, const group_t *group)
{
  for (size_t i = group->first; i < group->end; i++) {
    free(build->shares[i].caller);
    build->shares[i].caller = NULL;
  }
}

/* Past what only hands memory on, and past itself. */
static int find_callers(const build_t *build, const group_t *group)
{
  for (size_t i = group->first; i < group->end; i++) {
    share_t *share = &build->shares[i];
    for (size_t at = share->at + 1; at < share->end && !share->caller; at++) {
      if (gp_frame_is_allocator(build->snapshot, build->snapshot->stacks.frame_indexes[at]))
        continue;
      char *name = name_at(build, at);
      if (!name)
        return ENOMEM;
      if (strcmp(name, share->name) == 0) {
        free(name);
        continue;
      }
      share->caller = name;
      share->caller_at = at;
    }
  }
  return 0;
}

/* Names the callers of a group in its place, if there are several and a few of them explain most of it. */
static int give_way(build_t *build, const group_t *group, bool *ret_changed)
{
  group_t callers[GP_OWNERS];
  uint64_t known = 0;

  *ret_changed = false;
  if (find_callers(build, group)) {
    drop_callers(build, group);
    return ENOMEM;
  }
  qsort(&build->shares[group->first], group->end - group->first, sizeof(*build->shares), compare_callers);
  size_t count = largest_groups(build, group->first, group->end, compare_callers, callers);
  for (size_t i = 0; i < count; i++)
    known = gp_add_saturated(known, build->shares[callers[i].first].caller ? callers[i].bytes : 0);
  if (count < 2 || (double)known < CALLERS_SHARE * (double)group->bytes) {
    drop_callers(build, group);
    return 0;
  }
  for (size_t i = group->first; i < group->end; i++) {
    share_t *share = &build->shares[i];
    if (!share->caller)
      continue;
    free(share->through);
    share->through = share->name;
    share->name = share->caller;
    share->at = share->caller_at;
    share->caller = NULL;
  }
  *ret_changed = true;
  return 0;
}

static int find(build_t *build, size_t *ret_count, group_t *ret_groups)
{
  bool changed = true;
  int error = 0;

  for (int level = 0; !error && changed; level++) {
    qsort(build->shares, build->count, sizeof(*build->shares), compare_names);
    *ret_count = largest_groups(build, 0, build->count, compare_names, ret_groups);
    changed = (level < MOST_LEVELS) && (*ret_count > 0) &&
              (double)ret_groups[0].bytes >= HELPER_SHARE * (double)build->sum;
    if (changed)
      error = give_way(build, &ret_groups[0], &changed);
  }
  return error;
}

int gp_owners_init(gp_owners_t *owners, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    gp_site_measure_t measured)
{
  build_t build = {.snapshot = lifetimes->snapshot};
  group_t groups[GP_OWNERS];
  size_t count = 0;

  *owners = (gp_owners_t){.count = 0};
  int error = measure(&build, lifetimes, filter, measured);
  if (!error)
    error = find(&build, &count, groups);
  for (size_t i = 0; !error && i < count; i++) {
    share_t *share = &build.shares[groups[i].first];
    owners->owners[owners->count++] =
        (gp_owner_t){.function = share->name, .through = share->through, .bytes = groups[i].bytes};
    share->name = NULL; /* they are the owner's now */
    share->through = NULL;
  }
  for (size_t i = 0; i < build.count; i++) {
    free(build.shares[i].name);
    free(build.shares[i].through);
  }
  free(build.shares);
  return error;
}

void gp_owners_fini(gp_owners_t *owners)
{
  for (size_t i = 0; i < owners->count; i++) {
    free(owners->owners[i].function);
    free(owners->owners[i].through);
  }
  *owners = (gp_owners_t){.count = 0};
}
