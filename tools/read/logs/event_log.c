#include "tools/read/logs/event_log.h"

#include <stdlib.h>

#include "tools/output.h"
#include "tools/saturated.h"
#include "tools/read/logs/rows.h"
#include "tools/read/pytorch/import_json.h"

/*
 * Reads the *.raw.json.gz that export_memory_timeline() of PyTorch's profiler writes
 * (torch/profiler/_memory_profiler.py). The file is a list of [time in ns, action, bytes, category] for one
 * device. It contains no addresses, so each free is matched to the newest block of the same size and
 * category. The categories serve as owners.
 */

enum { PREEXISTING = 1, CREATE, INCREMENT_VERSION, DESTROY };

static const char *const categories[] = {"parameters", "optimizer state", "inputs", "temporaries",
    "activations", "gradients", "autograd details", "unknown"};
#define CATEGORIES (sizeof(categories) / sizeof(categories[0]))

#define SPACING UINT64_C(512)

typedef struct timeline {
  gp_event_log_t log;
  gp_block_map_t newest; /* by category and size: address of the newest block */
  /* By address: address of the next older block of the same category and size; 0: none. */
  gp_block_map_t older;
  uint64_t next_address;
  int64_t last_us;
  int64_t moved; /* bytes that the previous row removed from a category; this row may add them to another */
  uint32_t moved_from;
  int stacks[CATEGORIES];
  size_t row;
} timeline_t;

static uint64_t key_of(uint32_t category, uint64_t bytes)
{
  return (bytes * CATEGORIES + category) + 1;
}

static bool allocate(timeline_t *timeline, uint32_t category, uint64_t bytes)
{
  gp_block_entry_t entry = {.key = key_of(category, bytes), .address = timeline->next_address};
  const gp_block_entry_t *before = gp_block_map_find(&timeline->newest, entry.key);
  const gp_block_entry_t older = {.key = entry.address, .address = before ? before->address : 0};
  timeline->next_address += (bytes / SPACING + 1) * SPACING;
  if (timeline->next_address > INT64_MAX)
    return gp_value_tree_fail(&timeline->log.import->tree, 0, "more bytes than there are addresses");
  return ((gp_block_map_put(&timeline->older, &older) && gp_block_map_put(&timeline->newest, &entry)) ||
             gp_import_no_memory(timeline->log.import)) &&
         gp_event_log_alloc(
             &timeline->log, timeline->last_us, entry.address, bytes, timeline->stacks[category]);
}

static bool release(timeline_t *timeline, uint32_t category, uint64_t bytes)
{
  gp_block_entry_t *newest = gp_block_map_find(&timeline->newest, key_of(category, bytes)), older;
  if (!newest || !newest->address)
    return true; /* no block matches this free */
  uint64_t address = newest->address;
  newest->address = gp_block_map_take(&timeline->older, address, &older) ? older.address : 0;
  return gp_event_log_free(&timeline->log, timeline->last_us, address, bytes);
}

/* Applies a row. A new version of a tensor has two rows. The first removes the tensor from its old category,
 * and the second adds it to its new category, which is often the same. */
static bool take(timeline_t *timeline, int64_t action, int64_t bytes, uint32_t category)
{
  if (action == INCREMENT_VERSION && bytes < 0) {
    timeline->moved = -bytes;
    timeline->moved_from = category;
    return true;
  }
  int64_t moved = timeline->moved;
  timeline->moved = 0;
  if (action == INCREMENT_VERSION && moved == bytes)
    return timeline->moved_from == category || (release(timeline, timeline->moved_from, (uint64_t)moved) &&
                                                   allocate(timeline, category, (uint64_t)bytes));
  return bytes < 0 ? release(timeline, category, (uint64_t)-bytes)
                   : allocate(timeline, category, (uint64_t)bytes);
}

static bool read_row(void *self, const gp_value_t *row)
{
  timeline_t *timeline = self;
  const gp_value_t *items = row->kind == GP_VALUE_LIST ? row->container->items : NULL;
  bool good = items && row->container->count == 4;
  for (size_t i = 0; good && i < 4; i++)
    good = items[i].kind == GP_VALUE_INTEGER;
  good = good && items[1].integer >= PREEXISTING && items[1].integer <= DESTROY &&
         items[2].integer <= GP_IMPORT_NUMBER_MOST && items[2].integer >= -GP_IMPORT_NUMBER_MOST &&
         items[3].integer >= 0 && items[3].integer < (int64_t)CATEGORIES;
  if (!good && !timeline->row && items && row->container->count && items[0].kind != GP_VALUE_LIST)
    return gp_value_tree_fail(&timeline->log.import->tree, 0,
        "a memory timeline for plots, without events: export_memory_timeline writes these to a file named *.raw.json.gz");
  if (!good)
    return gp_value_tree_fail(&timeline->log.import->tree, 0,
        "row %zu of this memory timeline is not [time, action, bytes, category]", timeline->row);
  timeline->row++;
  if (items[0].integer >= 0 &&
      items[0].integer / 1000 > timeline->last_us) /* time -1: the block existed before the log */
    timeline->last_us = items[0].integer / 1000;
  return take(timeline, items[1].integer, items[2].integer, (uint32_t)items[3].integer);
}

static bool make_stacks(timeline_t *timeline)
{
  bool good = true;
  for (size_t i = 0; good && i < CATEGORIES; i++) {
    const gp_value_t name = {
        .text = categories[i], .length = (uint32_t)strlen(categories[i]), .kind = GP_VALUE_TEXT};
    int frame;
    good = gp_import_frame(timeline->log.import, &name, NULL, 0, &frame) &&
           gp_import_stack_of(timeline->log.import, &frame, 1, &timeline->stacks[i]);
  }
  return good;
}

bool gp_memory_timeline_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top)
{
  timeline_t timeline = {.log = {.import = import}, .next_address = SPACING, .last_us = -1};
  (void)ret_top;
  bool good = make_stacks(&timeline) && gp_import_json_items(import, input, NULL, read_row, &timeline) &&
              gp_event_log_end_device(&timeline.log, 0);
  gp_block_map_fini(&timeline.newest);
  gp_block_map_fini(&timeline.older);
  if (good)
    gp_snapshot_note_usual(import->snapshot,
        "the file has no addresses: each free is matched to the newest block of the same size and category");
  return gp_event_log_end(&timeline.log, GP_LOG_TIMELINE) && good;
}

/*
 * Reads the log of RMM's logging_resource_adaptor, which contains no stacks and no device.
 */

typedef struct log {
  gp_event_log_t log;
  uint64_t last_us;
} log_t;

static const char *take_row(void *self, const gp_field_t *fields, int count)
{
  log_t *log = self;
  gp_rmm_row_t row;
  const char *problem = gp_rmm_row(fields, count, &row);
  if (problem)
    return problem;
  log->last_us = row.time_us > log->last_us ? row.time_us : log->last_us; /* times may decrease */
  int64_t time_us = (int64_t)log->last_us;
  bool good = row.action == GP_RMM_FAILURE           ? gp_event_log_oom(&log->log, time_us, row.size, -1)
              : !row.size || row.pointer > INT64_MAX ? true /* empty blocks may share addresses */
              : row.action == GP_RMM_FREE ? gp_event_log_free(&log->log, time_us, row.pointer, row.size)
                                          : gp_event_log_alloc(&log->log, time_us, row.pointer, row.size, -1);
  return good ? NULL : "not enough memory to read this";
}

bool gp_rmm_log_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top)
{
  log_t log = {.log = {.import = import}};
  size_t line = 0;
  (void)ret_top;

  const char *problem = gp_input_read_all(input) ? NULL : input->error;
  gp_value_tree_grow(&import->tree, input->length);
  if (!problem)
    problem = gp_rows_read(input->text, input->length, true, take_row, &log, &line);
  if (problem)
    (void)gp_value_tree_fail(&import->tree, 0, "line %zu: %s", line, problem);
  bool good = !problem && gp_event_log_end_device(&log.log, 0);
  return gp_event_log_end(&log.log, GP_LOG_RMM) && good;
}

#define BEFORE_ADDRESS 1 /* placeholder address for memory that was allocated before the log began */

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

/* Adds a block that is in use at the end, in a segment of its own. */
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
