/*
 * A snapshot as torch.cuda.memory._snapshot() gives it, for PyTorch's viewer and scripts (doc/exports.md).
 * These replay the events backwards from the segments, so the two have to agree: each block lies in a segment
 * at every moment, a segment that comes is there afterwards, and events may be missing at the beginning only.
 *
 * Memory that is not pooled is a segment of its own with one block, which comes and goes with it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/export.h"
#include "tools/export/export_tree.h"
#include "tools/tool.h"

#define SMALL_SEGMENT (UINT64_C(2) << 20) /* what PyTorch calls small */
#define ROUND_BYTES   UINT64_C(512)       /* what it rounds sizes up to */

/*
 * What has no address has a handle, which may be the number of something else. Such memory is given a place
 * beyond every address of a device, and below 2^53.
 */
#define PLACES_FIRST (UINT64_C(1) << 51)
#define PLACES_END   (UINT64_C(1) << 52)

typedef struct pytorch {
  const gp_export_t *export;
  gp_tree_t *tree;
  uint32_t *frame_numbers; /* of the memo */
  uint32_t *stack_numbers;
  uint32_t no_frames_number;
  gp_block_map_t live;   /* forwarded memory at the end, with its place */
  gp_block_map_t placed; /* forwarded memory while events are written */
  uint64_t next_place;
  uint64_t misfits; /* blocks that do not lie in their segment */
} pytorch_t;

/*
 * Values
 */

static void key_integer(pytorch_t *pytorch, const char *name, uint64_t number)
{
  pytorch->tree->ops->key(pytorch->tree, name);
  pytorch->tree->ops->integer(pytorch->tree, number <= INT64_MAX ? (int64_t)number : INT64_MAX);
}

static void key_text(pytorch_t *pytorch, const char *name, const char *value)
{
  pytorch->tree->ops->key(pytorch->tree, name);
  pytorch->tree->ops->text(pytorch->tree, value);
}

static void write_frame(pytorch_t *pytorch, size_t frame)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const gp_snapshot_t *snapshot = pytorch->export->snapshot;
  char buffer[GP_EXPORT_FRAME_BYTES];

  if (ops->refer(pytorch->tree, &pytorch->frame_numbers[frame]))
    return;
  const char *file = gp_export_frame_file(snapshot, frame);
  const char *function = gp_export_frame_function(snapshot, frame, buffer);
  ops->dict_open(pytorch->tree);
  key_text(pytorch, "filename", file[0] ? file : "??");
  key_integer(pytorch, "line", (uint64_t)snapshot->frames[frame].line);
  ops->key(pytorch->tree, "name");
  if (function == buffer)
    ops->text_once(pytorch->tree, function);
  else
    ops->text(pytorch->tree, function);
  ops->dict_close(pytorch->tree);
  ops->remember(pytorch->tree, &pytorch->frame_numbers[frame]);
}

/* The innermost first, as in the snapshot. */
static void write_frames(pytorch_t *pytorch, int stack)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const gp_snapshot_stacks_t *stacks = &pytorch->export->snapshot->stacks;
  uint32_t *number = stack >= 0 ? &pytorch->stack_numbers[stack] : &pytorch->no_frames_number;

  ops->key(pytorch->tree, "frames");
  if (ops->refer(pytorch->tree, number))
    return;
  ops->list_open(pytorch->tree);
  for (size_t i = stack >= 0 ? stacks->first[stack] : 0; stack >= 0 && i < stacks->first[stack + 1]; i++) {
    ops->item(pytorch->tree);
    write_frame(pytorch, (size_t)stacks->frame_indexes[i]);
  }
  ops->list_close(pytorch->tree);
  ops->remember(pytorch->tree, number);
}

static void write_stream(pytorch_t *pytorch, int stream)
{
  key_integer(pytorch, "stream", stream >= 0 ? pytorch->export->streams[stream] : 0);
}

/*
 * Places of forwarded memory
 */

static bool has_address(const char *kind)
{
  static const char *const handles[] = {"array", "vmm", "external", "graph"};
  for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
    if (strcmp(kind, handles[i]) == 0)
      return false;
  }
  return true;
}

static uint64_t place_of(pytorch_t *pytorch, const char *kind, uint64_t address, uint64_t size)
{
  if (has_address(kind))
    return address;
  if (size >= PLACES_END - PLACES_FIRST || pytorch->next_place > PLACES_END - size)
    pytorch->next_place = PLACES_FIRST; /* around: what was there first is long gone, or absurd */
  uint64_t place = pytorch->next_place;
  pytorch->next_place += size;
  return place;
}

/*
 * What is live at the end. The list of the snapshot is not quite of the same moment as its events, which
 * decide: what they free is gone, and what they only allocate is there.
 */
static int find_live(pytorch_t *pytorch)
{
  const gp_export_t *export = pytorch->export;
  const gp_snapshot_t *snapshot = export->snapshot;
  gp_export_event_t event;

  for (size_t i = 0; i < snapshot->forwarded_count; i++) {
    const gp_snapshot_forwarded_t *memory = &snapshot->forwarded[i];
    if (!memory->block || !gp_export_has_device(export, memory->device) ||
        !gp_export_is_device_memory(memory->kind))
      continue;
    const gp_block_entry_t entry = {.key = memory->block,
        .address = place_of(pytorch, memory->kind, memory->address, memory->size),
        .size = memory->size,
        .device = memory->device,
        .stream = memory->stream,
        .stack = memory->stack};
    if (!gp_block_map_put(&pytorch->live, &entry))
      return ENOMEM;
  }
  for (size_t i = 0; i < export->event_count; i++) {
    if (!gp_export_event(export, i, &event) || !event.block || !gp_export_is_device_memory(event.detail))
      continue;
    if (event.kind == GP_EVENT_FORWARDED_FREE) {
      (void)gp_block_map_take(&pytorch->live, event.block, NULL);
    } else if (event.kind == GP_EVENT_FORWARDED_ALLOC && !gp_block_map_find(&pytorch->live, event.block)) {
      const gp_block_entry_t entry = {.key = event.block,
          .address = place_of(pytorch, event.detail, event.address, event.size),
          .size = event.size,
          .device = event.device,
          .stream = event.stream,
          .stack = event.stack};
      if (!gp_block_map_put(&pytorch->live, &entry))
        return ENOMEM;
    }
  }
  return 0;
}

/*
 * Segments
 */

/* A segment of the pool, or forwarded memory. */
typedef struct place {
  uint64_t address;
  int device;
  const gp_snapshot_segment_t *segment;
  const gp_block_entry_t *memory;
} place_t;

static int compare_places(const void *a, const void *b)
{
  const place_t *x = a, *y = b;
  if (x->device != y->device)
    return x->device < y->device ? -1 : 1;
  return (x->address > y->address) - (x->address < y->address);
}

static void write_block(pytorch_t *pytorch, uint64_t address, uint64_t size, uint64_t requested,
    gp_snapshot_state_t state, int stack)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  ops->item(pytorch->tree);
  ops->dict_open(pytorch->tree);
  key_integer(pytorch, "address", address);
  key_integer(pytorch, "size", size);
  key_integer(pytorch, "requested_size", requested);
  key_text(pytorch, "state", gp_snapshot_state_name(state == GP_SNAPSHOT_OTHER ? GP_SNAPSHOT_IDLE : state));
  write_frames(pytorch, state == GP_SNAPSHOT_ALLOCATED || state == GP_SNAPSHOT_PENDING ? stack : -1);
  ops->dict_close(pytorch->tree);
}

/* The blocks of a segment have to fill it: what a damaged snapshot lacks becomes inactive, what does not fit
 * is left out. */
static void write_blocks(pytorch_t *pytorch, const gp_snapshot_segment_t *segment)
{
  const gp_snapshot_t *snapshot = pytorch->export->snapshot;
  uint64_t at = segment->address, end = segment->address + segment->size;

  for (size_t i = segment->first_block; i < segment->first_block + segment->block_count; i++) {
    const gp_snapshot_block_t *block = &snapshot->blocks[i];
    if (block->address < at || block->address > end || block->size > end - block->address) {
      pytorch->misfits++;
      continue;
    }
    if (block->address > at)
      write_block(pytorch, at, block->address - at, 0, GP_SNAPSHOT_IDLE, -1);
    write_block(pytorch, block->address, block->size, block->requested, block->state, block->stack);
    at = block->address + block->size;
  }
  if (at < end)
    write_block(pytorch, at, end - at, 0, GP_SNAPSHOT_IDLE, -1);
}

static void write_segment(pytorch_t *pytorch, const place_t *place)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const gp_snapshot_segment_t *segment = place->segment;
  uint64_t size = segment ? segment->size : place->memory->size;
  uint64_t allocated = 0, active = 0, requested = 0;
  uint64_t before = pytorch->misfits;

  for (size_t i = segment ? segment->first_block : 0;
       segment && i < segment->first_block + segment->block_count; i++) {
    const gp_snapshot_block_t *block = &pytorch->export->snapshot->blocks[i];
    bool is_allocated = block->state == GP_SNAPSHOT_ALLOCATED;
    bool is_active = is_allocated || block->state == GP_SNAPSHOT_PENDING;
    allocated += is_allocated ? block->size : 0;
    active += is_active ? block->size : 0;
    requested += is_active ? block->requested : 0;
  }
  if (!segment)
    allocated = active = requested = size;
  ops->item(pytorch->tree);
  ops->dict_open(pytorch->tree);
  key_integer(pytorch, "device", (uint64_t)place->device);
  key_integer(pytorch, "address", place->address);
  key_integer(pytorch, "total_size", size);
  key_integer(pytorch, "allocated_size", allocated);
  key_integer(pytorch, "active_size", active);
  key_integer(pytorch, "requested_size", requested);
  write_stream(pytorch, segment ? segment->stream : place->memory->stream);
  key_text(pytorch, "segment_type", size <= SMALL_SEGMENT ? "small" : "large");
  ops->key(pytorch->tree, "segment_pool_id");
  ops->pair(pytorch->tree, 0, 0);
  ops->key(pytorch->tree, "is_expandable");
  ops->boolean(pytorch->tree, false);
  write_frames(pytorch, segment ? -1 : place->memory->stack);
  ops->key(pytorch->tree, "blocks");
  ops->list_open(pytorch->tree);
  if (segment)
    write_blocks(pytorch, segment);
  else
    write_block(pytorch, place->address, size, size, GP_SNAPSHOT_ALLOCATED, place->memory->stack);
  ops->list_close(pytorch->tree);
  ops->dict_close(pytorch->tree);
  if (pytorch->misfits > before)
    gp_message("%s: segment 0x%llx: %llu of its blocks do not lie in it and are left out",
        pytorch->export->name, (unsigned long long)place->address,
        (unsigned long long)(pytorch->misfits - before));
}

static int write_segments(pytorch_t *pytorch)
{
  const gp_export_t *export = pytorch->export;
  const gp_snapshot_t *snapshot = export->snapshot;
  place_t *places = calloc(snapshot->segment_count + pytorch->live.count + 1, sizeof(*places));
  size_t count = 0;

  if (!places)
    return ENOMEM;
  for (size_t i = 0; i < snapshot->segment_count; i++) {
    const gp_snapshot_segment_t *segment = &snapshot->segments[i];
    if (gp_export_has_device(export, segment->device))
      places[count++] = (place_t){segment->address, segment->device, segment, NULL};
  }
  for (size_t i = 0; i < pytorch->live.room; i++) {
    const gp_block_entry_t *memory = &pytorch->live.entries[i];
    if (memory->key)
      places[count++] = (place_t){memory->address, memory->device, NULL, memory};
  }
  qsort(places, count, sizeof(*places), compare_places);
  pytorch->tree->ops->key(pytorch->tree, "segments");
  pytorch->tree->ops->list_open(pytorch->tree);
  for (size_t i = 0; i < count; i++)
    write_segment(pytorch, &places[i]);
  pytorch->tree->ops->list_close(pytorch->tree);
  free(places);
  return 0;
}

/*
 * Events
 */

/* rounded: bytes of the block, 0 if it is of none. A key of our own says it where it is not what PyTorch
 * would make of the size, so that an import loses nothing. */
static void write_entry(pytorch_t *pytorch, const char *action, const gp_export_event_t *event,
    uint64_t address, uint64_t size, uint64_t rounded)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const gp_export_t *export = pytorch->export;
  bool is_oom = event->kind == GP_EVENT_OOM;

  ops->item(pytorch->tree);
  ops->dict_open(pytorch->tree);
  key_text(pytorch, "action", action);
  key_integer(pytorch, is_oom ? "device_free" : "addr", address);
  key_integer(pytorch, "size", size);
  if (rounded && (rounded < size || rounded - size >= ROUND_BYTES || rounded % ROUND_BYTES))
    key_integer(pytorch, "rounded_size", rounded);
  write_stream(pytorch, event->stream);
  key_integer(pytorch, "time_us", export->start_time_us + event->time_ns / 1000);
  key_text(pytorch, "compile_context", "N/A");
  key_text(pytorch, "user_metadata", event->thread >= 0 ? export->threads[event->thread] : "");
  ops->key(pytorch->tree, "pool_id");
  ops->pair(pytorch->tree, 0, 0);
  ops->key(pytorch->tree, "segment_pool_id");
  ops->pair(pytorch->tree, 0, 0);
  if (event->stack >= 0)
    write_frames(pytorch, event->stack);
  ops->dict_close(pytorch->tree);
}

/* What the driver had free at an out-of-memory: known of the one that a snapshot was written for. */
static uint64_t free_at(const pytorch_t *pytorch, const gp_export_event_t *event)
{
  const cJSON *oom = cJSON_GetObjectItemCaseSensitive(pytorch->export->snapshot->root, "oom");
  uint64_t time_ns, device, bytes;
  bool is_this = gp_snapshot_uint(oom, "time_ns", &time_ns) == 1 &&
                 gp_snapshot_uint(oom, "device", &device) == 1 && time_ns == event->time_ns &&
                 device == (uint64_t)event->device;
  return is_this && gp_snapshot_uint(oom, "device_free", &bytes) == 1 ? bytes : 0;
}

static int write_forwarded(pytorch_t *pytorch, const gp_export_event_t *event)
{
  const gp_block_entry_t *last = gp_block_map_find(&pytorch->live, event->block);
  gp_block_entry_t entry;

  if (!event->block || !gp_export_is_device_memory(event->detail))
    return 0;
  if (event->kind == GP_EVENT_FORWARDED_ALLOC) {
    uint64_t place = last ? last->address : place_of(pytorch, event->detail, event->address, event->size);
    uint64_t size = last ? last->size : event->size;
    entry = (gp_block_entry_t){.key = event->block, .address = place, .size = size};
    if (!last && !gp_block_map_put(&pytorch->placed, &entry))
      return ENOMEM;
    write_entry(pytorch, "segment_alloc", event, place, size, 0);
    write_entry(pytorch, "alloc", event, place, size, size);
    return 0;
  }
  if (!gp_block_map_take(&pytorch->placed, event->block, &entry)) /* it was there before the first event */
    entry = (gp_block_entry_t){
        .address = place_of(pytorch, event->detail, event->address, event->size), .size = event->size};
  write_entry(pytorch, "free_requested", event, entry.address, entry.size, entry.size);
  write_entry(pytorch, "free_completed", event, entry.address, entry.size, entry.size);
  write_entry(pytorch, "segment_free", event, entry.address, entry.size, 0);
  return 0;
}

static int write_event(pytorch_t *pytorch, const gp_export_event_t *event)
{
  switch (event->kind) {
  case GP_EVENT_ALLOC:
  case GP_EVENT_FREE_REQUESTED:
  case GP_EVENT_FREE_COMPLETED:
    write_entry(pytorch, gp_event_kind_name(event->kind), event, event->address, event->size, event->rounded);
    return 0;
  case GP_EVENT_SEGMENT_ALLOC:
  case GP_EVENT_SEGMENT_FREE:
  case GP_EVENT_SEGMENT_MAP:
  case GP_EVENT_SEGMENT_UNMAP:
  case GP_EVENT_SNAPSHOT:
    write_entry(pytorch, gp_event_kind_name(event->kind), event, event->address, event->size, 0);
    return 0;
  case GP_EVENT_OOM: write_entry(pytorch, "oom", event, free_at(pytorch, event), event->size, 0); return 0;
  case GP_EVENT_FORWARDED_ALLOC:
  case GP_EVENT_FORWARDED_FREE: return write_forwarded(pytorch, event);
  case GP_EVENT_TRIM: /* each piece has a segment_free */
  case GP_EVENT_MODE:
  case GP_EVENT_OTHER: break; /* PyTorch has no word for it */
  }
  return 0;
}

/* A list for each device up to the last one, also for those without events. */
static int write_traces(pytorch_t *pytorch)
{
  const gp_export_t *export = pytorch->export;
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const gp_column_t *device_of = export->snapshot->events.columns[GP_COLUMN_DEVICE];
  bool has_events[GP_SNAPSHOT_DEVICES] = {false};
  gp_export_event_t event;
  int last = 0, error = 0;

  for (size_t i = 0; i < export->snapshot->device_count; i++)
    last = export->snapshot->devices[i].device > last ? export->snapshot->devices[i].device : last;
  for (size_t i = 0; i < export->snapshot->segment_count; i++)
    last = export->snapshot->segments[i].device > last ? export->snapshot->segments[i].device : last;
  for (size_t i = 0; i < export->event_count; i++) {
    if (!gp_export_event(export, i, &event))
      continue;
    has_events[event.device] = true;
    last = event.device > last ? event.device : last;
  }
  ops->key(pytorch->tree, "device_traces");
  ops->list_open(pytorch->tree);
  for (int device = 0; device <= last && !error; device++) {
    ops->item(pytorch->tree);
    ops->list_open(pytorch->tree);
    for (size_t i = 0; i < export->event_count && has_events[device] && !error; i++) {
      gp_export_progress(export, i, export->event_count);
      if ((!device_of || gp_column_get(device_of, i) == device) && gp_export_event(export, i, &event))
        error = write_event(pytorch, &event);
    }
    ops->list_close(pytorch->tree);
  }
  ops->list_close(pytorch->tree);
  return error;
}

/*
 * The rest
 */

/* The viewer shows them as they are. Names that would need escapes are none of ours. */
static void write_settings(pytorch_t *pytorch)
{
  const cJSON *settings = cJSON_GetObjectItemCaseSensitive(pytorch->export->snapshot->root, "settings");
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const cJSON *setting;

  ops->key(pytorch->tree, "allocator_settings");
  ops->dict_open(pytorch->tree);
  key_text(pytorch, "backend", "gpupool");
  cJSON_ArrayForEach(setting, settings)
  {
    const char *name = setting->string;
    bool is_plain = name && name[0] && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")];
    if (is_plain && cJSON_IsString(setting) && strcmp(name, "backend") != 0)
      key_text(pytorch, name, cJSON_GetStringValue(setting));
  }
  ops->dict_close(pytorch->tree);
}

/* Under one key that nobody else has: what PyTorch's format has no place for. */
static void write_own(pytorch_t *pytorch)
{
  const gp_snapshot_t *snapshot = pytorch->export->snapshot;
  const gp_tree_ops_t *ops = pytorch->tree->ops;

  ops->key(pytorch->tree, "gpupool");
  ops->dict_open(pytorch->tree);
  key_integer(pytorch, "version", 1);
  key_text(pytorch, "reason", gp_snapshot_text(snapshot->root, "reason"));
  key_text(pytorch, "program",
      gp_snapshot_text(cJSON_GetObjectItemCaseSensitive(snapshot->root, "process"), "program"));
  key_text(
      pytorch, "host", gp_snapshot_text(cJSON_GetObjectItemCaseSensitive(snapshot->root, "process"), "host"));
  key_integer(pytorch, "pid", pytorch->export->pid);
  key_integer(pytorch, "start_time_us", pytorch->export->start_time_us);
  key_integer(pytorch, "dropped_events", snapshot->dropped_events);
  key_integer(pytorch, "recorded_since_ns", snapshot->recorded_since_ns);
  ops->dict_close(pytorch->tree);
}

static int write_all(pytorch_t *pytorch)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;

  int error = find_live(pytorch);
  if (error)
    return error;
  ops->dict_open(pytorch->tree);
  error = write_segments(pytorch);
  if (!error)
    error = write_traces(pytorch);
  write_settings(pytorch);
  ops->key(pytorch->tree, "external_annotations");
  ops->list_open(pytorch->tree);
  ops->list_close(pytorch->tree);
  write_own(pytorch);
  ops->dict_close(pytorch->tree);
  return error;
}

static int export_tree(gp_export_t *export, gp_tree_t *tree)
{
  pytorch_t pytorch = {.export = export, .tree = tree, .next_place = PLACES_FIRST};
  int error = ENOMEM;

  if (!tree)
    return ENOMEM;
  pytorch.frame_numbers = calloc(export->snapshot->frame_count + 1, sizeof(uint32_t));
  pytorch.stack_numbers = calloc(export->snapshot->stacks.count + 1, sizeof(uint32_t));
  if (pytorch.frame_numbers && pytorch.stack_numbers)
    error = write_all(&pytorch);
  int finish_error = tree->ops->finish(tree);
  free(pytorch.frame_numbers);
  free(pytorch.stack_numbers);
  gp_block_map_fini(&pytorch.live);
  gp_block_map_fini(&pytorch.placed);
  return error ? error : finish_error;
}

int gp_export_pytorch(gp_export_t *export)
{
  return export_tree(export, gp_tree_pickle(export->stream));
}

int gp_export_pytorch_json(gp_export_t *export)
{
  return export_tree(export, gp_tree_json(export->stream, gp_snapshot_output_most(export->snapshot)));
}
