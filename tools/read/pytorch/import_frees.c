/*
 * Adds missing events of frees. With _record_memory_history(skip_actions=[...]) PyTorch may omit
 * free_requested, which records that the program frees a block. It may also omit free_completed, after which
 * PyTorch can reuse the block. Both events of a block are adjacent unless another stream used the block, too.
 * So the missing event is added directly before or after the existing one.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/read/pytorch/import_parts.h"

typedef struct frees {
  gp_import_t *import;
  bool *is_added;  /* by event: true if the event's counterpart must be added */
  size_t added;    /* number of true elements in is_added */
  size_t at_end;   /* number of frees to add at the end, for blocks that are pending then */
  bool adds_begin; /* add free_requested before each such event; otherwise add free_completed after it */
  gp_block_map_t blocks[GP_SNAPSHOT_DEVICES]; /* the key is the address plus 1 */
} frees_t;

static gp_event_kind_t kind_of(const gp_import_t *import, size_t i)
{
  return (gp_event_kind_t)import->snapshot->events.kinds[import->columns[GP_COLUMN_ACTION][i]];
}

static uint64_t count_events(const gp_import_t *import, gp_event_kind_t kind)
{
  uint64_t count = 0;
  for (size_t i = 0; i < import->snapshot->events.count; i++)
    count += kind_of(import, i) == kind;
  return count;
}

static bool put(frees_t *frees, int64_t device, uint64_t address)
{
  const gp_block_entry_t entry = {.key = address + 1};
  return gp_block_map_put(&frees->blocks[device], &entry) || gp_import_no_memory(frees->import);
}

static bool take(frees_t *frees, size_t i)
{
  int64_t *const *columns = frees->import->columns;
  uint64_t address = (uint64_t)columns[GP_COLUMN_ADDRESS][i];
  return gp_block_map_take(&frees->blocks[columns[GP_COLUMN_DEVICE][i]], address + 1, NULL);
}

static void add_at(frees_t *frees, size_t i)
{
  frees->is_added[i] = true;
  frees->added++;
}

/* Searches snapshots without any events of frees for a freed block. *ret_is_lost is true if a block was
 * freed, which shows because the block does not exist at the end. The time of the free is unknown. */
static bool find_lost(frees_t *frees, bool *ret_is_lost)
{
  const gp_snapshot_t *snapshot = frees->import->snapshot;
  for (size_t i = 0; i < snapshot->block_count; i++) {
    const gp_snapshot_block_t *block = &snapshot->blocks[i];
    bool is_there = block->state == GP_SNAPSHOT_ALLOCATED || block->state == GP_SNAPSHOT_PENDING;
    if (is_there && !put(frees, block->device, block->address))
      return false;
  }
  *ret_is_lost = false;
  for (size_t i = snapshot->events.count; i-- > 0 && !*ret_is_lost;)
    *ret_is_lost = kind_of(frees->import, i) == GP_EVENT_ALLOC && !take(frees, i);
  return true;
}

/* For snapshots without free_completed: marks each free for which to add one. Blocks that are pending at the
 * end get none. */
static bool find_begun(frees_t *frees)
{
  const gp_snapshot_t *snapshot = frees->import->snapshot;
  for (size_t i = 0; i < snapshot->block_count; i++) {
    const gp_snapshot_block_t *block = &snapshot->blocks[i];
    if (block->state == GP_SNAPSHOT_PENDING && !put(frees, block->device, block->address))
      return false;
  }
  for (size_t i = snapshot->events.count; i-- > 0;) {
    gp_event_kind_t kind = kind_of(frees->import, i);
    if ((kind == GP_EVENT_ALLOC || kind == GP_EVENT_FREE_REQUESTED) && !take(frees, i) &&
        kind == GP_EVENT_FREE_REQUESTED)
      add_at(frees, i);
  }
  return true;
}

/* For snapshots without free_requested: finds out whether PyTorch omitted that event. It did if a block whose
 * allocation was recorded completes its free. Then each free_completed gets a free_requested. This includes
 * blocks from before the recording, although the program may have freed them before it, too. */
static bool find_ended(frees_t *frees)
{
  const gp_snapshot_t *snapshot = frees->import->snapshot;
  int64_t *const *columns = frees->import->columns;
  bool is_missing = false;
  for (size_t i = 0; i < snapshot->events.count; i++) {
    gp_event_kind_t kind = kind_of(frees->import, i);
    if (kind == GP_EVENT_ALLOC &&
        !put(frees, columns[GP_COLUMN_DEVICE][i], (uint64_t)columns[GP_COLUMN_ADDRESS][i]))
      return false;
    is_missing |= kind == GP_EVENT_FREE_COMPLETED && take(frees, i);
  }
  for (size_t i = 0; is_missing && i < snapshot->events.count; i++) {
    if (kind_of(frees->import, i) == GP_EVENT_FREE_COMPLETED)
      add_at(frees, i);
  }
  for (size_t i = 0; is_missing && i < snapshot->block_count; i++)
    frees->at_end += snapshot->blocks[i].state == GP_SNAPSHOT_PENDING;
  return true;
}

static int64_t action_of(const gp_snapshot_events_t *events, gp_event_kind_t kind)
{
  size_t action = 0;
  while (events->kinds[action] != kind) /* PyTorch's actions always exist */
    action++;
  return (int64_t)action;
}

/* Returns the value for `column` of the free_requested that is added for a block pending at the end. The time
 * is that of the last event. */
static int64_t value_at_end(const gp_import_t *import, const gp_snapshot_block_t *block, int column)
{
  const int64_t *times = import->columns[GP_COLUMN_TIME_NS];
  switch (column) {
  case GP_COLUMN_ACTION: return action_of(&import->snapshot->events, GP_EVENT_FREE_REQUESTED);
  case GP_COLUMN_TIME_NS: return times[import->snapshot->events.count - 1];
  case GP_COLUMN_DEVICE: return block->device;
  case GP_COLUMN_STREAM: return block->stream;
  case GP_COLUMN_ADDRESS: return (int64_t)block->address;
  case GP_COLUMN_SIZE: return (int64_t)block->requested;
  case GP_COLUMN_STACK: return block->stack;
  case GP_IMPORT_POOL:
  case GP_IMPORT_DEVICE_FREE: return -1;
  default: return 0;
  }
}

/* Copies a column to `values`, and inserts the values of the added events. */
static void fill(const frees_t *frees, int column, int64_t *values)
{
  const gp_import_t *import = frees->import;
  const gp_snapshot_t *snapshot = import->snapshot;
  const int64_t *from = import->columns[column];
  bool is_action = column == GP_COLUMN_ACTION;
  int64_t action =
      action_of(&snapshot->events, frees->adds_begin ? GP_EVENT_FREE_REQUESTED : GP_EVENT_FREE_COMPLETED);
  for (size_t i = 0; i < snapshot->events.count; i++) {
    if (frees->is_added[i] && frees->adds_begin)
      *values++ = is_action ? action : from[i];
    *values++ = from[i];
    if (frees->is_added[i] && !frees->adds_begin)
      *values++ = is_action ? action : from[i];
  }
  for (size_t i = 0; frees->at_end && i < snapshot->block_count; i++) {
    if (snapshot->blocks[i].state == GP_SNAPSHOT_PENDING)
      *values++ = value_at_end(import, &snapshot->blocks[i], column);
  }
}

static bool add_events(frees_t *frees)
{
  gp_import_t *import = frees->import;
  size_t count = import->snapshot->events.count + frees->added + frees->at_end;
  int64_t *filled[GP_IMPORT_COLUMNS] = {NULL};
  bool good = gp_value_tree_account(&import->tree, count * GP_IMPORT_COLUMNS * sizeof(int64_t));

  for (int column = 0; column < GP_IMPORT_COLUMNS && good; column++) {
    if (!import->columns[column])
      continue;
    filled[column] = malloc(count * sizeof(int64_t));
    good = filled[column] || gp_import_no_memory(import);
    if (good)
      fill(frees, column, filled[column]);
  }
  for (int column = 0; column < GP_IMPORT_COLUMNS; column++) {
    free(good ? import->columns[column] : filled[column]);
    if (good)
      import->columns[column] = filled[column];
  }
  if (good)
    import->snapshot->events.count = count;
  return good;
}

bool gp_import_complete_frees(gp_import_t *import)
{
  gp_snapshot_t *snapshot = import->snapshot;
  frees_t frees = {.import = import, .adds_begin = !count_events(import, GP_EVENT_FREE_REQUESTED)};
  bool has_ends = count_events(import, GP_EVENT_FREE_COMPLETED), is_lost = false;

  if (!frees.adds_begin && has_ends)
    return true;
  frees.is_added = calloc(snapshot->events.count, sizeof(*frees.is_added));
  bool good = frees.is_added || gp_import_no_memory(import);
  if (!frees.adds_begin)
    good = good && find_begun(&frees);
  else
    good = good && (has_ends ? find_ended(&frees) : find_lost(&frees, &is_lost));
  snapshot->lacks_history |= is_lost;
  if (good && is_lost)
    gp_snapshot_note_usual(snapshot,
        "neither free_requested nor free_completed was recorded: only what was there at the end is known");
  else if (good && frees.added)
    gp_snapshot_note_usual(snapshot, "%s",
        frees.adds_begin
            ? "the events lack free_requested: blocks count as allocated until the device was done with them"
            : "the events lack free_completed: blocks count as idle as soon as the program freed them");
  good = good && (!frees.added || add_events(&frees));
  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++)
    gp_block_map_fini(&frees.blocks[device]);
  free(frees.is_added);
  return good;
}
