#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/reuse/drain.h"
#include "tools/array.h"
#include "tools/model/lifetimes.h"
#include "tools/replay/workload_parts.h"
#include "tools/request.h"

/*
 * Finds when the recorded pool knew that the work on freed memory was complete. Recordings contain no
 * synchronizations, so this is inferred from the events of blocks that became reusable (free_completed).
 */

/* A completion proof: before event `end` the pool knew that the work on all memory freed up to event `begin`
 * was complete; begin < end. If is_drained, all of that memory became reusable in one operation, such as an
 * allocation that found no other memory. */
typedef struct fact {
  uint32_t begin;
  uint32_t end;
  bool is_drained;
} fact_t;

/* The proofs of one device. Both `begin` and `end` increase from each proof to the next. */
typedef struct facts {
  fact_t *facts;
  size_t count;
} facts_t;

#define NO_EVENT UINT32_MAX

/* A block that became reusable. */
typedef struct completion {
  uint32_t event;
  uint32_t freed; /* event of the block's free */
  uint64_t address;
  bool has_stream;
} completion_t;

typedef struct finder {
  const gp_lifetimes_t *lifetimes;
  facts_t *facts;
  completion_t
      *run; /* blocks that became reusable since the last operation, which is an allocation or a free */
  size_t run_count;
  uint32_t last_free; /* event of the last operation if it was a free, otherwise NO_EVENT */
  bool is_open;       /* the last proof may cover frees that the events have not shown so far */
} finder_t;

static bool facts_add_fact(finder_t *finder, uint32_t begin, uint32_t end, bool is_drained)
{
  facts_t *facts = finder->facts;
  fact_t *fact = GP_ARRAY_ADD(facts->facts, facts->count);
  if (!fact)
    return false;
  *fact = (fact_t){begin, end, is_drained};
  finder->is_open = true;
  return true;
}

/* Records that before event `end` the pool knew that the work on the blocks completed[0..count) was complete.
 * Extends the last proof, or adds a new one. Returns false if memory runs out. */
static bool learn(
    finder_t *finder, const completion_t *completed, size_t count, uint32_t end, bool is_drained)
{
  facts_t *facts = finder->facts;
  uint32_t begin = 0;

  for (size_t i = 0; i < count; i++)
    begin = completed[i].freed > begin ? completed[i].freed : begin;
  fact_t *last = facts->count ? &facts->facts[facts->count - 1] : NULL;
  if (count == 0 || begin >= end || (last && begin <= last->begin))
    return true;
  if (finder->is_open && last && begin < last->end) {
    last->begin = begin;
    if (is_drained && last->end != finder->last_free) /* the last proof belongs to an earlier operation */
      return facts_add_fact(finder, begin, end, true);
    if (is_drained) { /* the last proof belongs to the last free, which drained these blocks, too */
      last->end = end;
      last->is_drained = true;
    }
    return true;
  }
  return facts_add_fact(finder, begin, end, is_drained);
}

/*
 * Processes an operation. Blocks that became reusable since the last operation belong to that operation if it
 * was a free, whose event precedes theirs. Otherwise they belong to this operation. An allocation takes the
 * oldest block, or moves GP_DRAIN_SOME blocks, or moves all blocks after it found nothing. A free moves
 * GP_DRAIN_SOME blocks, or all blocks if too much is deferred. So a longer run of blocks that no allocation
 * follows contains all blocks whose work was complete.
 */
static bool take_operation(finder_t *finder, size_t event, bool is_alloc)
{
  const gp_snapshot_events_t *events = &finder->lifetimes->snapshot->events;
  size_t count = finder->run_count, before = 0;
  const completion_t *last = count ? &finder->run[count - 1] : NULL;
  bool is_same =
      is_alloc && last && last->address == gp_snapshot_event_uint(events, GP_COLUMN_ADDRESS, event);

  if (is_same && last->has_stream && gp_snapshot_event(events, GP_COLUMN_STREAM, event, -1) >= 0) {
    count--; /* the stream reuses a block of its own list, which needs no proof */
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
  const completion_t *first =
      own ? &finder->run[before] : NULL; /* `run` is NULL until a block becomes reusable */
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
    return true; /* the program freed the block before the events */
  if (life->stream >= 0 && life->freed == event)
    return true; /* a stream-ordered free, reusable with that event, needs no proof */
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

/*
 * Finds the completion proofs of a device. Blocks become reusable in the order of their frees, a few with
 * each operation (pool/reuse/drain.h). So one proof may cover blocks that became reusable in different
 * operations, if every operation between them moved as many blocks as it may. Returns 0 or ENOMEM; call
 * facts_fini in any case.
 */
static int facts_find(facts_t *facts, const gp_lifetimes_t *lifetimes, int device)
{
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;
  finder_t finder = {.lifetimes = lifetimes, .facts = facts, .last_free = NO_EVENT};
  bool good = true;

  *facts = (facts_t){.count = 0};
  for (size_t i = 0; i < events->count && good; i++) {
    if (gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0) == device)
      good = take_event(&finder, i);
  }
  if (good && finder.run_count > 0) /* blocks became reusable after the last operation */
    good = take_operation(&finder, events->count, false);
  free(finder.run);
  return good ? 0 : ENOMEM;
}

static void facts_fini(facts_t *facts)
{
  free(facts->facts);
  *facts = (facts_t){.count = 0};
}

/* States of a life while the steps are being made. */
enum { LIFE_ABSENT, LIFE_HELD, LIFE_FREED };

typedef struct maker {
  gp_workload_t *workload;
  const gp_snapshot_t *snapshot;
  gp_lifetimes_t lifetimes;
  facts_t facts[GP_SNAPSHOT_DEVICES];
  size_t next_begin[GP_SNAPSHOT_DEVICES]; /* next proof whose `begin` is still to come */
  size_t next_end[GP_SNAPSHOT_DEVICES];
  uint32_t
      first_sync[GP_SNAPSHOT_DEVICES]; /* number of the synchronization that is the device's first proof */
  uint32_t *blocks;                    /* block number of each life */
  uint8_t *states;                     /* state of each life */
  int device;
  bool frees_complete; /* free_completed frees a pooled block, and proves that its work is complete */
} maker_t;

static bool is_wanted(const maker_t *maker, int64_t device)
{
  return device >= 0 && device < GP_SNAPSHOT_DEVICES &&
         (maker->device == GP_REQUEST_ALL_DEVICES || maker->device == device);
}

static uint64_t time_of(const maker_t *maker, size_t event)
{
  if (maker->snapshot->times_are_numbers)
    return event * GP_WORKLOAD_STEP_NS;
  return gp_snapshot_event_uint(&maker->snapshot->events, GP_COLUMN_TIME_NS, event);
}

static bool add(maker_t *maker, gp_step_t step, uint8_t device)
{
  gp_workload_t *workload = maker->workload;
  uint64_t last_ns = workload->step_count ? workload->steps[workload->step_count - 1].time_ns : 0;

  step.device = device;
  step.time_ns = step.time_ns < last_ns ? last_ns : step.time_ns;
  workload->present |= UINT64_C(1) << device;
  return gp_workload_add(maker->workload, &step);
}

/* Returns the stream of a step. Only memory from cudaMallocAsync in gpupool's recordings has a stream. The
 * streams in PyTorch's snapshots belong to PyTorch's own pools. */
static uint16_t stream_of(const maker_t *maker, int stream)
{
  const gp_workload_t *workload = maker->workload;
  return workload->is_ours && stream >= 0 && (unsigned)stream < workload->stream_count ? (uint16_t)stream
                                                                                       : GP_STEP_NO_STREAM;
}

static bool add_alloc(maker_t *maker, size_t index, uint64_t time_ns)
{
  const gp_life_t *life = &maker->lifetimes.lives[index];
  bool is_pooled = life->kind == GP_LIFE_POOLED;
  const gp_step_t step = {
      .size = life->requested,
      .time_ns = time_ns,
      .block = (uint32_t)maker->workload->block_count,
      .stream = is_pooled ? stream_of(maker, life->stream) : GP_STEP_NO_STREAM,
      .kind = is_pooled ? GP_STEP_ALLOC : GP_STEP_FORWARDED_ALLOC,
  };

  maker->blocks[index] = (uint32_t)maker->workload->block_count++;
  maker->states[index] = LIFE_HELD;
  return add(maker, step, life->device);
}

static bool add_free(maker_t *maker, size_t index, size_t event)
{
  const gp_life_t *life = &maker->lifetimes.lives[index];
  int stream = (int)gp_snapshot_event(&maker->snapshot->events, GP_COLUMN_STREAM, event, -1);
  bool is_pooled = life->kind == GP_LIFE_POOLED;
  const gp_step_t step = {
      .time_ns = time_of(maker, event),
      .block = maker->blocks[index],
      .stream = is_pooled ? stream_of(maker, stream) : GP_STEP_NO_STREAM,
      .kind = is_pooled ? GP_STEP_FREE : GP_STEP_FORWARDED_FREE,
  };

  maker->states[index] = LIFE_FREED;
  return add(maker, step, life->device);
}

/* Returns true for device memory that this process allocated. */
static bool is_request(const gp_life_t *life)
{
  return life->kind == GP_LIFE_POOLED ||
         (life->kind == GP_LIFE_FORWARDED && strcmp(life->what, "external") != 0);
}

static bool add_sync(
    maker_t *maker, uint8_t device, size_t number, gp_step_kind_t kind, bool is_drained, size_t event)
{
  const gp_step_t step = {.size = is_drained,
      .time_ns = time_of(maker, event),
      .block = (uint32_t)number,
      .stream = GP_STEP_NO_STREAM,
      .kind = (uint8_t)kind};
  return add(maker, step, device);
}

static bool add_fact(maker_t *maker, uint8_t device, uint32_t number, gp_step_kind_t kind, size_t event)
{
  bool is_drained = kind == GP_STEP_SYNC_END && maker->facts[device].facts[number].is_drained;
  return add_sync(maker, device, maker->first_sync[device] + number, kind, is_drained, event);
}

/* Adds a synchronization that proves that the work on all memory freed so far is complete. */
static bool add_proof(maker_t *maker, uint8_t device, size_t event)
{
  size_t number = maker->workload->sync_count++;
  return add_sync(maker, device, number, GP_STEP_SYNC_BEGIN, false, event) &&
         add_sync(maker, device, number, GP_STEP_SYNC_END, false, event);
}

/* Returns true if the pool reported at the event that the device was busy. It is unknown for how long, so
 * another pool would have failed or waited, too. */
static bool was_busy(const maker_t *maker, size_t event)
{
  const cJSON *oom = cJSON_GetObjectItemCaseSensitive(maker->snapshot->root, "oom");
  uint64_t time_ns, context;
  return gp_snapshot_uint(oom, "time_ns", &time_ns) == 1 && time_ns == time_of(maker, event) &&
         gp_snapshot_uint(oom, "busy_context", &context) == 1;
}

static bool add_event(maker_t *maker, size_t event, uint8_t device)
{
  const gp_snapshot_events_t *events = &maker->snapshot->events;
  gp_event_kind_t kind = gp_snapshot_event_kind(events, event);
  const gp_life_t *life = gp_lifetimes_life(&maker->lifetimes, event);
  size_t index = life ? (size_t)(life - maker->lifetimes.lives) : 0;

  if (kind == GP_EVENT_OOM) {
    const gp_step_t step = {.size = gp_snapshot_event_uint(events, GP_COLUMN_SIZE, event),
        .time_ns = time_of(maker, event),
        .stream = GP_STEP_NO_STREAM,
        .kind = GP_STEP_ATTEMPT};
    return was_busy(maker, event) ||
           (add(maker, step, device) && (!maker->frees_complete || add_proof(maker, device, event)));
  }
  if (!life || !is_request(life))
    return true;
  bool is_alloc = kind == GP_EVENT_ALLOC || kind == GP_EVENT_FORWARDED_ALLOC;
  bool is_complete_free = kind == GP_EVENT_FREE_COMPLETED && maker->frees_complete;
  bool is_free = kind == GP_EVENT_FORWARDED_FREE || is_complete_free ||
                 (kind == GP_EVENT_FREE_REQUESTED && !maker->frees_complete);
  if (is_alloc && maker->states[index] == LIFE_ABSENT)
    return add_alloc(maker, index, time_of(maker, event));
  if (is_free && maker->states[index] == LIFE_HELD)
    return add_free(maker, index, event) && (!is_complete_free || add_proof(maker, device, event));
  maker->workload->ill_freed += is_free;
  return true;
}

static bool add_events(maker_t *maker)
{
  const gp_snapshot_events_t *events = &maker->snapshot->events;

  for (size_t i = 0; i < events->count; i++) {
    int64_t ordinal = gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0);
    if (!is_wanted(maker, ordinal))
      continue;
    uint8_t device = (uint8_t)ordinal;
    const facts_t *facts = &maker->facts[device];
    size_t *end = &maker->next_end[device], *begin = &maker->next_begin[device];
    for (; *end < facts->count && facts->facts[*end].end <= i; (*end)++) {
      if (!add_fact(maker, device, (uint32_t)*end, GP_STEP_SYNC_END, i))
        return false;
    }
    if (!add_event(maker, i, device))
      return false;
    for (; *begin < facts->count && facts->facts[*begin].begin <= i; (*begin)++) {
      if (!add_fact(maker, device, (uint32_t)*begin, GP_STEP_SYNC_BEGIN, i))
        return false;
    }
  }
  return true;
}

static const gp_life_t *sorted_lives; /* argument of compare_blocks, because qsort passes none */

static int compare_blocks(const void *a, const void *b)
{
  const gp_life_t *first = &sorted_lives[*(const uint32_t *)a], *second = &sorted_lives[*(const uint32_t *)b];
  return (first->block > second->block) - (first->block < second->block);
}

/* Adds allocations for the memory that was in use when the events begin, in the order in which the program
 * allocated it. */
static bool add_held(maker_t *maker)
{
  const gp_lifetimes_t *lifetimes = &maker->lifetimes;
  uint32_t *held = malloc((lifetimes->life_count + 1) * sizeof(*held));
  size_t count = 0;

  if (!held)
    return false;
  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    uint32_t end = maker->frees_complete && life->kind == GP_LIFE_POOLED ? life->done : life->freed;
    if (life->begin == 0 && end > 0 && is_request(life) && is_wanted(maker, life->device))
      held[count++] = (uint32_t)i;
  }
  sorted_lives = lifetimes->lives;
  qsort(held, count, sizeof(*held), compare_blocks);
  bool good = true;
  for (size_t i = 0; i < count && good; i++)
    good = add_alloc(maker, held[i], 0);
  free(held);
  return good;
}

static int find_facts(maker_t *maker)
{
  gp_workload_t *workload = maker->workload;

  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    bool is_present = false;
    for (size_t i = 0; i < maker->snapshot->device_count; i++)
      is_present |= maker->snapshot->devices[i].device == device;
    if (!is_present || !is_wanted(maker, device))
      continue;
    int error = facts_find(&maker->facts[device], &maker->lifetimes, device);
    if (error)
      return error;
    maker->first_sync[device] = (uint32_t)workload->sync_count;
    workload->sync_count += maker->facts[device].count;
  }
  return 0;
}

/* Copies the recorded data of the devices and the pool. */
static void describe(gp_workload_t *workload, const gp_snapshot_t *snapshot)
{
  const cJSON *settings = cJSON_GetObjectItemCaseSensitive(snapshot->root, "settings");
  const char *type = gp_snapshot_text(settings, "type");

  workload->is_ours = gp_option_choice(GP_OPTION_type, type) >= 0;
  workload->has_times = !snapshot->times_are_numbers;
  workload->is_partial = gp_snapshot_is_partial(snapshot) || snapshot->recorded_since_ns > 0;
  workload->settings = workload->is_ours ? cJSON_Duplicate(settings, true) : NULL;
  if (workload->is_ours)
    snprintf(workload->pool, sizeof(workload->pool), "gpupool, type %s", type);
  else
    snprintf(workload->pool, sizeof(workload->pool), "PyTorch");
  const cJSON *streams = cJSON_GetObjectItemCaseSensitive(snapshot->root, "streams");
  int stream_count = streams ? cJSON_GetArraySize(streams) : 0;
  workload->stream_count = stream_count < GP_STEP_NO_STREAM ? (unsigned)stream_count : GP_STEP_NO_STREAM;
  for (size_t i = 0; i < snapshot->device_count; i++) {
    const gp_snapshot_device_t *from = &snapshot->devices[i];
    gp_workload_device_t *device = &workload->devices[from->device];
    device->stats = from->stats;
    device->is_recorded = from->stats.reserved_bytes.peak > 0;
    device->total = from->total;
    device->outside = from->unaccounted;
  }
}

/* Sets is_partial if requests are missing. The pool counted all allocations, including those whose events are
 * lost or were never recorded. */
static void look_for_missing(gp_workload_t *workload)
{
  uint64_t allocated = 0, counted = 0;
  for (size_t i = 0; i < workload->step_count; i++)
    allocated += workload->steps[i].kind == GP_STEP_ALLOC;
  for (int i = 0; i < GP_SNAPSHOT_DEVICES; i++) {
    if (workload->present >> i & 1)
      counted += workload->devices[i].stats.allocation.allocated;
  }
  workload->is_partial |= counted > allocated;
}

int gp_workload_of_snapshot(
    gp_workload_t *workload, const gp_snapshot_t *snapshot, int device, bool with_facts)
{
  maker_t maker = {.workload = workload, .snapshot = snapshot, .device = device};

  describe(workload, snapshot);
  int error = gp_lifetimes_init(&maker.lifetimes, snapshot);
  size_t lives = maker.lifetimes.life_count + 1;
  maker.blocks = calloc(lives, sizeof(*maker.blocks));
  maker.states = calloc(lives, sizeof(*maker.states));
  if (!error && (!maker.blocks || !maker.states || (workload->is_ours && !workload->settings)))
    error = ENOMEM;
  maker.frees_complete = with_facts && !workload->is_ours;
  if (!error && with_facts && workload->is_ours)
    error = find_facts(&maker);
  if (!error && (!add_held(&maker) || !add_events(&maker)))
    error = ENOMEM;
  look_for_missing(workload);
  for (int i = 0; i < GP_SNAPSHOT_DEVICES; i++)
    facts_fini(&maker.facts[i]);
  free(maker.blocks);
  free(maker.states);
  gp_lifetimes_fini(&maker.lifetimes);
  return error;
}
