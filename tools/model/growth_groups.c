#include "tools/model/growth_groups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/model/growth_series.h"
#include "tools/symbols/frame_parts.h"
#include "tools/symbols/frame_text.h"
#include "tools/symbols/stack_owners.h"

#define NAME_BYTES 1024
#define SIZES      64 /* groups by size, each up to twice the size of the one before */

/* A function or, if its name says little, one of its lines. */
typedef struct place {
  char *name;       /* NULL: unknown */
  const char *file; /* "" if unknown; borrowed */
  char line[48];    /* if each line is an owner; else "" */
  size_t at;        /* its frame, in frame_indexes */
} place_t;

/* A stack and the name of its group. */
typedef struct named {
  size_t stack;
  place_t owner;
  place_t caller; /* set while owners are replaced */
  char *through;  /* the name before the last replacement; for a script, what it called; NULL: neither */
  bool is_script; /* its own frames are not recorded */
} named_t;

static int compare_texts(const char *a, const char *b)
{
  return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

/* Methods of several classes share a name, so the file counts, too. */
static int compare_places(const place_t *x, const place_t *y)
{
  int order = compare_texts(x->name, y->name);
  if (order || !x->name)
    return order;
  order = strcmp(x->file, y->file);
  return order ? order : strcmp(x->line, y->line);
}

static int compare_named(const void *a, const void *b)
{
  const named_t *x = a, *y = b;
  int order = compare_places(&x->owner, &y->owner);
  return order ? order : compare_texts(x->through, y->through);
}

/* Takes over name; NULL: there was no memory for it. */
static int set_place(const gp_snapshot_t *snapshot, size_t at, char *name, place_t *place)
{
  int index = snapshot->stacks.frame_indexes[at];
  const gp_snapshot_frame_t *frame = &snapshot->frames[index];
  int line = frame->file[0] ? frame->line : 0;
  gp_snapshot_frame_kind_t kind =
      snapshot->frame_kinds ? snapshot->frame_kinds[index] : gp_frame_kind_of(snapshot, index, NULL);

  *place = (place_t){.name = name, .file = frame->file, .at = at};
  if (kind.is_common)
    (void)snprintf(
        place->line, sizeof(place->line), "%d %llx", line, line ? 0ULL : (unsigned long long)frame->address);
  return name ? 0 : ENOMEM;
}

static char *name_at(const gp_snapshot_t *snapshot, size_t at)
{
  char buffer[NAME_BYTES];
  return strdup(gp_frame_function(snapshot, snapshot->stacks.frame_indexes[at], buffer, sizeof(buffer)));
}

/* Finds the caller beyond allocators and the owner itself. */
static int find_caller(const gp_snapshot_t *snapshot, named_t *named)
{
  size_t end = snapshot->stacks.first[named->stack + 1];
  for (size_t i = named->owner.at + 1; i < end && !named->is_script; i++) {
    if (gp_frame_is_allocator(snapshot, snapshot->stacks.frame_indexes[i]))
      continue;
    char *name = name_at(snapshot, i);
    if (!name || strcmp(name, named->owner.name) != 0)
      return set_place(snapshot, i, name, &named->caller);
    free(name);
  }
  return 0;
}

static void end_level(named_t *named, bool gives_way)
{
  if (gives_way && named->caller.name) {
    free(named->through);
    named->through = named->owner.name;
    named->owner = named->caller;
  } else {
    free(named->caller.name);
  }
  named->caller.name = NULL;
}

/* Replaces each owner that has several callers by those. named is sorted by name. */
static int give_way(const gp_snapshot_t *snapshot, named_t *named, size_t count, bool *ret_changed)
{
  int error = 0;
  *ret_changed = false;
  for (size_t i = 0; !error && i < count; i++)
    error = find_caller(snapshot, &named[i]);
  for (size_t first = 0, end; first < count; first = end) {
    bool differ = false;
    for (end = first + 1; end < count && compare_places(&named[first].owner, &named[end].owner) == 0; end++)
      differ = differ || compare_places(&named[first].caller, &named[end].caller) != 0;
    *ret_changed = *ret_changed || differ;
    for (size_t i = first; i < end; i++)
      end_level(&named[i], differ && !error);
  }
  return error;
}

/* Names the stack by its owner, as gp_owners_init tells owners apart. */
static int name_stack(const gp_snapshot_t *snapshot, size_t stack, size_t at, named_t *named)
{
  gp_owner_text_t text;

  (void)gp_stack_owner_text(snapshot, (int)stack, &text);
  *named = (named_t){.stack = stack, .is_script = text.language != NULL};
  if (set_place(snapshot, at, strdup(text.function), &named->owner))
    return ENOMEM;
  if (!named->is_script)
    return 0;
  named->owner.file = "";
  named->owner.line[0] = '\0';
  named->through = strdup(text.operation[0] ? text.operation : text.through);
  return named->through ? 0 : ENOMEM;
}

static int name_stacks(
    const gp_lifetimes_t *lifetimes, int levels, named_t *named, size_t *ret_count, int *ret_gave_way)
{
  const gp_snapshot_t *snapshot = lifetimes->snapshot;
  size_t stacks = snapshot->stacks.count;
  bool *is_used = calloc(stacks + 1, sizeof(*is_used));
  int error = is_used ? 0 : ENOMEM;

  *ret_count = 0;
  for (size_t i = 0; !error && i < lifetimes->life_count; i++) {
    if (lifetimes->lives[i].stack >= 0)
      is_used[lifetimes->lives[i].stack] = true;
  }
  for (size_t i = 0; !error && i < stacks; i++) {
    size_t at = is_used[i] ? gp_stack_owner_place(snapshot, (int)i) : SIZE_MAX;
    if (at == SIZE_MAX)
      continue;
    error = name_stack(snapshot, i, at, &named[*ret_count]);
    *ret_count += named[*ret_count].owner.name != NULL;
  }
  free(is_used);
  qsort(named, *ret_count, sizeof(*named), compare_named);
  bool changed = true;
  for (int level = 0; !error && changed && level < levels; level++) {
    error = give_way(snapshot, named, *ret_count, &changed);
    *ret_gave_way += changed;
    qsort(named, *ret_count, sizeof(*named), compare_named);
  }
  return error;
}

static bool is_first(const named_t *named, size_t i)
{
  return i == 0 || compare_named(&named[i - 1], &named[i]) != 0;
}

/* A script is one owner whatever it does, so it gets a kind for each size. */
static void add_kinds(gp_groups_t *groups, named_t *named)
{
  for (size_t i = 0; i < (named->is_script ? SIZES : 1); i++)
    groups->kinds[groups->kind_count++] = (gp_group_t){
        .by = named->is_script ? GP_GROWTH_BY_SIZE : GP_GROWTH_BY_OWNER, .stack = (int)named->stack};
}

/* Makes a kind of each name. kind_of: by stack; the first of a script's kinds. */
static int add_owners(gp_groups_t *groups, const gp_lifetimes_t *lifetimes, int levels, uint32_t *kind_of)
{
  const gp_snapshot_t *snapshot = lifetimes->snapshot;
  size_t stacks = snapshot->stacks.count, count = 0, kinds = SIZES;
  named_t *named = calloc(stacks + 1, sizeof(*named));
  groups->frames = malloc((stacks + 1) * sizeof(*groups->frames));
  int error =
      named && groups->frames ? name_stacks(lifetimes, levels, named, &count, &groups->gave_way) : ENOMEM;

  for (size_t i = 0; i < stacks; i++)
    kind_of[i] = GP_GROUP_NONE;
  for (size_t i = 0; !error && i < count; i++)
    kinds += !is_first(named, i) ? 0 : named[i].is_script ? SIZES : 1;
  if (!error) {
    groups->kinds = calloc(kinds, sizeof(*groups->kinds));
    error = groups->kinds ? 0 : ENOMEM;
  }
  for (size_t i = 0, first = 0; !error && i < count; i++) {
    if (is_first(named, i)) {
      first = groups->kind_count;
      add_kinds(groups, &named[i]);
    }
    kind_of[named[i].stack] = (uint32_t)first;
    groups->frames[named[i].stack] = snapshot->stacks.frame_indexes[named[i].owner.at];
  }
  /* Comparing is over: hands on the first name, with what it replaced. */
  for (size_t i = 0; i < count; i++) {
    gp_group_t *kind = error ? NULL : &groups->kinds[kind_of[named[i].stack]];
    if (kind && !kind->name && named[i].through && !named[i].is_script) {
      kind->name = named[i].owner.name;
      kind->through = named[i].through;
    } else {
      free(named[i].owner.name);
      free(named[i].through);
    }
  }
  free(named);
  return error;
}

static uint32_t size_kind(uint64_t size)
{
  uint32_t kind = 0;
  while (kind < SIZES - 1 && (UINT64_C(1) << kind) < size)
    kind++;
  return kind;
}

static int group_by_owner(gp_groups_t *groups, const gp_lifetimes_t *lifetimes, int levels)
{
  uint32_t *kind_of = malloc((lifetimes->snapshot->stacks.count + 1) * sizeof(*kind_of));
  int error = kind_of ? add_owners(groups, lifetimes, levels, kind_of) : ENOMEM;
  uint32_t first_size = (uint32_t)groups->kind_count;

  for (size_t i = 0; !error && i < SIZES; i++)
    groups->kinds[groups->kind_count++] = (gp_group_t){.by = GP_GROWTH_BY_SIZE, .stack = -1};
  for (size_t i = 0; !error && i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (groups->of[i] == GP_GROUP_NONE)
      continue;
    uint32_t kind = life->stack >= 0 ? kind_of[life->stack] : GP_GROUP_NONE;
    if (kind == GP_GROUP_NONE)
      kind = first_size;
    groups->of[i] = kind + (groups->kinds[kind].by == GP_GROWTH_BY_SIZE ? size_kind(life->requested) : 0);
  }
  free(kind_of);
  return error;
}

static int group_by_device(gp_groups_t *groups)
{
  groups->kinds = calloc(1, sizeof(*groups->kinds));
  if (!groups->kinds)
    return ENOMEM;
  groups->kinds[groups->kind_count++] = (gp_group_t){.by = GP_GROWTH_BY_SIZE, .stack = -1};
  return 0;
}

int gp_groups_init(
    gp_groups_t *groups, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, int levels)
{
  uint32_t devices = 0;

  *groups = (gp_groups_t){.count = 0};
  groups->of = malloc((lifetimes->life_count + 1) * sizeof(*groups->of));
  if (!groups->of)
    return ENOMEM;
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    bool is_wanted = life->kind != GP_LIFE_HOST && gp_lifetimes_has(filter, life);
    groups->of[i] = is_wanted ? 0 : GP_GROUP_NONE;
    if (is_wanted && life->device >= devices)
      devices = (uint32_t)life->device + 1;
  }
  int error =
      levels == GP_GROUPS_DEVICES ? group_by_device(groups) : group_by_owner(groups, lifetimes, levels);
  for (size_t i = 0; !error && i < lifetimes->life_count; i++) {
    if (groups->of[i] != GP_GROUP_NONE)
      groups->of[i] += lifetimes->lives[i].device * (uint32_t)groups->kind_count;
  }
  groups->count = devices * groups->kind_count;
  for (size_t i = 0; !error && i < lifetimes->life_count; i++)
    gp_assert_internal(groups->of[i] == GP_GROUP_NONE || groups->of[i] < groups->count);
  return error;
}

void gp_groups_fini(gp_groups_t *groups)
{
  for (size_t i = 0; groups->kinds && i < groups->kind_count; i++) {
    free(groups->kinds[i].name);
    free(groups->kinds[i].through);
  }
  free(groups->kinds);
  free(groups->frames);
  free(groups->of);
  *groups = (gp_groups_t){.count = 0};
}
