#include "tools/symbols/wrappers.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/hash_index.h"
#include "tools/symbols/frame_parts.h"

#define WRAPPER_SHARE 0.75 /* a function that owns this share may be a wrapper, ... */
#define CALLERS_SHARE 0.5  /* ... if its largest callers account for this share of the function's bytes */
#define CALLERS       3    /* number of largest callers that are counted */
#define MOST_LEVELS   16
#define NONE          (-1)

typedef struct build {
  const gp_snapshot_t *snapshot;
  const gp_snapshot_frame_kind_t *kinds;
  gp_snapshot_owner_t *owners;
  double *weights; /* by stack: bytes that the stack requested */
  int *names;      /* by frame: first frame of the same function, which identifies the function */
  int *places;     /* by stack: place of the caller that is tried as the owner; NONE: no more callers */
  double *sums;    /* by function (as in `names`): bytes */
  bool at_lines;   /* each line of main, or of a script's top level, is a separate caller */
} build_t;

static uint64_t hash_frame(const void *self, size_t item)
{
  const build_t *build = self;
  const gp_snapshot_frame_t *frame = &build->snapshot->frames[item];
  uint64_t hash = gp_hash_text(GP_HASH_FIRST, frame->function);
  if (build->kinds[item].is_python)
    hash = gp_hash_text(hash, frame->file);
  return frame->function[0] ? hash : hash ^ frame->address ^ (uint64_t)frame->module << 48;
}

/* Returns true if two frames belong to the same function, by its name. Compares files, too, for Python,
 * because names such as "forward" are common. */
static bool is_same_function(const void *self, size_t a, const void *key)
{
  const build_t *build = self;
  size_t b = *(const size_t *)key;
  const gp_snapshot_frame_t *x = &build->snapshot->frames[a], *y = &build->snapshot->frames[b];
  if (build->kinds[a].is_python != build->kinds[b].is_python || strcmp(x->function, y->function) != 0)
    return false;
  if (!x->function[0])
    return x->address == y->address && x->module == y->module;
  return !build->kinds[a].is_python || strcmp(x->file, y->file) == 0;
}

static int number_functions(build_t *build)
{
  gp_hash_index_t index = {.count = 0};
  int error = 0;
  for (size_t i = 0; i < build->snapshot->frame_count; i++) {
    if (!gp_hash_index_reserve(&index, hash_frame, build)) {
      error = ENOMEM;
      break;
    }
    uint32_t *slot = gp_hash_index_slot(&index, hash_frame(build, i), is_same_function, build, &i);
    if (!*slot)
      gp_hash_index_put(&index, slot, i);
    build->names[i] = (int)*slot - 1;
  }
  gp_hash_index_fini(&index);
  return error;
}

static void add_weight(const build_t *build, int64_t stack, uint64_t bytes)
{
  if (stack >= 0 && (uint64_t)stack < build->snapshot->stacks.count)
    build->weights[stack] += (double)bytes;
}

/* Sets each stack's weight to its bytes in use at the end. With `is_total`, adds all bytes that the stack
 * ever requested. If there are no bytes, all stacks get the same weight. Returns false if nothing is in use,
 * unless `is_total` is true. */
static bool weigh(const build_t *build, bool is_total)
{
  const gp_snapshot_t *snapshot = build->snapshot;
  const gp_snapshot_events_t *events = &snapshot->events;
  double sum = 0;

  memset(build->weights, 0, snapshot->stacks.count * sizeof(*build->weights));
  for (size_t i = 0; is_total && i < events->count && events->columns[GP_COLUMN_STACK]; i++) {
    gp_event_kind_t kind = gp_snapshot_event_kind(events, i);
    if (kind == GP_EVENT_ALLOC || kind == GP_EVENT_FORWARDED_ALLOC)
      add_weight(build, gp_snapshot_event(events, GP_COLUMN_STACK, i, -1),
          gp_snapshot_event_uint(events, GP_COLUMN_SIZE, i));
  }
  for (size_t i = 0; i < snapshot->block_count; i++) {
    if (snapshot->blocks[i].state == GP_SNAPSHOT_ALLOCATED)
      add_weight(build, snapshot->blocks[i].stack, snapshot->blocks[i].requested);
  }
  for (size_t i = 0; i < snapshot->forwarded_count; i++)
    add_weight(build, snapshot->forwarded[i].stack, snapshot->forwarded[i].size);
  for (size_t i = 0; i < snapshot->stacks.count; i++)
    sum += build->weights[i];
  for (size_t i = 0; sum == 0 && i < snapshot->stacks.count; i++)
    build->weights[i] = 1;
  return sum > 0 || is_total;
}

static int frame_at(const build_t *build, size_t stack, int place)
{
  return build->snapshot->stacks.frame_indexes[build->snapshot->stacks.first[stack] + (size_t)place];
}

/* Returns the place of the next user's function outwards that is not the function at `place`, or NONE. */
static int next_function(const build_t *build, size_t stack, int place)
{
  int frame = frame_at(build, stack, place);
  int end = (int)(build->snapshot->stacks.first[stack + 1] - build->snapshot->stacks.first[stack]);
  for (int k = place + 1; k < end; k++) {
    int caller = frame_at(build, stack, k);
    if (build->kinds[caller].part == GP_FRAME_OWNER &&
        build->kinds[caller].is_python == build->kinds[frame].is_python &&
        build->names[caller] != build->names[frame])
      return k;
  }
  return NONE;
}

/* Returns true if the frame is the outermost function of the user, in which the program or a thread begins,
 * and has a name. Such a function is a less helpful owner than the function that it called. */
static bool is_beginning(const build_t *build, size_t stack, int place)
{
  return build->snapshot->frames[frame_at(build, stack, place)].function[0] &&
         next_function(build, stack, place) == NONE;
}

/* Returns true if all callers at build->places are the same function, in which a program or thread begins. */
static bool is_one_beginning(const build_t *build)
{
  int name = NONE;
  for (size_t i = 0; i < build->snapshot->stacks.count; i++) {
    if (build->places[i] == NONE)
      continue;
    int caller = build->names[frame_at(build, i, build->places[i])];
    if (!is_beginning(build, i, build->places[i]) || (name != NONE && caller != name))
      return false;
    name = caller;
  }
  return true;
}

static int name_of(const build_t *build, size_t stack, int place)
{
  int frame = frame_at(build, stack, place);
  return build->at_lines && build->kinds[frame].is_root ? frame : build->names[frame];
}

/* Returns true if callers of the stack's owner may become owners. This is false if the owner is not the
 * user's code, or is a script without frames. */
static bool is_users(const build_t *build, size_t stack)
{
  const gp_snapshot_owner_t *owner = &build->owners[stack];
  return build->weights[stack] > 0 && owner->place >= 0 && !owner->is_program &&
         build->kinds[frame_at(build, stack, owner->place)].part == GP_FRAME_OWNER;
}

/* Returns the function that owns the most bytes, or NONE. Sets *ret_sum to the bytes of all functions. */
static int find_largest(build_t *build, double *ret_sum)
{
  int largest = NONE;
  *ret_sum = 0;
  build->at_lines = false;
  memset(build->sums, 0, build->snapshot->frame_count * sizeof(*build->sums));
  for (size_t i = 0; i < build->snapshot->stacks.count; i++) {
    if (build->owners[i].place < 0)
      continue;
    int name = name_of(build, i, build->owners[i].place);
    build->sums[name] += build->weights[i];
    *ret_sum += build->weights[i];
    if (largest < 0 || build->sums[name] > build->sums[largest])
      largest = name;
  }
  return largest;
}

/* Returns the number of different callers at build->places. *ret_most is the bytes of the CALLERS largest. */
static size_t tally(build_t *build, double *ret_most)
{
  double most[CALLERS] = {0};
  size_t count = 0;

  memset(build->sums, 0, build->snapshot->frame_count * sizeof(*build->sums));
  for (size_t i = 0; i < build->snapshot->stacks.count; i++) {
    if (build->places[i] != NONE)
      build->sums[name_of(build, i, build->places[i])] += build->weights[i];
  }
  for (size_t i = 0; i < build->snapshot->frame_count; i++) {
    double bytes = build->sums[i];
    count += bytes > 0;
    for (size_t k = 0; k < CALLERS; k++) {
      if (bytes > most[k]) {
        double other = most[k];
        most[k] = bytes;
        bytes = other;
      }
    }
  }
  *ret_most = 0;
  for (size_t k = 0; k < CALLERS; k++)
    *ret_most += most[k];
  return count;
}

/* Goes outwards from the stacks of one owner until these have several callers. Returns true if the callers
 * are now the owners. */
static bool give_way(build_t *build, int name, double bytes)
{
  size_t stacks = build->snapshot->stacks.count, callers = 1;
  double most = 0;

  build->at_lines = false;
  for (size_t i = 0; i < stacks; i++) {
    build->places[i] = NONE;
    if (is_users(build, i) && name_of(build, i, build->owners[i].place) == name)
      build->places[i] = build->owners[i].place;
  }
  while (callers == 1) {
    for (size_t i = 0; i < stacks; i++) {
      if (build->places[i] != NONE)
        build->places[i] = next_function(build, i, build->places[i]);
    }
    if (build->kinds[name].form != GP_FRAME_TEMPLATE && is_one_beginning(build))
      return false;
    build->at_lines = true;
    callers = tally(build, &most);
  }
  if (callers == 0 || most < CALLERS_SHARE * bytes)
    return false;
  for (size_t i = 0; i < stacks; i++) {
    if (build->places[i] != NONE)
      build->owners[i].place = build->places[i];
  }
  return true;
}

/* Replaces wrappers by their callers. A wrapper may own nearly all memory in use but a small part of all
 * requested memory, or the opposite. `is_total` chooses which of the two to examine. */
static void pass_wrappers(build_t *build, bool is_total)
{
  bool any = weigh(build, is_total);
  for (int level = 0; any && level < MOST_LEVELS; level++) {
    double sum;
    int largest = find_largest(build, &sum);
    if (largest < 0 || build->sums[largest] < WRAPPER_SHARE * sum ||
        !give_way(build, largest, build->sums[largest]))
      break;
  }
}

int gp_wrappers_see_through(
    const gp_snapshot_t *snapshot, const gp_snapshot_frame_kind_t *frame_kinds, gp_snapshot_owner_t *owners)
{
  size_t stacks = snapshot->stacks.count, frames = snapshot->frame_count;
  build_t build = {.snapshot = snapshot,
      .kinds = frame_kinds,
      .owners = owners,
      .weights = calloc(stacks + 1, sizeof(*build.weights)),
      .names = calloc(frames + 1, sizeof(*build.names)),
      .places = calloc(stacks + 1, sizeof(*build.places)),
      .sums = calloc(frames + 1, sizeof(*build.sums))};
  int error = build.weights && build.names && build.places && build.sums ? 0 : ENOMEM;

  if (!error)
    error = number_functions(&build);
  if (!error) {
    pass_wrappers(&build, true);
    pass_wrappers(&build, false);
  }
  free(build.weights);
  free(build.names);
  free(build.places);
  free(build.sums);
  return error;
}
