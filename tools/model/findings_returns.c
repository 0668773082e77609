/*
 * Finds when PyTorch's allocator released memory to the driver, and why. Its events contain no reason, so the
 * tool infers it from the stack and from the next events.
 */
#include "tools/model/finding_judges.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/array.h"
#include "tools/model/memory.h"
#include "tools/model/remedies.h"
#include "tools/saturated.h"
#include "tools/output.h"
#include "tools/shorten.h"
#include "tools/symbols/stack_owners.h"

#define AGAIN_BYTES   (32 * GP_MIB)
#define OFTEN         3 /* this many releases make the finding a warning */
#define PLACE_COLUMNS 90
#define PLACE_BYTES   256

typedef enum cause {
  CAUSE_UNKNOWN,
  CAUSE_RETRY,   /* the driver had no memory, so the allocator emptied its cache and tried again */
  CAUSE_PROGRAM, /* the program called empty_cache */
} cause_t;

/* A release: consecutive events that return segments, or parts of them, to the driver. Sizes in bytes. */
typedef struct returned {
  cause_t cause;
  size_t event; /* index of the first event */
  int stack;    /* stack of the first event; -1: none */
  uint64_t bytes;
  uint64_t largest;   /* size of the largest piece returned */
  uint64_t needed;    /* bytes requested from the driver directly after the release; 0: none */
  uint64_t again;     /* bytes allocated from the driver until the next release, or until the end */
  uint64_t calls;     /* number of driver allocations in `again` */
  uint64_t lasted_ns; /* time from the first event to the last; for a retry, to the allocation after it */
  bool has_failed;    /* true if memory ran out in spite of the release */
} returned_t;

typedef struct returns {
  returned_t *items;
  size_t count;
} returns_t;

typedef struct search {
  returns_t *returns;
  const gp_snapshot_t *snapshot;
  const gp_snapshot_device_t *device;
  uint64_t reserved; /* bytes reserved before the current event */
  uint64_t before;   /* bytes reserved before the last release */
  bool is_returning;
  bool is_direct; /* true if only driver allocations followed the last release */
} search_t;

static bool is_supply(gp_event_kind_t kind)
{
  return kind == GP_EVENT_SEGMENT_ALLOC || kind == GP_EVENT_SEGMENT_MAP;
}

static bool is_return(gp_event_kind_t kind)
{
  return kind == GP_EVENT_SEGMENT_FREE || kind == GP_EVENT_SEGMENT_UNMAP;
}

/* Returns true if the program called PyTorch's empty_cache, which is then on the stack (Python or C++). */
static bool is_of_program(const gp_snapshot_t *snapshot, int stack)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  for (size_t i = stack < 0 ? 1 : stacks->first[stack]; stack >= 0 && i < stacks->first[stack + 1]; i++) {
    const char *function = snapshot->frames[stacks->frame_indexes[i]].function;
    if (strstr(function, "empty_cache") || strstr(function, "emptyCache"))
      return true;
  }
  return false;
}

static int begin_return(search_t *search, size_t event, int stack)
{
  returns_t *returns = search->returns;
  returned_t *item = GP_ARRAY_ADD(returns->items, returns->count);
  if (!item)
    return ENOMEM;
  *item = (returned_t){.event = event, .stack = stack};
  search->before = search->reserved;
  return 0;
}

/* Finds the cause of a release, once the next request is known. The request is no cause if a released piece
 * was as large, because that piece would have served it. If both have one stack, one call of the allocator
 * made them. Until PyTorch 2.1 stacks may be those of older calls, and they may be missing. Then bytes
 * decide: it was a retry if the request plus the memory reserved before would have exceeded the peak. */
static void find_cause(search_t *search, returned_t *item, int stack)
{
  bool is_at_edge =
      search->device && !search->device->lacks_reserved &&
      gp_add_saturated(search->before, item->needed) > search->device->stats.reserved_bytes.peak;
  bool is_one_call = stack >= 0 && stack == item->stack;
  if (is_of_program(search->snapshot, item->stack))
    item->cause = CAUSE_PROGRAM;
  else if (item->has_failed || (item->largest < item->needed && (is_one_call || is_at_edge)))
    item->cause = CAUSE_RETRY;
  else
    item->cause = CAUSE_UNKNOWN;
}

static int step(search_t *search, size_t event)
{
  const gp_snapshot_events_t *events = &search->snapshot->events;
  gp_event_kind_t kind = gp_snapshot_event_kind(events, event);
  uint64_t size = gp_snapshot_event_uint(events, GP_COLUMN_SIZE, event);
  uint64_t time_ns = gp_snapshot_event_uint(events, GP_COLUMN_TIME_NS, event);
  int stack = (int)gp_snapshot_event(events, GP_COLUMN_STACK, event, -1);
  int error = 0;

  if (is_return(kind) && !search->is_returning)
    error = begin_return(search, event, stack);
  returned_t *item = search->returns->count ? &search->returns->items[search->returns->count - 1] : NULL;
  if (error || !item)
    return error;
  uint64_t lasted_ns =
      gp_subtract_saturated(time_ns, gp_snapshot_event_uint(events, GP_COLUMN_TIME_NS, item->event));
  if (is_return(kind)) {
    item->bytes = gp_add_saturated(item->bytes, size);
    item->largest = size > item->largest ? size : item->largest;
    item->lasted_ns = lasted_ns;
  } else if (search->is_returning || (search->is_direct && (is_supply(kind) || kind == GP_EVENT_OOM))) {
    item->needed = gp_add_saturated(item->needed, is_supply(kind) || kind == GP_EVENT_OOM ? size : 0);
    item->has_failed = kind == GP_EVENT_OOM;
    find_cause(search, item, stack);
    if (item->cause == CAUSE_RETRY)
      item->lasted_ns = lasted_ns;
  }
  search->is_direct = is_supply(kind) && (search->is_returning || search->is_direct);
  search->is_returning = is_return(kind);
  if (is_supply(kind)) {
    item->again = gp_add_saturated(item->again, size);
    item->calls++;
  }
  return 0;
}

/* Finds the releases on one device. Returns 0 or ENOMEM. The caller frees returns->items in any case. */
static int find_returns(returns_t *returns, const gp_lifetimes_t *lifetimes, int device)
{
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;
  search_t search = {.returns = returns,
      .snapshot = lifetimes->snapshot,
      .device = gp_snapshot_device(lifetimes->snapshot, device)};
  gp_memory_walk_t walk;
  int error = 0;

  *returns = (returns_t){.count = 0};
  gp_memory_walk_begin(&walk, lifetimes, NULL, NULL, device);
  do {
    search.reserved = walk.memory.reserved;
    if (walk.moment < lifetimes->end && gp_snapshot_event(events, GP_COLUMN_DEVICE, walk.moment, 0) == device)
      error = step(&search, walk.moment);
  } while (!error && gp_memory_walk_next(&walk));
  return error;
}

/* Sums of the releases with one cause. Retries always count; others if at least half was allocated again. */
typedef struct sum {
  uint64_t count;
  uint64_t in_vain;
  uint64_t bytes;
  uint64_t again; /* bytes allocated again; at most the released bytes of each release */
  uint64_t calls;
  uint64_t lasted_ns;
  const returned_t *first;
  const returned_t *largest;
  bool is_elsewhere; /* true if some releases have another owner than the first */
} sum_t;

static void sum_up(const gp_snapshot_t *snapshot, const returns_t *returns, cause_t cause, sum_t *ret_sum)
{
  sum_t sum = {.count = 0};
  for (size_t i = 0; i < returns->count; i++) {
    const returned_t *item = &returns->items[i];
    if (item->cause != cause || (cause != CAUSE_RETRY && item->again < item->bytes / 2))
      continue;
    sum.count++;
    sum.in_vain += item->has_failed;
    sum.bytes = gp_add_saturated(sum.bytes, item->bytes);
    sum.again = gp_add_saturated(sum.again, item->again < item->bytes ? item->again : item->bytes);
    sum.calls += item->calls;
    sum.lasted_ns = gp_add_saturated(sum.lasted_ns, item->lasted_ns);
    sum.first = sum.first ? sum.first : item;
    sum.is_elsewhere |= gp_stack_owner(snapshot, item->stack) != gp_stack_owner(snapshot, sum.first->stack);
    sum.largest = !sum.largest || item->bytes > sum.largest->bytes ? item : sum.largest;
  }
  *ret_sum = sum;
}

/* Writes the place in the program, ", in step train.py:42", or "" if the owner is unknown. Returns buffer. */
static char *place_of(const gp_snapshot_t *snapshot, int stack, const char *word, char *buffer)
{
  char line[3 * GP_OWNER_NAME_BYTES], shown[PLACE_BYTES];
  gp_owner_text_t text;

  buffer[0] = '\0';
  if (!gp_stack_owner_text(snapshot, stack, &text))
    return buffer;
  if (strcmp(text.operation, "empty_cache") == 0) /* the sentence already names it */
    text.operation[0] = '\0';
  gp_owner_describe(&text, line, sizeof(line));
  snprintf(
      buffer, PLACE_BYTES, ", %s %s", word, gp_text_shorten(line, PLACE_COLUMNS, shown, sizeof(shown) - 8));
  return buffer;
}

/* Writes how long the releases took, "That took at least 1.2 s.", or "" if unknown. Returns buffer. */
static char *time_of(const gp_snapshot_t *snapshot, const sum_t *sum, char *buffer, size_t capacity)
{
  buffer[0] = '\0';
  if (!snapshot->times_are_numbers && sum->lasted_ns)
    snprintf(buffer, capacity, " That took at least %s.", GP_AS_DURATION(sum->lasted_ns));
  return buffer;
}

static void judge_retries(gp_findings_t *findings, int device, const sum_t *sum)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  char failed_wait[GP_NUMBER_BYTES + 16] = "";
  char place[PLACE_BYTES], took[64], garbage[128] = "", conf[GP_CONF_BYTES];
  const char *threshold = gp_findings_setting(findings, "garbage_collection_threshold");

  if (sum->in_vain == sum->count) /* another finding reports that memory ran out each time */
    return;
  if (sum->in_vain)
    snprintf(failed_wait, sizeof(failed_wait), ", for %s without success", GP_AS_COUNT(sum->in_vain));
  if (threshold[0] && strcmp(threshold, "0") != 0)
    snprintf(garbage, sizeof(garbage), " (or garbage_collection_threshold=%.16s was exceeded)", threshold);
  uint64_t time_ns = gp_snapshot_event_uint(&snapshot->events, GP_COLUMN_TIME_NS, sum->first->event);
  gp_finding_t *finding = gp_findings_say(findings, GP_FINDING(retries_of_pytorch), device, device,
      GP_AS_PLURAL(sum->count, "request"), garbage, GP_AS_SIZE(sum->bytes), failed_wait,
      time_of(snapshot, sum, took, sizeof(took)), GP_AS_MOMENT(snapshot, time_ns),
      place_of(snapshot, sum->first->stack, "for", place));
  if (gp_remedies_expand(findings, finding, conf))
    gp_findings_advise(findings, finding, GP_ADVICE(retries_expandable), conf);
  else
    gp_findings_advise(findings, finding, GP_ADVICE(retries_of_pytorch), sum->first->event);
}

/* Reports memory that was released, but allocated again before the next release. */
static void judge_emptied(gp_findings_t *findings, int device, const sum_t *sum, bool is_known)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  char place[PLACE_BYTES], took[64], who[PLACE_BYTES + 96];

  if (sum->again < AGAIN_BYTES)
    return;
  if (is_known)
    snprintf(who, sizeof(who), "In %s of empty_cache%s%s,", GP_AS_PLURAL(sum->count, "call"),
        place_of(snapshot, sum->largest->stack, "in", place), sum->is_elsewhere ? " and elsewhere" : "");
  else
    snprintf(who, sizeof(who), "PyTorch released memory %s:", GP_AS_PLURAL(sum->count, "time"));
  gp_finding_t *finding = gp_findings_say_as(findings,
      sum->count < OFTEN ? GP_SEVERITY_NOTE : GP_SEVERITY_WARNING, GP_FINDING(emptied), device, who,
      GP_AS_SIZE(sum->bytes), device, time_of(snapshot, sum, took, sizeof(took)), GP_AS_SIZE(sum->again),
      GP_AS_PLURAL(sum->calls, "driver allocation"),
      is_known
          ? ""
          : " The file does not say why: the program called empty_cache, a private pool ended, or memory was short.");
  if (is_known)
    gp_findings_advise(findings, finding, GP_ADVICE(emptied));
}

void gp_findings_judge_returns(gp_findings_t *findings, const gp_summary_device_t *device)
{
  int ordinal = device->device->device;
  returns_t returns;
  sum_t retries, emptied, unknown;

  if (strcmp(gp_findings_reason(findings), "PyTorch snapshot") != 0)
    return;
  if (find_returns(&returns, &findings->summary->lifetimes, ordinal))
    findings->out_of_memory = true;
  sum_up(findings->summary->snapshot, &returns, CAUSE_RETRY, &retries);
  sum_up(findings->summary->snapshot, &returns, CAUSE_PROGRAM, &emptied);
  sum_up(findings->summary->snapshot, &returns, CAUSE_UNKNOWN, &unknown);
  if (retries.count)
    judge_retries(findings, ordinal, &retries);
  if (emptied.count)
    judge_emptied(findings, ordinal, &emptied, true);
  if (unknown.count)
    judge_emptied(findings, ordinal, &unknown, false);
  free(returns.items);
}
