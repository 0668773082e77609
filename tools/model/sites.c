#include "tools/model/sites.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/hash_index.h"
#include "tools/model/component.h"
#include "tools/model/memory.h"
#include "tools/model/phases.h"
#include "tools/output.h"
#include "tools/saturated.h"
#include "tools/shorten.h"
#include "tools/symbols/frame_parts.h"
#include "tools/symbols/stack_owners.h"

#define NAME_BYTES GP_SITE_NAME_BYTES

/* Allocations that are counted together. They have the same stack, size (by size) or phase (by phase), or all
 * have no stack. */
typedef struct group {
  uint64_t size; /* used only if sites are by size */
  gp_site_amount_t amounts[GP_SITE_MEASURES];
} group_t;

typedef struct build {
  gp_sites_t *sites;
  const gp_lifetimes_t *lifetimes;
  const gp_snapshot_t *snapshot;
  group_t *stacks;       /* one group for each stack */
  group_t without_stack; /* unused if sites are by size */
  group_t *sizes;        /* one group for each size, if sites are by size */
  size_t size_count;
  gp_hash_index_t by_size; /* index of `sizes` */
  gp_phases_t phases;
  group_t *of_phases; /* one group for each phase, then one for memory allocated outside of all phases */
  group_t kinds[GP_COMPONENTS]; /* by component: allocations whose kind decides the component */
  gp_hash_index_t by_name;      /* index of sites by name */
  size_t *of_frame;             /* by frame: the index of its site plus one; 0: not looked up yet */
} build_t;

static void add(gp_site_amount_t *to, const gp_site_amount_t *amount)
{
  to->bytes = gp_add_saturated(to->bytes, amount->bytes);
  to->count += amount->count;
  to->freed += amount->freed;
}

static void add_all(gp_site_amount_t *to, const gp_site_amount_t *amounts)
{
  for (int measure = 0; measure < GP_SITE_MEASURES; measure++)
    add(&to[measure], &amounts[measure]);
}

static bool matches(const gp_snapshot_t *snapshot, int stack, const regex_t *pattern)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  for (size_t k = stacks->first[stack]; k < stacks->first[stack + 1]; k++) {
    const gp_snapshot_frame_t *frame = &snapshot->frames[stacks->frame_indexes[k]];
    const char *module = frame->module >= 0 ? snapshot->modules[frame->module].path : "";
    if (regexec(pattern, frame->function, 0, NULL, 0) == 0 ||
        regexec(pattern, frame->file, 0, NULL, 0) == 0 || regexec(pattern, module, 0, NULL, 0) == 0)
      return true;
  }
  return false;
}

/* Returns an array that is true for each stack that `focus` and `ignore` select. The last element is for
 * memory without a stack. Returns NULL if memory runs out. */
static bool *choose_stacks(const gp_snapshot_t *snapshot, const regex_t *focus, const regex_t *ignore)
{
  size_t count = snapshot->stacks.count;
  bool *wanted = calloc(count + 1, sizeof(*wanted));
  for (size_t i = 0; wanted && i < count; i++)
    wanted[i] =
        (!focus || matches(snapshot, (int)i, focus)) && !(ignore && matches(snapshot, (int)i, ignore));
  if (wanted)
    wanted[count] = !focus;
  return wanted;
}

static int list_phases(build_t *build)
{
  if (build->sites->by != GP_SITE_BY_PHASE)
    return 0;
  int error = gp_phases_init(&build->phases, build->snapshot);
  if (!error)
    build->of_phases = calloc(build->phases.count + 1, sizeof(*build->of_phases));
  return build->of_phases ? 0 : ENOMEM;
}

/* Returns the group of a life, or NULL if memory runs out. */
static group_t *group_of(build_t *build, const gp_life_t *life)
{
  if (build->sites->by == GP_SITE_BY_PHASE) {
    int32_t phase = gp_phases_at(&build->phases, life->thread, life->begin_ns);
    return &build->of_phases[phase >= 0 ? (size_t)phase : build->phases.count];
  }
  gp_component_t component = gp_component_of_kind(gp_life_what(life));
  if (build->sites->by == GP_SITE_BY_COMPONENT && component != GP_COMPONENT_UNKNOWN)
    return &build->kinds[component];
  if (build->sites->by != GP_SITE_BY_SIZE)
    return life->stack >= 0 ? &build->stacks[life->stack] : &build->without_stack;
  return GP_HASH_NUMBER(&build->by_size, build->sizes, build->size_count, life->requested);
}

static int count_lives(
    build_t *build, const gp_filter_t *filter, const gp_moments_t *moments, const bool *wanted)
{
  size_t none = build->snapshot->stacks.count;

  gp_moments_peak(&build->sites->peak, build->lifetimes, filter);
  build->stacks = calloc(none + 1, sizeof(*build->stacks));
  if (!build->stacks || list_phases(build))
    return ENOMEM;
  for (size_t i = 0; i < build->lifetimes->life_count; i++) {
    const gp_life_t *life = &build->lifetimes->lives[i];
    if (life->kind == GP_LIFE_HOST || !wanted[life->stack >= 0 ? (size_t)life->stack : none] ||
        !gp_lifetimes_has(filter, life))
      continue;
    const gp_site_amount_t one = {life->requested, 1, 0}, freed = {0, 0, 1};
    group_t *group = group_of(build, life);
    if (!group)
      return ENOMEM;
    add(&group->amounts[GP_SITE_TOTAL], &one);
    if (gp_moments_hold(moments, life))
      add(&group->amounts[GP_SITE_LIVE], &one);
    else if (gp_moments_freed(moments, life))
      add(&group->amounts[GP_SITE_LIVE], &freed);
    if (life->is_temporary)
      add(&group->amounts[GP_SITE_TEMPORARY], &one);
    if (gp_moments_hold(&build->sites->peak, life))
      add(&group->amounts[GP_SITE_PEAK], &one);
    else if (gp_moments_freed(&build->sites->peak, life))
      add(&group->amounts[GP_SITE_PEAK], &freed);
  }
  return 0;
}

/* Returns true if the code was compiled without -g. Only offsets distinguish such frames of one function. */
static bool lacks_line(const gp_snapshot_frame_t *frame)
{
  return frame->function[0] && !frame->file[0] && frame->module >= 0;
}

static char *frame_name(const gp_snapshot_t *snapshot, gp_site_by_t by, int frame, char *buffer)
{
  const gp_snapshot_frame_t *what = &snapshot->frames[frame];
  if (by == GP_SITE_BY_MODULE) {
    const char *path = what->module >= 0 ? snapshot->modules[what->module].path : "(no module)";
    snprintf(buffer, NAME_BYTES, "%s", gp_base_name(path));
    return buffer;
  }
  if (by == GP_SITE_BY_FUNCTION && snapshot->frame_kinds &&
      snapshot->frame_kinds[frame].is_python) { /* Python functions in different files often share a name */
    snprintf(buffer, NAME_BYTES, "%s %s", what->function, gp_base_name(what->file));
    return buffer;
  }
  if (by == GP_SITE_BY_LINE && lacks_line(what)) { /* the offset takes the place of the line */
    snprintf(buffer, NAME_BYTES, "%s %s+0x%" PRIx64, what->function,
        gp_base_name(snapshot->modules[what->module].path),
        what->address - snapshot->modules[what->module].bias);
    return buffer;
  }
  if (by == GP_SITE_BY_FUNCTION)
    return gp_frame_short_function(snapshot, frame, buffer, NAME_BYTES);
  return gp_frame_describe(snapshot, frame, buffer, NAME_BYTES);
}

/* Returns the index of the site `name`, and adds it if missing. Returns SIZE_MAX if memory runs out. */
static size_t site_of(build_t *build, const char *name)
{
  gp_sites_t *sites = build->sites;
  gp_site_t *site = GP_HASH_TEXT(&build->by_name, sites->sites, sites->count, name, true);
  return site ? (size_t)(site - sites->sites) : SIZE_MAX;
}

/* If the owner is a script whose frames were not recorded, no frame carries its name. Then the site's name is
 * the owner's text. */
char *gp_site_owner(const gp_snapshot_t *snapshot, int stack, gp_site_by_t by, char *buffer)
{
  int owner = gp_stack_owner(snapshot, stack);
  gp_owner_text_t text;

  if (owner < 0)
    return strcpy(buffer, GP_SITE_EMPTY);
  if (by == GP_SITE_BY_MODULE || !snapshot->owners || !snapshot->owners[stack].is_program)
    return frame_name(snapshot, by, owner, buffer);
  (void)gp_stack_owner_text(snapshot, stack, &text);
  return strcpy(buffer, text.function);
}

/* Returns true if the frame gets a site. An interpreter, dispatcher or allocator gets a site only if it is
 * the owner. Such frames are on nearly every stack and would fill the list. */
static bool is_listed(const build_t *build, int stack, int frame)
{
  const gp_snapshot_t *snapshot = build->snapshot;
  return build->sites->by == GP_SITE_BY_MODULE || !snapshot->frame_kinds ||
         snapshot->frame_kinds[frame].part < GP_FRAME_NEVER || gp_stack_owner(snapshot, stack) == frame;
}

/* Adds a stack's group to the sites of its frames. If a recursive function is on the stack several times, its
 * cumulative sum counts the group once. */
static int add_stack(build_t *build, const group_t *group, int stack)
{
  const gp_snapshot_stacks_t *stacks = &build->snapshot->stacks;
  char name[NAME_BYTES];

  for (size_t k = stacks->first[stack]; k < stacks->first[stack + 1]; k++) {
    int frame = stacks->frame_indexes[k];
    if (!is_listed(build, stack, frame))
      continue;
    if (!build->of_frame[frame])
      build->of_frame[frame] = site_of(build, frame_name(build->snapshot, build->sites->by, frame, name)) + 1;
    size_t at = build->of_frame[frame] - 1;
    if (at == SIZE_MAX)
      return ENOMEM;
    gp_assert_internal(at < build->sites->count);
    gp_site_t *caller = &build->sites->sites[at];
    if (caller->seen != (size_t)stack + 1)
      add_all(caller->cumulative, group->amounts);
    caller->seen = (size_t)stack + 1;
  }
  size_t at = site_of(build, gp_site_owner(build->snapshot, stack, build->sites->by, name));
  if (at == SIZE_MAX)
    return ENOMEM;
  gp_site_t *owner = &build->sites->sites[at];
  int frame = gp_stack_owner(build->snapshot, stack);
  build->sites->lacks_lines |=
      build->sites->by == GP_SITE_BY_LINE && frame >= 0 && lacks_line(&build->snapshot->frames[frame]);
  add_all(owner->flat, group->amounts);
  if (owner->seen != (size_t)stack + 1)
    add_all(owner->cumulative, group->amounts);
  return 0;
}

/* Adds a group to its component, and to the cumulative sums of all components on the stack. */
static int add_component(build_t *build, const group_t *group, gp_component_t component, int stack)
{
  bool there[GP_COMPONENTS];
  char name[NAME_BYTES];

  gp_component_callers(build->snapshot, stack, there);
  there[component] = true;
  for (int i = 0; i < GP_COMPONENTS; i++) {
    if (!there[i])
      continue;
    snprintf(name, sizeof(name), "%s", gp_component_name((gp_component_t)i));
    size_t site = site_of(build, name);
    if (site == SIZE_MAX)
      return ENOMEM;
    build->sites->sites[site].is_unknown = i == GP_COMPONENT_UNKNOWN;
    add_all(build->sites->sites[site].cumulative, group->amounts);
    if (i == (int)component)
      add_all(build->sites->sites[site].flat, group->amounts);
  }
  return 0;
}

/* Adds a group to the site of its size or, without is_of_size, to the site of memory without a stack. */
static int add_size(build_t *build, const group_t *group, bool is_of_size)
{
  char name[NAME_BYTES];
  if (is_of_size)
    snprintf(name, sizeof(name), "%s", GP_AS_SIZE(group->size));
  else
    snprintf(name, sizeof(name), GP_SITE_NO_STACK);
  size_t site = site_of(build, name);
  if (site == SIZE_MAX)
    return ENOMEM;
  build->sites->sites[site].is_unknown = !is_of_size;
  add_all(build->sites->sites[site].flat, group->amounts);
  add_all(build->sites->sites[site].cumulative, group->amounts);
  return 0;
}

/* Adds a group to its phase, and to the cumulative sums of the ranges around it. Nested ranges of the same
 * name count the group once. */
static int add_phase(build_t *build, const group_t *group, int32_t phase)
{
  bool is_own = true;
  for (int32_t at = phase;; at = build->phases.phases[at].parent, is_own = false) {
    size_t site = site_of(build, at < 0 ? GP_SITE_NO_PHASE : build->phases.phases[at].name);
    if (site == SIZE_MAX)
      return ENOMEM;
    gp_site_t *there = &build->sites->sites[site];
    there->is_unknown = at < 0;
    if (is_own)
      add_all(there->flat, group->amounts);
    if (there->seen != (size_t)phase + 2)
      add_all(there->cumulative, group->amounts);
    there->seen = (size_t)phase + 2;
    if (at < 0 || build->phases.phases[at].parent < 0)
      return 0;
  }
}

static int make_sites(build_t *build)
{
  gp_sites_t *sites = build->sites;
  build->of_frame = calloc(build->snapshot->frame_count + 1, sizeof(*build->of_frame));
  if (!build->of_frame)
    return ENOMEM;
  int error = 0;
  for (size_t i = 0; !error && i < build->snapshot->stacks.count; i++) {
    const group_t *group = &build->stacks[i];
    if (!group->amounts[GP_SITE_TOTAL].count)
      continue;
    error = sites->by == GP_SITE_BY_COMPONENT
                ? add_component(build, group, gp_component_of_stack(build->snapshot, (int)i), (int)i)
                : add_stack(build, group, (int)i);
  }
  for (int i = 0; !error && i < GP_COMPONENTS; i++) {
    if (build->kinds[i].amounts[GP_SITE_TOTAL].count)
      error = add_component(build, &build->kinds[i], (gp_component_t)i, -1);
  }
  if (!error && build->without_stack.amounts[GP_SITE_TOTAL].count)
    error = add_size(build, &build->without_stack, false);
  for (size_t i = 0; !error && i < build->size_count; i++)
    error = add_size(build, &build->sizes[i], true);
  for (size_t i = 0; !error && build->of_phases && i <= build->phases.count; i++) {
    if (build->of_phases[i].amounts[GP_SITE_TOTAL].count)
      error = add_phase(build, &build->of_phases[i], i < build->phases.count ? (int32_t)i : -1);
  }
  for (size_t i = 0; i < sites->count; i++)
    add_all(sites->sums, sites->sites[i].flat);
  return error;
}

/* Returns true if each site satisfies the invariants in sites.h. */
static bool are_sound(const gp_sites_t *sites)
{
  for (size_t i = 0; i < sites->count; i++) {
    const gp_site_t *site = &sites->sites[i];
    for (int measure = 0; measure < GP_SITE_MEASURES; measure++) {
      if (site->flat[measure].count > site->cumulative[measure].count ||
          site->flat[measure].count > site->flat[GP_SITE_TOTAL].count)
        return false;
    }
  }
  return true;
}

static int keep_stacks(const build_t *build)
{
  size_t count = build->snapshot->stacks.count;
  build->sites->stacks = calloc(count + 1, sizeof(*build->sites->stacks));
  for (size_t i = 0; build->sites->stacks && i < count; i++)
    memcpy(build->sites->stacks[i], build->stacks[i].amounts, sizeof(build->stacks[i].amounts));
  return build->sites->stacks ? 0 : ENOMEM;
}

static bool has_stacks(const gp_lifetimes_t *lifetimes)
{
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    if (lifetimes->lives[i].stack >= 0)
      return true;
  }
  return false;
}

int gp_sites_init(gp_sites_t *sites, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter,
    const gp_moments_t *moments, gp_site_by_t by, const regex_t *focus, const regex_t *ignore)
{
  build_t build = {.sites = sites, .lifetimes = lifetimes, .snapshot = lifetimes->snapshot};
  *sites = (gp_sites_t){.by = by == GP_SITE_BY_COMPONENT || by == GP_SITE_BY_PHASE || has_stacks(lifetimes)
                                  ? by
                                  : GP_SITE_BY_SIZE};
  bool *wanted = choose_stacks(lifetimes->snapshot, focus, ignore);
  int error = wanted ? count_lives(&build, filter, moments, wanted) : ENOMEM;
  if (!error)
    error = make_sites(&build);
  if (!error && sites->by != GP_SITE_BY_SIZE)
    error = keep_stacks(&build);
  gp_assert_full(error || are_sound(sites));
  gp_hash_index_fini(&build.by_name);
  free(wanted);
  free(build.stacks);
  free(build.sizes);
  gp_hash_index_fini(&build.by_size);
  free(build.of_phases);
  gp_phases_fini(&build.phases);
  free(build.of_frame);
  return error;
}

void gp_sites_fini(gp_sites_t *sites)
{
  for (size_t i = 0; i < sites->count; i++)
    free(sites->sites[i].name);
  free(sites->sites);
  free(sites->stacks);
  *sites = (gp_sites_t){0};
}

size_t gp_site_peaks(
    const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, gp_site_peak_t ret_peaks[GP_SNAPSHOT_DEVICES])
{
  bool seen[GP_SNAPSHOT_DEVICES] = {false};
  size_t count = 0;

  for (size_t i = 0; i < lifetimes->life_count; i++)
    seen[lifetimes->lives[i].device] = true;
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    if (!seen[device] || !gp_filter_has_device(filter, device))
      continue;
    gp_site_peak_t *peak = &ret_peaks[count++];
    *peak = (gp_site_peak_t){.device = device};
    uint32_t moment = gp_memory_peak(lifetimes, filter, device, &peak->bytes);
    peak->time_ns = gp_memory_time(lifetimes, moment);
    peak->is_before = moment == 0;
  }
  return count;
}

typedef struct order {
  gp_site_measure_t measure;
  bool by_count;
} order_t;

static uint64_t amount_of(const gp_site_amount_t *amount, const order_t *order)
{
  return order->by_count ? amount->count : amount->bytes;
}

static int compare_sites(const void *a, const void *b, void *arg)
{
  const gp_site_t *x = a, *y = b;
  const order_t *order = arg;
  bool is_empty[] = {amount_of(&x->cumulative[order->measure], order) == 0,
      amount_of(&y->cumulative[order->measure], order) == 0};
  if (is_empty[0] != is_empty[1])
    return is_empty[0] ? 1 : -1;
  if (x->is_unknown != y->is_unknown) /* memory without a stack comes later */
    return x->is_unknown ? 1 : -1;
  const gp_site_amount_t *pairs[][2] = {{&x->flat[order->measure], &y->flat[order->measure]},
      {&x->cumulative[order->measure], &y->cumulative[order->measure]}};
  for (size_t i = 0; i < 2; i++) {
    uint64_t one = amount_of(pairs[i][0], order), other = amount_of(pairs[i][1], order);
    if (one != other)
      return one > other ? -1 : 1;
  }
  return strcmp(x->name, y->name);
}

void gp_sites_sort(gp_sites_t *sites, gp_site_measure_t measure, bool by_count)
{
  order_t order = {measure, by_count};
  if (sites->count > 0)
    qsort_r(sites->sites, sites->count, sizeof(*sites->sites), compare_sites, &order);
}
