#include "tools/model/growth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/hash_index.h"
#include "tools/model/memory.h"
#include "tools/saturated.h"
#include "tools/symbols/stack_owners.h"

#define WINDOWS     8 /* windows of equally many events, from a group's first allocation to the end */
#define LEAST_RISES 5 /* the floor must rise at this many of the seven steps between windows */
#define LEAST_BYTES (64 * UINT64_C(1024))
#define HELD_SHARE  2 /* at least 1 / HELD_SHARE of the bytes must be in use at the end of the snapshot */
#define WHOLE_SHARE 2 /* at least 1 / WHOLE_SHARE of a line's bytes must come after its first window */
#define NO_GROUP    UINT32_MAX
#define WHOLE       63 /* class that stands for all sizes of a line; no size has it */
#define CLASS_BITS  6  /* bits of a group's key for the size class (log2, rounded down) */
#define DEVICE_BITS 6  /* bits of a group's key for the device */

/* A line of the program. Line 0 stands for memory without a stack. */
typedef struct line {
  char *key;
  int stack;
  bool is_of_size;
} line_t;

/* A group: the memory of one line on one device, in one size class or in all. */
typedef struct group {
  uint64_t key;
  uint32_t line;
  uint32_t whole;  /* for a size class: index of the group of all the line's sizes */
  uint32_t start;  /* moment of the group's first allocation */
  uint32_t oldest; /* moment of the group's oldest allocation in use at the end; UINT32_MAX: none */
  uint8_t device;
  bool has_begun;
  bool grows;              /* for the group of all sizes: the line grows as a whole */
  uint8_t window;          /* window of the latest change */
  uint64_t before;         /* bytes in use before the events */
  uint64_t held;           /* bytes in use after the latest change */
  uint64_t least[WINDOWS]; /* least bytes in use in each window; after grows(), from each window on */
  uint64_t still;          /* bytes in use at the end of the snapshot */
  gp_holding_t holding;    /* blocks in use at the end of the device's allocations */
} group_t;

/* The grower of a line on a device, if it has one. */
typedef struct place {
  uint64_t number; /* key, from line and device */
  size_t grower;   /* index of the grower plus one; 0: none yet */
} place_t;

typedef struct build {
  const gp_lifetimes_t *lifetimes;
  gp_owned_t owned;
  line_t *lines;
  size_t line_count;
  gp_hash_index_t by_key;
  uint32_t *line_of; /* by stack: its line plus one; 0: not looked up yet */
  group_t *groups;
  size_t group_count;
  gp_hash_index_t by_number;
  uint32_t *group_of; /* by life: the index of its group */
  place_t *places;
  size_t place_count;
  gp_hash_index_t by_place;
  uint32_t last[GP_SNAPSHOT_DEVICES];
  uint64_t held[GP_SNAPSHOT_DEVICES]; /* bytes in use on each device at the device's last allocation */
} build_t;

/* Returns the line that allocated with this stack, or UINT32_MAX if memory runs out. A script without frames
 * looks like one line, so its sizes are judged separately. */
static uint32_t find_line(build_t *build, int stack)
{
  const gp_snapshot_t *snapshot = build->lifetimes->snapshot;
  gp_owner_text_t text;
  char place[48] = "", *key = NULL;

  if (stack < 0)
    return 0;
  if (build->line_of[stack])
    return build->line_of[stack] - 1;
  if (!gp_stack_owner_text(snapshot, stack, &text)) {
    build->line_of[stack] = 1;
    return 0;
  }
  if (text.line)
    snprintf(place, sizeof(place), "%d", text.line);
  if (asprintf(&key, "%s\n%s\n%s\n%s", text.function, text.file, place,
          text.language ? text.operation[0] ? text.operation : text.through : "") < 0)
    return UINT32_MAX;
  line_t *line = GP_HASH_TEXT(&build->by_key, build->lines, build->line_count, key, true);
  free(key);
  if (!line)
    return UINT32_MAX;
  if (!line->stack)
    *line = (line_t){.key = line->key, .stack = stack + 1, .is_of_size = text.language != NULL};
  build->line_of[stack] = (uint32_t)(line - build->lines) + 1;
  return build->line_of[stack] - 1;
}

static unsigned class_of(uint64_t size)
{
  return size ? 63u - (unsigned)__builtin_clzll(size) : 0;
}

/* Returns the group of the line in the size class `class`, and adds it if missing. Returns NO_GROUP if memory
 * runs out. */
static uint32_t find_group(build_t *build, uint32_t line, unsigned class, const gp_life_t *life)
{
  uint64_t number =
      ((uint64_t)line << (CLASS_BITS + DEVICE_BITS)) | ((uint64_t) class << DEVICE_BITS) | life->device;
  group_t *group = GP_HASH_NUMBER(&build->by_number, build->groups, build->group_count, number);
  if (!group)
    return NO_GROUP;
  if (!group->has_begun)
    *group = (group_t){.key = number,
        .line = line,
        .start = life->begin,
        .oldest = UINT32_MAX,
        .device = life->device,
        .has_begun = true};
  group->start = life->begin < group->start ? life->begin : group->start;
  return (uint32_t)(group - build->groups);
}

static int group_lives(build_t *build, const gp_filter_t *filter)
{
  for (size_t i = 0; i < build->lifetimes->life_count; i++) {
    const gp_life_t *life = &build->lifetimes->lives[i];
    build->group_of[i] = NO_GROUP;
    if ((life->kind == GP_LIFE_HOST) != (build->owned == GP_OWNED_HOST) || !gp_lifetimes_has(filter, life))
      continue;
    uint32_t line = find_line(build, life->stack);
    uint32_t whole = line == UINT32_MAX ? NO_GROUP : find_group(build, line, WHOLE, life);
    uint32_t group = whole == NO_GROUP ? NO_GROUP : find_group(build, line, class_of(life->requested), life);
    if (group == NO_GROUP)
      return ENOMEM;
    build->groups[group].whole = whole;
    build->group_of[i] = group;
    if (life->begin > build->last[life->device])
      build->last[life->device] = life->begin;
  }
  return 0;
}

/* Records that the group has `held` bytes in use from `moment` on. */
static void change(const build_t *build, group_t *group, uint32_t moment, uint64_t held)
{
  uint64_t span = (uint64_t)build->last[group->device] - group->start + 1;
  unsigned window = (unsigned)((uint64_t)(moment - group->start) * WINDOWS / span);

  gp_assert_internal(moment >= group->start && window < WINDOWS);
  if (moment == group->start)
    group->least[0] = UINT64_MAX; /* ignore bytes in use before the first allocation */
  while (group->window < window)
    group->least[++group->window] = group->held;
  group->held = held;
  if (held < group->least[window])
    group->least[window] = held;
}

/* Adds the bytes of a life that were in use before the events, and those in use at the end, to its group. */
static void add_life(build_t *build, group_t *group, const gp_life_t *life)
{
  if (gp_life_is_held_at(life, 0))
    group->before = group->held = group->least[0] = gp_add_saturated(group->held, life->requested);
  if (life->is_held)
    group->still = gp_add_saturated(group->still, life->requested);
  if (gp_life_is_held_at(life, build->last[life->device])) {
    gp_holding_add(&group->holding, life->requested);
    group->oldest = life->begin < group->oldest ? life->begin : group->oldest;
  } else {
    group->holding.freed++;
  }
}

static void take_event(const build_t *build, group_t *group, uint32_t moment, const gp_life_t *life)
{
  change(build, group, moment,
      life->begin == moment ? gp_add_saturated(group->held, life->requested)
                            : gp_subtract_saturated(group->held, life->requested));
}

/* Computes the bytes that each group has in use before the events, during them, and at the end. */
static void follow(build_t *build)
{
  const gp_lifetimes_t *lifetimes = build->lifetimes;

  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    group_t *group = build->group_of[i] == NO_GROUP ? NULL : &build->groups[build->group_of[i]];
    if (!group)
      continue;
    add_life(build, group, life);
    add_life(build, &build->groups[group->whole], life);
    if (gp_life_is_held_at(life, build->last[life->device]))
      build->held[life->device] = gp_add_saturated(build->held[life->device], life->requested);
  }
  for (uint32_t moment = 1; moment <= lifetimes->end; moment++) {
    const gp_life_t *life = gp_lifetimes_life(lifetimes, moment - 1);
    uint32_t at =
        life && moment <= build->last[life->device] ? build->group_of[life - lifetimes->lives] : NO_GROUP;
    if (at == NO_GROUP || (life->begin != moment && life->freed != moment))
      continue;
    take_event(build, &build->groups[at], moment, life);
    take_event(build, &build->groups[build->groups[at].whole], moment, life);
  }
}

/* Returns true if the group grows. Its floor is the least number of bytes in use from a window on. The floor
 * must rise at LEAST_RISES steps, and enough memory must be in use at the end of the snapshot. */
static bool grows(group_t *group)
{
  unsigned rises = 0;

  while (group->window < WINDOWS - 1)
    group->least[++group->window] = group->held;
  for (int i = WINDOWS - 2; i >= 0; i--) {
    if (group->least[i] >= group->least[i + 1])
      group->least[i] = group->least[i + 1];
    else
      rises++;
  }
  return rises >= LEAST_RISES && group->least[WINDOWS - 1] - group->least[0] >= LEAST_BYTES &&
         group->still >= group->held / HELD_SHARE;
}

static bool is_whole(const group_t *group)
{
  return (group->key >> DEVICE_BITS & ((1u << CLASS_BITS) - 1)) == WHOLE;
}

/* Returns true if a line grows as a whole: its total over all sizes grows, as when larger buffers replace
 * smaller ones. At least half must be added after the first window, in which programs load weights. */
static bool grows_as_a_whole(const build_t *build, group_t *group)
{
  return !build->lines[group->line].is_of_size && grows(group) &&
         group->least[WINDOWS - 1] - group->least[1] >= group->least[WINDOWS - 1] / WHOLE_SHARE;
}

/* Returns the grower of a group's line, and adds it if missing. Returns NULL if memory runs out. */
static gp_grower_t *grower_of(build_t *build, const group_t *group, gp_grower_t *growers, size_t *count)
{
  const line_t *line = &build->lines[group->line];
  uint64_t number = (uint64_t)group->line << DEVICE_BITS | group->device;
  place_t *place = GP_HASH_NUMBER(&build->by_place, build->places, build->place_count, number);

  if (!place)
    return NULL;
  if (place->grower && !line->is_of_size)
    return &growers[place->grower - 1];
  growers[*count] = (gp_grower_t){.device = group->device,
      .stack = line->stack - 1,
      .is_of_size = line->is_of_size,
      .since_ns = UINT64_MAX,
      .until_ns = gp_memory_time(build->lifetimes, build->last[group->device])};
  place->grower = ++*count;
  return &growers[*count - 1];
}

/* Adds a group to the grower of its line. If the line grows as a whole, also counts the frees of sizes that
 * the line no longer uses. */
static void join(const build_t *build, const group_t *group, gp_grower_t *grower)
{
  /* The allocation time of memory in use before the events is unknown, so the first event's time is used. */
  uint64_t since_ns = gp_memory_time(build->lifetimes, group->start > 0 ? group->start : 1);

  gp_holding_join(&grower->holding, &group->holding);
  grower->accumulates |= group->oldest <= group->start + (build->last[group->device] - group->start) / 2;
  grower->bytes = gp_add_saturated(grower->bytes, group->held);
  grower->bytes_before = gp_add_saturated(grower->bytes_before, group->before);
  grower->since_ns = since_ns < grower->since_ns ? since_ns : grower->since_ns;
}

static uint64_t grown(const gp_grower_t *grower)
{
  return gp_subtract_saturated(grower->bytes, grower->bytes_before);
}

static int compare_growers(const void *a, const void *b)
{
  const gp_grower_t *x = a, *y = b;
  if (x->device != y->device)
    return x->device < y->device ? -1 : 1;
  return grown(x) != grown(y) ? grown(x) > grown(y) ? -1 : 1 : x->stack - y->stack;
}

/* Computes the room on the device: idle memory, and memory neither reserved nor in use by other processes. */
static void measure_room(const gp_snapshot_device_t *device, gp_growth_room_t *room)
{
  const gp_stats_t *stats = &device->stats;
  uint64_t held = gp_add_saturated(stats->reserved_bytes.current, stats->passthrough_bytes.current);
  uint64_t used = gp_subtract_saturated(held, stats->cached_bytes.current);
  uint64_t limit = device->limit, total = gp_subtract_saturated(device->total, device->unaccounted);
  uint64_t below_limit = gp_subtract_saturated(limit, used), below_total = gp_subtract_saturated(total, used);

  room->is_known = limit > 0 || device->total > 0;
  room->is_limit = limit > 0 && (device->total == 0 || below_limit <= below_total);
  room->bytes = room->is_limit ? below_limit : below_total;
  room->capacity = room->is_limit ? limit : device->total;
}

/* Projects the time until memory runs out, unless it has already run out. */
static void project(const gp_snapshot_t *snapshot, gp_growth_room_t *room)
{
  const gp_snapshot_device_t *device = gp_snapshot_device(snapshot, room->device);
  bool is_late =
      strcmp(gp_snapshot_text(snapshot->root, "reason"), "oom") == 0 || !device || device->stats.num_ooms > 0;

  if (device)
    measure_room(device, room);
  double left_ns = room->bytes_per_ns > 0 ? (double)room->bytes / room->bytes_per_ns : 0;
  if (room->is_known && !is_late && room->bytes_per_ns > 0 && left_ns < 9e18)
    room->exhausted_ns = left_ns < 1 ? 1 : (uint64_t)left_ns;
}

/* Copies the largest growers of each device to `growth`, and sums all growers of the device in its room. */
static void keep(const build_t *build, gp_grower_t *growers, size_t count, gp_growth_t *growth)
{
  bool has_times = !build->lifetimes->snapshot->times_are_numbers;
  size_t kept = 0;

  qsort(growers, count, sizeof(*growers), compare_growers);
  for (size_t i = 0; i < count; i++) {
    gp_grower_t *grower = &growers[i];
    gp_growth_room_t *room = growth->room_count ? &growth->rooms[growth->room_count - 1] : NULL;
    if (!room || room->device != grower->device) {
      room = &growth->rooms[growth->room_count++];
      *room = (gp_growth_room_t){.device = grower->device, .others = build->held[grower->device]};
      kept = 0;
    }
    room->grown = gp_add_saturated(room->grown, grown(grower));
    room->others = gp_subtract_saturated(room->others, grower->bytes);
    room->held = gp_add_saturated(room->held, grower->bytes);
    if (has_times && grower->until_ns > grower->since_ns)
      grower->bytes_per_ns = (double)grown(grower) / (double)(grower->until_ns - grower->since_ns);
    room->bytes_per_ns += grower->bytes_per_ns;
    if (kept++ < GP_GROWTH_LINES)
      growth->growers[growth->count++] = *grower;
    else
      room->more++;
  }
  for (size_t i = 0; i < growth->room_count && build->owned == GP_OWNED_DEVICE; i++)
    project(build->lifetimes->snapshot, &growth->rooms[i]);
}

static int find(build_t *build, gp_growth_t *growth)
{
  gp_grower_t *growers = calloc(build->group_count + 1, sizeof(*growers));
  size_t count = 0;
  bool good = growers;

  for (size_t i = 0; i < build->group_count; i++) {
    group_t *group = &build->groups[i];
    group->grows = is_whole(group) && grows_as_a_whole(build, group);
  }
  for (size_t i = 0; i < build->group_count && good; i++) {
    group_t *group = &build->groups[i];
    bool is_joined = is_whole(group) ? group->grows : !build->groups[group->whole].grows && grows(group);
    if (!is_joined)
      continue;
    gp_grower_t *grower = grower_of(build, group, growers, &count);
    if (grower)
      join(build, group, grower);
    good = grower;
  }
  if (good)
    keep(build, growers, count, growth);
  free(growers);
  return good ? 0 : ENOMEM;
}

int gp_growth_init(
    gp_growth_t *growth, const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, gp_owned_t owned)
{
  build_t build = {.lifetimes = lifetimes, .owned = owned};

  *growth = (gp_growth_t){.count = 0};
  build.line_of = calloc(lifetimes->snapshot->stacks.count + 1, sizeof(*build.line_of));
  build.group_of = malloc((lifetimes->life_count + 1) * sizeof(*build.group_of));
  line_t *none = build.line_of && build.group_of
                     ? GP_HASH_TEXT(&build.by_key, build.lines, build.line_count, "", true)
                     : NULL;
  if (none)
    none->is_of_size = true;
  int error = none ? group_lives(&build, filter) : ENOMEM;
  if (!error) {
    follow(&build);
    error = find(&build, growth);
  }
  for (size_t i = 0; i < build.line_count; i++)
    free(build.lines[i].key);
  free(build.lines);
  free(build.line_of);
  free(build.groups);
  free(build.group_of);
  free(build.places);
  gp_hash_index_fini(&build.by_place);
  gp_hash_index_fini(&build.by_key);
  gp_hash_index_fini(&build.by_number);
  return error;
}

const gp_growth_room_t *gp_growth_room(const gp_growth_t *growth, int device)
{
  for (size_t i = 0; i < growth->room_count; i++) {
    if (growth->rooms[i].device == device)
      return &growth->rooms[i];
  }
  return NULL;
}
