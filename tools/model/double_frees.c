#include "tools/model/double_frees.h"

#include <string.h>

static int stack_of(const gp_snapshot_events_t *events, size_t event)
{
  return (int)gp_snapshot_event(events, GP_COLUMN_STACK, event, -1);
}

static bool is_of(const gp_snapshot_events_t *events, size_t event, int device, uint64_t block)
{
  return gp_snapshot_event_uint(events, GP_COLUMN_BLOCK, event) == block &&
         gp_snapshot_event(events, GP_COLUMN_DEVICE, event, 0) == device;
}

/* The block that was last freed at the address; 0: no event has one. The refusal names no block if idle
 * pieces of a cut segment have been merged. */
static uint64_t last_freed(const gp_snapshot_events_t *events, size_t event, gp_double_free_t *found)
{
  for (size_t i = event; i-- > 0;) {
    if (gp_snapshot_event_kind(events, i) != GP_EVENT_FREE_REQUESTED ||
        gp_snapshot_event_uint(events, GP_COLUMN_ADDRESS, i) != found->address ||
        gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0) != found->device)
      continue;
    found->requested = gp_snapshot_event_uint(events, GP_COLUMN_SIZE, i);
    return gp_snapshot_event_uint(events, GP_COLUMN_BLOCK, i);
  }
  return 0;
}

/* Finds the free that the one at `event` repeats, and the allocation, as far as the events reach back. */
static void find_first(
    const gp_snapshot_events_t *events, size_t event, bool has_free_stacks, gp_double_free_t *found)
{
  uint64_t block = gp_snapshot_event_uint(events, GP_COLUMN_BLOCK, event);
  if (!block)
    block = last_freed(events, event, found);
  for (size_t i = event; i-- > 0 && block;) {
    gp_event_kind_t kind = gp_snapshot_event_kind(events, i);
    if ((kind != GP_EVENT_FREE_REQUESTED && kind != GP_EVENT_ALLOC) ||
        !is_of(events, i, found->device, block))
      continue;
    if (kind == GP_EVENT_ALLOC || !has_free_stacks)
      found->alloc_stack = stack_of(events, i);
    if (kind == GP_EVENT_ALLOC)
      return;
    found->has_first = true;
    found->first_ns = gp_snapshot_event_uint(events, GP_COLUMN_TIME_NS, i);
    found->first_stack = has_free_stacks ? stack_of(events, i) : -1;
  }
}

void gp_double_frees_find(
    const gp_snapshot_t *snapshot, const gp_filter_t *filter, gp_double_frees_t *ret_frees)
{
  const gp_snapshot_events_t *events = &snapshot->events;
  const cJSON *settings = cJSON_GetObjectItemCaseSensitive(snapshot->root, "settings");

  *ret_frees =
      (gp_double_frees_t){.has_free_stacks = strcmp(gp_snapshot_text(settings, "stacks_free"), "1") == 0};
  for (size_t i = 0; i < events->count; i++) {
    int device = (int)gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0);
    if (gp_snapshot_event_kind(events, i) != GP_EVENT_FREE_REFUSED || !gp_filter_has_device(filter, device))
      continue;
    ret_frees->total++;
    if (ret_frees->count == GP_DOUBLE_FREES_MOST)
      continue;
    gp_double_free_t *found = &ret_frees->frees[ret_frees->count++];
    *found = (gp_double_free_t){.device = device,
        .address = gp_snapshot_event_uint(events, GP_COLUMN_ADDRESS, i),
        .requested = gp_snapshot_event_uint(events, GP_COLUMN_SIZE, i),
        .second_ns = gp_snapshot_event_uint(events, GP_COLUMN_TIME_NS, i),
        .alloc_stack = -1,
        .first_stack = -1,
        .second_stack = stack_of(events, i)};
    find_first(events, i, ret_frees->has_free_stacks, found);
  }
}
