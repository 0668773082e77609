/*
 * What export_memory_timeline() of PyTorch's profiler writes as *.raw.json.gz (torch/profiler/
 * _memory_profiler.py): a list of [time in ns, action, bytes, category] of one device. It has no addresses,
 * so each free is matched to the newest block of the same size and category. The categories are the owners.
 */
#include "tools/read/logs/event_log.h"
#include "tools/read/logs/logs.h"
#include "tools/read/pytorch/import_json.h"

enum { PREEXISTING = 1, CREATE, INCREMENT_VERSION, DESTROY };

static const char *const categories[] = {"parameters", "optimizer state", "inputs", "temporaries",
    "activations", "gradients", "autograd details", "unknown"};
#define CATEGORIES (sizeof(categories) / sizeof(categories[0]))

#define SPACING UINT64_C(512)

typedef struct timeline {
  gp_event_log_t log;
  gp_block_map_t newest; /* by category and size: the address of the newest block */
  gp_block_map_t older;  /* by address: that of the block before it; 0: none */
  uint64_t next_address;
  int64_t last_us;
  int64_t moved; /* bytes that leave a category; the next row says which they go to */
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

/* A new tensor version takes two rows: one removes it from its old category, the next adds it to the new one,
 * often the same. */
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
  if (items[0].integer >= 0 && items[0].integer / 1000 > timeline->last_us) /* -1: it was there before */
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
