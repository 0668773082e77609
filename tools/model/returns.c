#include "tools/model/returns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/array.h"
#include "tools/model/memory.h"
#include "tools/model/saturated.h"

typedef struct search {
  gp_returns_t *returns;
  const gp_snapshot_t *snapshot;
  const gp_snapshot_device_t *device;
  uint64_t reserved; /* after the event */
  uint64_t before;   /* reserved before the last return */
  bool is_returning;
  bool is_direct; /* only supplies since the last return */
} search_t;

static bool is_supply(gp_event_kind_t kind)
{
  return kind == GP_EVENT_SEGMENT_ALLOC || kind == GP_EVENT_SEGMENT_MAP;
}

static bool is_return(gp_event_kind_t kind)
{
  return kind == GP_EVENT_SEGMENT_FREE || kind == GP_EVENT_SEGMENT_UNMAP;
}

/* PyTorch's function, in Python or in C++. */
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
  gp_returns_t *returns = search->returns;
  gp_return_t *item = GP_ARRAY_ADD(returns->items, returns->count);
  if (!item)
    return ENOMEM;
  *item = (gp_return_t){.event = event, .stack = stack};
  search->before = search->reserved;
  return 0;
}

/* After the request that may have been the cause. A piece that is as large would have served it. One call of
 * the allocator has one stack. Where the stacks are those of older calls, as until PyTorch 2.1, or none, the
 * bytes show it: with the request on top of what was there before more would have been reserved than ever
 * was. */
static void judge(search_t *search, gp_return_t *item, int stack)
{
  bool is_at_edge =
      search->device && !search->device->lacks_reserved &&
      gp_add_saturated(search->before, item->needed) > search->device->stats.reserved_bytes.peak;
  bool is_one_call = stack >= 0 && stack == item->stack;
  if (is_of_program(search->snapshot, item->stack))
    item->cause = GP_RETURN_PROGRAM;
  else if (item->is_in_vain || (item->largest < item->needed && (is_one_call || is_at_edge)))
    item->cause = GP_RETURN_RETRY;
  else
    item->cause = GP_RETURN_UNKNOWN;
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
  gp_return_t *item = search->returns->count ? &search->returns->items[search->returns->count - 1] : NULL;
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
    item->is_in_vain = kind == GP_EVENT_OOM;
    judge(search, item, stack);
    if (item->cause == GP_RETURN_RETRY)
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

int gp_returns_init(gp_returns_t *returns, const gp_lifetimes_t *lifetimes, int device)
{
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;
  search_t search = {.returns = returns,
      .snapshot = lifetimes->snapshot,
      .device = gp_snapshot_device(lifetimes->snapshot, device)};
  gp_memory_t memory;
  int error = 0;

  *returns = (gp_returns_t){.count = 0};
  gp_memory_begin(lifetimes, device, &memory);
  search.reserved = memory.reserved;
  for (size_t i = 0; !error && i < events->count; i++) {
    if (gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0) != device)
      continue;
    error = step(&search, i);
    gp_memory_step(lifetimes, i, &memory);
    search.reserved = memory.reserved;
  }
  return error;
}

void gp_returns_fini(gp_returns_t *returns)
{
  free(returns->items);
  *returns = (gp_returns_t){.count = 0};
}
