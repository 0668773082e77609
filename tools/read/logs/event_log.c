#include "tools/read/logs/event_log.h"

#include <stdlib.h>

#include "tools/output.h"
#include "tools/saturated.h"

#define BEFORE_ADDRESS 1 /* placeholder address for memory allocated before the log began */

static bool add(
    gp_event_log_t *log, gp_event_kind_t kind, int64_t time_us, uint64_t address, uint64_t size, int stack)
{
  const gp_import_event_t event = {.action = gp_import_action(kind),
      .time_us = time_us,
      .address = address,
      .size = size,
      .rounded = kind == GP_EVENT_OOM ? 0 : size,
      .device_free = -1,
      .device = log->device,
      .stream = -1,
      .stack = stack,
      .pool = -1};
  return gp_import_add_event(log->import, &event);
}

bool gp_event_log_free(gp_event_log_t *log, int64_t time_us, uint64_t address, uint64_t size)
{
  gp_block_entry_t block = {.size = size, .stack = -1};
  if (!gp_block_map_take(&log->live, address + 1, &block))
    log->unmatched_bytes = gp_add_saturated(log->unmatched_bytes, size);
  return add(log, GP_EVENT_FREE_REQUESTED, time_us, address, block.size, -1) &&
         add(log, GP_EVENT_FREE_COMPLETED, time_us, address, block.size, -1);
}

bool gp_event_log_alloc(gp_event_log_t *log, int64_t time_us, uint64_t address, uint64_t size, int stack)
{
  const gp_block_entry_t block = {.key = address + 1, .address = address, .size = size, .stack = stack};
  if (gp_block_map_find(&log->live, block.key)) {
    log->lost++;
    if (!gp_event_log_free(log, time_us, address, 0))
      return false;
  }
  return (gp_block_map_put(&log->live, &block) || gp_import_no_memory(log->import)) &&
         add(log, GP_EVENT_ALLOC, time_us, address, size, stack);
}

bool gp_event_log_oom(gp_event_log_t *log, int64_t time_us, uint64_t size, int stack)
{
  return add(log, GP_EVENT_OOM, time_us, 0, size, stack);
}

/* Adds a block in use, as a segment of its own. */
static bool add_block(gp_event_log_t *log, const gp_block_entry_t *from)
{
  gp_import_t *import = log->import;
  gp_snapshot_t *snapshot = import->snapshot;
  if (!GP_IMPORT_RESERVE(import, snapshot->segments, snapshot->segment_count, log->segment_room) ||
      !GP_IMPORT_RESERVE(import, snapshot->blocks, snapshot->block_count, log->block_room))
    return false;
  snapshot->blocks[snapshot->block_count] = (gp_snapshot_block_t){.address = from->address,
      .size = from->size,
      .requested = from->size,
      .segment = snapshot->segment_count,
      .device = log->device,
      .stream = -1,
      .stack = from->stack,
      .state = GP_SNAPSHOT_ALLOCATED};
  snapshot->segments[snapshot->segment_count++] = (gp_snapshot_segment_t){.address = from->address,
      .size = from->size,
      .device = log->device,
      .stream = -1,
      .first_block = snapshot->block_count++,
      .block_count = 1};
  return true;
}

static bool add_before(gp_event_log_t *log, uint64_t bytes)
{
  static const char name[] = GP_SNAPSHOT_BEFORE;
  const gp_value_t function = {.text = name, .length = sizeof(name) - 1, .kind = GP_VALUE_TEXT};
  gp_block_entry_t block = {.address = BEFORE_ADDRESS, .size = bytes};
  int frame;
  return gp_import_frame(log->import, &function, NULL, 0, &frame) &&
         gp_import_stack_of(log->import, &frame, 1, &block.stack) && add_block(log, &block);
}

bool gp_event_log_end_device(gp_event_log_t *log, uint64_t bytes_before)
{
  gp_block_entry_t *blocks = gp_block_map_sorted(&log->live);
  bool good = blocks || gp_import_no_memory(log->import);
  if (good && bytes_before > log->unmatched_bytes)
    good = add_before(log, bytes_before - log->unmatched_bytes);
  for (size_t i = 0; good && i < log->live.count; i++)
    good = add_block(log, &blocks[i]);
  free(blocks);
  gp_block_map_fini(&log->live);
  log->live = (gp_block_map_t){0};
  log->unmatched_bytes = 0;
  return good && gp_import_device(log->import, log->device);
}

bool gp_event_log_end(gp_event_log_t *log, gp_log_kind_t kind)
{
  gp_snapshot_t *snapshot = log->import->snapshot;
  log->import->source = gp_import_logs[kind];
  snapshot->lacks_segments = true;
  gp_snapshot_note_usual(snapshot,
      "this log records allocations but not the pool's segments, so reserved and cached memory are unknown");
  if (log->lost)
    gp_snapshot_note(snapshot,
        "%s %s missing from the log: an address was allocated again before it was freed",
        GP_AS_PLURAL(log->lost, "free"), log->lost == 1 ? "is" : "are");
  gp_block_map_fini(&log->live);
  return true;
}
