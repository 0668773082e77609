#include "tools/replay/facts.h"

#include <errno.h>
#include <stdlib.h>

#include "pool/reuse/drain.h"
#include "tools/array.h"

#define NO_EVENT UINT32_MAX

/* A block that became reusable. */
typedef struct completion {
  uint32_t event;
  uint32_t freed; /* event of its free */
  uint64_t address;
  bool has_stream;
} completion_t;

typedef struct finder {
  const gp_lifetimes_t *lifetimes;
  gp_facts_t *facts;
  completion_t *run; /* blocks that became reusable since the last operation */
  size_t run_count;
  uint32_t last_free; /* event of the last operation if it was a free, else NO_EVENT */
  bool is_open;       /* the last fact may cover more than the events have shown yet */
} finder_t;

static bool add_fact(finder_t *finder, uint32_t begin, uint32_t end, bool is_drained)
{
  gp_facts_t *facts = finder->facts;
  gp_fact_t *fact = GP_ARRAY_ADD(facts->facts, facts->count);
  if (!fact)
    return false;
  *fact = (gp_fact_t){begin, end, is_drained};
  finder->is_open = true;
  return true;
}

/* The blocks completed[0..count) were complete, and the pool knew it, before event `end`. */
static bool learn(
    finder_t *finder, const completion_t *completed, size_t count, uint32_t end, bool is_drained)
{
  gp_facts_t *facts = finder->facts;
  uint32_t begin = 0;

  for (size_t i = 0; i < count; i++)
    begin = completed[i].freed > begin ? completed[i].freed : begin;
  gp_fact_t *last = facts->count ? &facts->facts[facts->count - 1] : NULL;
  if (count == 0 || begin >= end || (last && begin <= last->begin))
    return true;
  if (finder->is_open && last && begin < last->end) {
    last->begin = begin;
    if (is_drained && last->end != finder->last_free) /* of an allocation, which it still explains */
      return add_fact(finder, begin, end, true);
    if (is_drained) { /* by the free that this fact came before */
      last->end = end;
      last->is_drained = true;
    }
    return true;
  }
  return add_fact(finder, begin, end, is_drained);
}

/*
 * Takes an operation. Blocks that became reusable since the last operation did so in that one if it was a
 * free (its event comes before theirs), else in this one. An allocation takes the oldest block, or moves
 * GP_DRAIN_SOME, or moves all after finding nothing. A free moves GP_DRAIN_SOME,
 * or all if too much is deferred. So a run of more blocks that no allocation follows was all that there were.
 */
static bool take_operation(finder_t *finder, size_t event, bool is_alloc)
{
  const gp_snapshot_events_t *events = &finder->lifetimes->snapshot->events;
  size_t count = finder->run_count, before = 0;
  const completion_t *last = count ? &finder->run[count - 1] : NULL;
  bool is_same =
      is_alloc && last && last->address == gp_snapshot_event_uint(events, GP_COLUMN_ADDRESS, event);

  if (is_same && last->has_stream && gp_snapshot_event(events, GP_COLUMN_STREAM, event, -1) >= 0) {
    count--; /* from the stream's own list: needed no fact */
    is_same = false;
  }
  if (finder->last_free != NO_EVENT) {
    while (
        before < count - is_same && before < GP_DRAIN_SOME && finder->run[before].freed < finder->last_free)
      before++;
    if (!learn(finder, finder->run, before, finder->last_free, false))
      return false;
    finder->is_open &= before == GP_DRAIN_SOME;
  }
  size_t own = count - before;
  bool is_handed_over = is_same && own == 1;
  bool is_drained = is_alloc ? !is_handed_over && own != GP_DRAIN_SOME : own > 0;
  const completion_t *first = own ? &finder->run[before] : NULL; /* without a run there is no array */
  if (!learn(finder, first, own, own ? first->event : (uint32_t)event, is_drained))
    return false;
  finder->is_open &= is_alloc ? !is_drained : own == 0;
  finder->run_count = 0;
  finder->last_free = is_alloc ? NO_EVENT : (uint32_t)event;
  return true;
}

static bool take_completion(finder_t *finder, size_t event, const gp_life_t *life)
{
  if (life->freed == 0 || life->freed == GP_LIFETIMES_NEVER)
    return true; /* freed before the events */
  if (life->stream >= 0 && life->freed == event)
    return true; /* with its free, in the order of a stream: needed no fact */
  completion_t *completion = GP_ARRAY_ADD(finder->run, finder->run_count);
  if (!completion)
    return false;
  *completion = (completion_t){(uint32_t)event, life->freed - 1, life->address, life->stream >= 0};
  return true;
}

static bool take_event(finder_t *finder, size_t event)
{
  const gp_snapshot_events_t *events = &finder->lifetimes->snapshot->events;
  const gp_life_t *life = gp_lifetimes_life(finder->lifetimes, event);

  if (!life || life->kind != GP_LIFE_POOLED)
    return true;
  switch (gp_snapshot_event_kind(events, event)) {
  case GP_EVENT_ALLOC: return take_operation(finder, event, true);
  case GP_EVENT_FREE_REQUESTED: return take_operation(finder, event, false);
  case GP_EVENT_FREE_COMPLETED: return take_completion(finder, event, life);
  default: return true;
  }
}

int gp_facts_find(gp_facts_t *facts, const gp_lifetimes_t *lifetimes, int device)
{
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;
  finder_t finder = {.lifetimes = lifetimes, .facts = facts, .last_free = NO_EVENT};
  bool good = true;

  *facts = (gp_facts_t){.count = 0};
  for (size_t i = 0; i < events->count && good; i++) {
    if (gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0) == device)
      good = take_event(&finder, i);
  }
  if (good && finder.run_count > 0) /* after the last operation */
    good = take_operation(&finder, events->count, false);
  free(finder.run);
  return good ? 0 : ENOMEM;
}

void gp_facts_fini(gp_facts_t *facts)
{
  free(facts->facts);
  *facts = (gp_facts_t){.count = 0};
}
