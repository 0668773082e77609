/*
 * Sums the bytes of each stack over three sets of blocks: those live in the snapshot, those live at the peak,
 * and all that ever existed.
 *
 * A forward pass through the events finds the peak. A backward pass then starts with the blocks of the
 * snapshot, and undoes the events one by one. A block's bytes count for the stack that allocated it. The
 * stack of the free may differ, so the stack is known only when the pass undoes the allocation. Blocks that
 * are left after the backward pass existed before the first event.
 */
#include <errno.h>
#include <stdlib.h>

#include "tools/export/export.h"

static void add(gp_export_weights_t *weights, gp_export_metric_t metric, int stack, uint64_t bytes)
{
  weights->bytes[metric][stack + 1] += bytes;
  weights->sums[metric] += bytes;
}

/* Returns +1 if the event begins a block's lifetime, -1 if it ends one, otherwise 0. */
static int direction(const gp_export_event_t *event)
{
  if (!event->block)
    return 0;
  switch (event->kind) {
  case GP_EVENT_ALLOC: return 1;
  case GP_EVENT_FREE_REQUESTED: return -1;
  case GP_EVENT_FORWARDED_ALLOC: return gp_export_is_device_memory(event->detail) ? 1 : 0;
  case GP_EVENT_FORWARDED_FREE: return gp_export_is_device_memory(event->detail) ? -1 : 0;
  default: return 0;
  }
}

/* Returns the number of events up to the peak, the first moment at which the most bytes were live. */
static size_t find_peak(const gp_export_t *export)
{
  gp_export_event_t event;
  int64_t held = 0, most = 0; /* relative to the bytes that were live before the first event */
  size_t at = 0;
  for (size_t i = 0; i < export->event_count; i++) {
    if (!gp_export_event(export, i, &event))
      continue;
    int sign = direction(&event);
    if (sign == 0)
      continue;
    /* The sum may wrap around for a damaged snapshot. */
    held = (int64_t)((uint64_t)held + (sign > 0 ? event.rounded : 0 - event.rounded));
    if (held > most) {
      most = held;
      at = i + 1;
    }
  }
  return at;
}

static void mark_all(gp_block_map_t *live)
{
  for (size_t i = 0; i < live->count; i++)
    live->entries[i].is_marked = true;
}

static int undo(const gp_export_t *export, gp_export_weights_t *weights, gp_block_map_t *live)
{
  size_t peak = find_peak(export);
  gp_export_event_t event;
  gp_block_entry_t entry;

  for (size_t i = export->event_count; i-- > 0;) {
    if (i + 1 == peak)
      mark_all(live);
    gp_export_progress(export, export->event_count - i, export->event_count);
    if (!gp_export_event(export, i, &event))
      continue;
    int sign = direction(&event);
    if (sign > 0) {
      add(weights, GP_EXPORT_TOTAL, event.stack, event.rounded);
      if (gp_block_map_take(live, event.block, &entry) && entry.is_marked)
        add(weights, GP_EXPORT_PEAK, event.stack, entry.rounded);
    } else if (sign < 0) {
      entry = (gp_block_entry_t){.key = event.block, .rounded = event.rounded, .stack = event.stack};
      if (!gp_block_map_put(live, &entry))
        return ENOMEM;
    }
  }
  if (peak == 0)
    mark_all(live);
  for (size_t i = 0; i < live->count; i++) {
    const gp_block_entry_t *left = &live->entries[i];
    add(weights, GP_EXPORT_TOTAL, left->stack, left->rounded);
    if (left->is_marked)
      add(weights, GP_EXPORT_PEAK, left->stack, left->rounded);
  }
  return 0;
}

int gp_export_weigh(const gp_export_t *export, gp_export_weights_t *ret_weights)
{
  gp_block_map_t live = {.count = 0};

  *ret_weights = (gp_export_weights_t){.count = export->snapshot->stacks.count + 1};
  for (int metric = 0; metric < GP_EXPORT_METRICS; metric++) {
    ret_weights->bytes[metric] = calloc(ret_weights->count, sizeof(uint64_t));
    if (!ret_weights->bytes[metric])
      return ENOMEM;
  }
  int error = gp_export_live_at_end(export, &live);
  for (size_t i = 0; i < live.count && !error; i++)
    add(ret_weights, GP_EXPORT_LIVE, live.entries[i].stack, live.entries[i].rounded);
  if (!error)
    error = undo(export, ret_weights, &live);
  gp_block_map_fini(&live);
  return error;
}

void gp_export_weights_fini(gp_export_weights_t *weights)
{
  for (int metric = 0; metric < GP_EXPORT_METRICS; metric++)
    free(weights->bytes[metric]);
  *weights = (gp_export_weights_t){.count = 0};
}
