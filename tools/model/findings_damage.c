#include "tools/model/findings_damage.h"

#include <stdlib.h>
#include <string.h>

#include "tools/model/finding_judges.h"
#include "tools/model/phases.h"
#include "tools/saturated.h"

#define OWNERS_MOST  64
#define SHOWN_OWNERS 3
#define NEAR         (2 * GP_MIB) /* blocks farther away are not neighbours */

/* Damage of one kind in blocks of one owner. */
typedef struct owner {
  char name[GP_STACK_NAME_BYTES];
  int device;
  bool is_stale;   /* the blocks were written after their free; otherwise past their end */
  uint64_t blocks; /* number of damaged blocks */
  uint64_t bytes;  /* number of damaged bytes that the checks saw */
  uint64_t latest; /* block number of the latest damaged block */
  size_t event;    /* the first damage event */
  int stack;       /* stack that allocated the block of that event; -1: not recorded */
} owner_t;

typedef struct damages {
  owner_t owners[OWNERS_MOST]; /* the most bytes first */
  size_t count;
  uint64_t rest;   /* number of damage events of more owners */
  uint64_t events; /* number of all damage events */
} damages_t;

uint64_t gp_damages_count(const gp_snapshot_t *snapshot, const gp_filter_t *filter)
{
  uint64_t count = 0;
  for (size_t i = 0; i < snapshot->device_count; i++) {
    if (gp_filter_has_device(filter, snapshot->devices[i].device))
      count = gp_add_saturated(count, snapshot->devices[i].stats.num_damages);
  }
  return count;
}

/* Adds a damage event to those of its owner. */
static void add(damages_t *damages, const gp_snapshot_t *snapshot, size_t event)
{
  const gp_snapshot_events_t *events = &snapshot->events;
  int64_t detail = gp_snapshot_event(events, GP_COLUMN_DETAIL, event, -1);
  uint64_t block = gp_snapshot_event_uint(events, GP_COLUMN_BLOCK, event);
  owner_t *owner = damages->owners, *end = owner + damages->count,
          now = {.device = (int)gp_snapshot_event(events, GP_COLUMN_DEVICE, event, 0),
              .stack = (int)gp_snapshot_event(events, GP_COLUMN_STACK, event, -1),
              .is_stale = detail >= 0 && strcmp(events->details.names[detail], "stale") == 0,
              .event = event};

  damages->events++;
  gp_findings_name_stack(snapshot, now.stack, now.name);
  while (owner < end && (owner->device != now.device || owner->is_stale != now.is_stale ||
                            strcmp(owner->name, now.name) != 0))
    owner++;
  if (owner == end && damages->count == OWNERS_MOST) {
    damages->rest++;
    return;
  }
  if (owner == end)
    damages->owners[damages->count++] = now;
  owner->blocks += owner->blocks == 0 || owner->latest != block; /* large blocks are checked in pieces */
  owner->latest = block;
  owner->bytes = gp_add_saturated(owner->bytes, gp_snapshot_event_uint(events, GP_COLUMN_SIZE, event));
}

static int compare_owners(const void *a, const void *b)
{
  const owner_t *x = a, *y = b;
  return x->bytes > y->bytes || (x->bytes == y->bytes && x->event < y->event) ? -1 : 1;
}

static const gp_life_t *find_life(const gp_lifetimes_t *lifetimes, int device, uint64_t block)
{
  for (size_t i = lifetimes->life_count; i-- > 0;) {
    if (lifetimes->lives[i].block == block && (int)lifetimes->lives[i].device == device)
      return &lifetimes->lives[i];
  }
  return NULL;
}

/* Adds the nearest blocks on both sides that were in use when the block was freed, or later until the damage
 * was found at `event`. The program may have written past the end of the one before. */
static void add_neighbours(gp_sentence_t *text, const gp_lifetimes_t *lifetimes, const gp_life_t *self,
    size_t event, uint64_t address)
{
  const gp_life_t *before = NULL, *after = NULL;
  char name[GP_STACK_NAME_BYTES];

  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->device != self->device || life->kind == GP_LIFE_HOST || life->begin > event ||
        life->freed <= (self->freed < event ? self->freed : event))
      continue;
    /* The differences wrap around to large numbers if the block is on the other side. */
    if (self->address - life->address - gp_life_rounded(life) <= NEAR &&
        (!before || life->address >= before->address))
      before = life;
    if (life->address - self->address - gp_life_rounded(self) <= NEAR &&
        (!after || life->address <= after->address))
      after = life;
  }
  if (before)
    gp_sentence_add(text, " Before it, %s of %s end %s before the damage.",
        GP_AS_PLURAL(before->requested, "byte"),
        gp_findings_name_stack(lifetimes->snapshot, before->stack, name),
        GP_AS_PLURAL(gp_subtract_saturated(address, before->address + before->requested), "byte"));
  if (after)
    gp_sentence_add(text, " After it, %s of %s begin %s after the first damaged byte.",
        GP_AS_PLURAL(after->requested, "byte"),
        gp_findings_name_stack(lifetimes->snapshot, after->stack, name),
        GP_AS_PLURAL(gp_subtract_saturated(after->address, address), "byte"));
}

static gp_finding_t *report(gp_findings_t *findings, const owner_t *owner, const gp_phases_t *phases)
{
  const gp_lifetimes_t *lifetimes = &findings->summary->lifetimes;
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;
  int thread = (int)gp_snapshot_event(events, GP_COLUMN_THREAD, owner->event, GP_FILTER_UNKNOWN);
  uint64_t address = gp_snapshot_event_uint(events, GP_COLUMN_ADDRESS, owner->event),
           found_ns = gp_snapshot_event_uint(events, GP_COLUMN_TIME_NS, owner->event);
  int32_t phase = gp_phases_at(phases, thread, found_ns);
  const gp_life_t *life =
      find_life(lifetimes, owner->device, gp_snapshot_event_uint(events, GP_COLUMN_BLOCK, owner->event));
  size_t freed = life && life->freed <= owner->event ? life->freed : 0;
  bool has_stack = freed && strcmp(gp_findings_setting(findings, "stacks_free"), "1") == 0;
  int free_stack = has_stack ? (int)gp_snapshot_event(events, GP_COLUMN_STACK, freed - 1, -1) : -1;
  char name[GP_STACK_NAME_BYTES];
  gp_sentence_t text = {.used = 0};

  if (life)
    gp_sentence_add(&text, "%s: %s requested, damaged from offset %s on",
        owner->blocks > 1 ? "; the first" : "", GP_AS_PLURAL(life->requested, "byte"),
        GP_AS_COUNT(gp_subtract_saturated(address, life->address)));
  if (freed)
    gp_sentence_add(&text, "; freed at %s%s%s",
        GP_AS_DURATION(gp_snapshot_event_uint(events, GP_COLUMN_TIME_NS, freed - 1)),
        free_stack < 0 ? "" : " by ",
        free_stack < 0 ? "" : gp_findings_name_stack(lifetimes->snapshot, free_stack, name));
  gp_sentence_add(&text, "; found at %s%s%.80s.", GP_AS_DURATION(found_ns), phase < 0 ? "" : " in phase ",
      phase < 0 ? "" : phases->phases[phase].name);
  if (life)
    add_neighbours(&text, lifetimes, life, owner->event, address);
  return gp_findings_say(findings, GP_FINDING(damage), owner->device, owner->device,
      GP_AS_PLURAL(owner->bytes, "byte"), owner->is_stale ? "after the free of" : "past the end of",
      GP_AS_PLURAL(owner->blocks, "block"), owner->name, text.text);
}

void gp_findings_judge_damage(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const gp_snapshot_events_t *events = &summary->snapshot->events;
  uint64_t all = gp_damages_count(summary->snapshot, summary->filter), rest = 0;
  damages_t *damages = all ? calloc(1, sizeof(*damages)) : NULL;
  gp_phases_t phases;

  findings->out_of_memory |= all && !damages;
  if (!damages)
    return;
  for (size_t i = 0; i < events->count; i++) {
    if (gp_snapshot_event_kind(events, i) == GP_EVENT_DAMAGE &&
        gp_filter_has_device(summary->filter, (int)gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0)))
      add(damages, summary->snapshot, i);
  }
  qsort(damages->owners, damages->count, sizeof(damages->owners[0]), compare_owners);
  findings->out_of_memory |= gp_phases_init(&phases, summary->snapshot) != 0;
  for (size_t i = 0; i < damages->count && !findings->out_of_memory; i++) {
    const owner_t *owner = &damages->owners[i];
    gp_finding_t *finding = i < SHOWN_OWNERS ? report(findings, owner, &phases) : NULL;
    rest += i < SHOWN_OWNERS ? 0 : owner->blocks;
    if (i == 0)
      gp_findings_advise(findings, finding, GP_ADVICE(damage), owner->is_stale ? "stale=full" : "edges");
  }
  gp_phases_fini(&phases);
  if (rest + damages->rest)
    gp_findings_say(findings, GP_FINDING(damage_elsewhere), GP_FINDING_ALL,
        GP_AS_PLURAL(rest + damages->rest, "other block"));
  if (all > damages->events)
    gp_findings_advise(findings,
        gp_findings_say(findings, GP_FINDING(damage_lost), GP_FINDING_ALL, GP_AS_PLURAL(all, "block"),
            GP_AS_COUNT(all - damages->events)),
        GP_ADVICE(damage_lost));
  free(damages);
}
