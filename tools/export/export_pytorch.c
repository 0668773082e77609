/*
 * Writes a snapshot like those of torch.cuda.memory._snapshot(), for PyTorch's viewer and scripts
 * (doc/exports.md). The viewer and the scripts start with the segments and replay the events backwards, so
 * events and segments must agree. Each block is in a segment at every moment. A segment exists after the
 * event that allocates it. Only the oldest events may be missing.
 *
 * Forwarded memory is written as a segment with one block; both appear and disappear together.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/export_marks.h"
#include "tools/export/export_pytorch_parts.h"
#include "tools/tool.h"
#include "base/assert.h"

#define PLACES_FIRST (UINT64_C(1) << 51)
#define PLACES_END   (UINT64_C(1) << 52)

void gp_pytorch_integer(gp_pytorch_t *pytorch, const char *name, uint64_t number)
{
  pytorch->tree->ops->key(pytorch->tree, name);
  pytorch->tree->ops->integer(pytorch->tree, number <= INT64_MAX ? (int64_t)number : INT64_MAX);
}

void gp_pytorch_text(gp_pytorch_t *pytorch, const char *name, const char *value)
{
  pytorch->tree->ops->key(pytorch->tree, name);
  pytorch->tree->ops->text(pytorch->tree, value);
}

static void write_frame(gp_pytorch_t *pytorch, size_t frame)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const gp_snapshot_t *snapshot = pytorch->export->snapshot;
  char buffer[GP_EXPORT_FRAME_BYTES];

  if (ops->refer(pytorch->tree, &pytorch->frame_numbers[frame]))
    return;
  const char *file = gp_export_frame_file(snapshot, frame);
  const char *function = gp_export_frame_function(snapshot, frame, buffer);
  ops->begin(pytorch->tree, '{');
  gp_pytorch_text(pytorch, "filename", file[0] ? file : "??");
  gp_pytorch_integer(pytorch, "line", (uint64_t)snapshot->frames[frame].line);
  ops->key(pytorch->tree, "name");
  if (function == buffer)
    ops->text_once(pytorch->tree, function);
  else
    ops->text(pytorch->tree, function);
  ops->end(pytorch->tree, '}');
  ops->remember(pytorch->tree, &pytorch->frame_numbers[frame]);
}

void gp_pytorch_frames(gp_pytorch_t *pytorch, int stack)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const gp_snapshot_stacks_t *stacks = &pytorch->export->snapshot->stacks;
  uint32_t *number = stack >= 0 ? &pytorch->stack_numbers[stack] : &pytorch->no_frames_number;

  ops->key(pytorch->tree, "frames");
  if (ops->refer(pytorch->tree, number))
    return;
  ops->begin(pytorch->tree, '[');
  for (size_t i = stack >= 0 ? stacks->first[stack] : 0; stack >= 0 && i < stacks->first[stack + 1]; i++) {
    ops->item(pytorch->tree);
    write_frame(pytorch, (size_t)stacks->frame_indexes[i]);
  }
  ops->end(pytorch->tree, ']');
  ops->remember(pytorch->tree, number);
}

void gp_pytorch_stream(gp_pytorch_t *pytorch, int stream)
{
  gp_assert(stream < 0 || (size_t)stream < pytorch->export->stream_count);
  pytorch->tree->ops->key(pytorch->tree, "stream");
  pytorch->tree->ops->integer(pytorch->tree, stream >= 0 ? (int64_t)pytorch->export->streams[stream] : 0);
}

static bool has_address(const char *kind)
{
  static const char *const handles[] = {"array", "vmm", "external", "graph"};
  for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
    if (strcmp(kind, handles[i]) == 0)
      return false;
  }
  return true;
}

uint64_t gp_pytorch_place(gp_pytorch_t *pytorch, const char *kind, uint64_t address, uint64_t size)
{
  if (has_address(kind))
    return address;
  bool is_full = size >= PLACES_END - PLACES_FIRST || pytorch->next_place > PLACES_END - size;
  if (is_full || !pytorch->next_place)
    pytorch->next_place = PLACES_FIRST; /* reuses places: their memory was freed, or sizes are absurd */
  gp_assert(pytorch->next_place >= PLACES_FIRST && pytorch->next_place < PLACES_END);
  uint64_t place = pytorch->next_place;
  pytorch->next_place += size;
  return place;
}

#define SMALL_SEGMENT (UINT64_C(2) << 20) /* largest small segment in PyTorch */

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* Finds the forwarded memory that is live at the end. The snapshot's list and its events were taken at
 * slightly different moments, so the events decide. Memory that an event frees is not live, and memory that
 * an event allocates is live. */
static int find_live(gp_pytorch_t *pytorch)
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
        .address = gp_pytorch_place(pytorch, memory->kind, memory->address, memory->size),
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
          .address = gp_pytorch_place(pytorch, event.detail, event.address, event.size),
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

static void write_block(gp_pytorch_t *pytorch, uint64_t address, uint64_t size, uint64_t requested,
    gp_snapshot_state_t state, int stack)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  ops->item(pytorch->tree);
  ops->begin(pytorch->tree, '{');
  gp_pytorch_integer(pytorch, "address", address);
  gp_pytorch_integer(pytorch, "size", size);
  gp_pytorch_integer(pytorch, "requested_size", requested);
  gp_pytorch_text(
      pytorch, "state", gp_snapshot_state_name(state == GP_SNAPSHOT_OTHER ? GP_SNAPSHOT_IDLE : state));
  gp_pytorch_frames(pytorch, state == GP_SNAPSHOT_ALLOCATED || state == GP_SNAPSHOT_PENDING ? stack : -1);
  ops->end(pytorch->tree, '}');
}

/* Writes the blocks of a segment, and fills any gap with an inactive block. Only damaged snapshots have gaps.
 * Leaves out blocks that do not fit. */
static void write_blocks(gp_pytorch_t *pytorch, const gp_snapshot_segment_t *segment)
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

static void write_segment(gp_pytorch_t *pytorch, const place_t *place)
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
  ops->begin(pytorch->tree, '{');
  gp_pytorch_integer(pytorch, "device", (uint64_t)place->device);
  gp_pytorch_integer(pytorch, "address", place->address);
  gp_pytorch_integer(pytorch, "total_size", size);
  gp_pytorch_integer(pytorch, "allocated_size", allocated);
  gp_pytorch_integer(pytorch, "active_size", active);
  gp_pytorch_integer(pytorch, "requested_size", requested);
  gp_pytorch_stream(pytorch, segment ? segment->stream : place->memory->stream);
  gp_pytorch_text(pytorch, "segment_type", size <= SMALL_SEGMENT ? "small" : "large");
  ops->key(pytorch->tree, "segment_pool_id");
  ops->pair(pytorch->tree, 0, 0);
  ops->key(pytorch->tree, "is_expandable");
  ops->boolean(pytorch->tree,
      segment &&
          (segment->is_expandable || pytorch->has_parts[segment - pytorch->export->snapshot->segments]));
  gp_pytorch_frames(pytorch, segment ? -1 : place->memory->stack);
  ops->key(pytorch->tree, "blocks");
  ops->begin(pytorch->tree, '[');
  if (segment)
    write_blocks(pytorch, segment);
  else
    write_block(pytorch, place->address, size, size, GP_SNAPSHOT_ALLOCATED, place->memory->stack);
  ops->end(pytorch->tree, ']');
  ops->end(pytorch->tree, '}');
  if (pytorch->misfits > before)
    gp_message("%s: segment 0x%llx: %llu of its blocks lie outside it and are left out",
        pytorch->export->name, (unsigned long long)place->address,
        (unsigned long long)(pytorch->misfits - before));
}

static int write_segments(gp_pytorch_t *pytorch)
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
  for (size_t i = 0; i < pytorch->live.count; i++) {
    const gp_block_entry_t *memory = &pytorch->live.entries[i];
    places[count++] = (place_t){memory->address, memory->device, NULL, memory};
  }
  qsort(places, count, sizeof(*places), compare_places);
  pytorch->tree->ops->key(pytorch->tree, "segments");
  pytorch->tree->ops->begin(pytorch->tree, '[');
  for (size_t i = 0; i < count; i++)
    write_segment(pytorch, &places[i]);
  pytorch->tree->ops->end(pytorch->tree, ']');
  free(places);
  return 0;
}

/*
 * Other members
 */

/* Writes the settings, which the viewer shows unchanged. Setting names of gpupool and PyTorch contain no
 * character that must be escaped. */
static void write_settings(gp_pytorch_t *pytorch)
{
  const cJSON *settings = cJSON_GetObjectItemCaseSensitive(pytorch->export->snapshot->root, "settings");
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const cJSON *setting;

  ops->key(pytorch->tree, "allocator_settings");
  ops->begin(pytorch->tree, '{');
  if (strcmp(gp_snapshot_text(pytorch->export->snapshot->root, "reason"), "PyTorch snapshot") != 0)
    gp_pytorch_text(pytorch, "backend", "gpupool");
  cJSON_ArrayForEach(setting, settings)
  {
    const char *name = setting->string;
    bool is_plain = name && name[0] && !name[strspn(name, NAME_CHARACTERS)];
    if (is_plain && cJSON_IsString(setting) && strcmp(name, "backend") != 0)
      gp_pytorch_text(pytorch, name, cJSON_GetStringValue(setting));
  }
  ops->end(pytorch->tree, '}');
}

/* Writes gpupool's own data, for which PyTorch's format has no member, under the key "gpupool". */
static void write_own(gp_pytorch_t *pytorch)
{
  const gp_snapshot_t *snapshot = pytorch->export->snapshot;
  const gp_tree_ops_t *ops = pytorch->tree->ops;

  ops->key(pytorch->tree, "gpupool");
  ops->begin(pytorch->tree, '{');
  gp_pytorch_integer(pytorch, "version", 1);
  gp_pytorch_text(pytorch, "reason", gp_snapshot_text(snapshot->root, "reason"));
  gp_pytorch_text(pytorch, "program",
      gp_snapshot_text(cJSON_GetObjectItemCaseSensitive(snapshot->root, "process"), "program"));
  gp_pytorch_text(
      pytorch, "host", gp_snapshot_text(cJSON_GetObjectItemCaseSensitive(snapshot->root, "process"), "host"));
  gp_pytorch_integer(pytorch, "pid", pytorch->export->pid);
  gp_pytorch_integer(pytorch, "start_time_us", pytorch->export->start_time_us);
  gp_pytorch_integer(pytorch, "dropped_events", snapshot->dropped_events);
  gp_pytorch_integer(pytorch, "recorded_since_ns", snapshot->recorded_since_ns);
  ops->end(pytorch->tree, '}');
}

/* Writes the program's scopes. Omits ranges of threads, because an annotation does not contain its thread. */
static int write_annotations(gp_pytorch_t *pytorch)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  gp_export_marks_t *marks = malloc(sizeof(*marks));
  if (!marks)
    return ENOMEM;
  gp_export_marks_read(pytorch->export, marks);
  ops->key(pytorch->tree, "external_annotations");
  ops->begin(pytorch->tree, '[');
  for (size_t i = 0; i < marks->count; i++) {
    const gp_export_mark_t *mark = &marks->marks[i];
    if (mark->kind != GP_MARK_BEGIN && mark->kind != GP_MARK_END)
      continue;
    ops->item(pytorch->tree);
    ops->begin(pytorch->tree, '{');
    gp_pytorch_text(pytorch, "stage", mark->kind == GP_MARK_BEGIN ? "START" : "END");
    gp_pytorch_text(pytorch, "name", mark->name);
    gp_pytorch_integer(pytorch, "device", mark->device < 0 ? 0 : (uint64_t)mark->device);
    gp_pytorch_integer(pytorch, "time_us", pytorch->export->start_time_us + mark->time_ns / 1000);
    ops->end(pytorch->tree, '}');
  }
  ops->end(pytorch->tree, ']');
  free(marks);
  return 0;
}

static int write_all(gp_pytorch_t *pytorch)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;

  int error = find_live(pytorch);
  if (error)
    return error;
  error = gp_pytorch_find_parts(pytorch);
  ops->begin(pytorch->tree, '{');
  if (!error)
    error = write_segments(pytorch);
  if (!error)
    error = gp_pytorch_traces(pytorch);
  write_settings(pytorch);
  if (!error)
    error = write_annotations(pytorch);
  write_own(pytorch);
  ops->end(pytorch->tree, '}');
  return error;
}

static int export_tree(gp_export_t *export, gp_tree_t *tree)
{
  gp_pytorch_t pytorch = {.export = export, .tree = tree};
  int error = ENOMEM;

  if (!tree)
    return ENOMEM;
  pytorch.frame_numbers = calloc(export->snapshot->frame_count + 1, sizeof(uint32_t));
  pytorch.stack_numbers = calloc(export->snapshot->stacks.count + 1, sizeof(uint32_t));
  if (pytorch.frame_numbers && pytorch.stack_numbers)
    error = write_all(&pytorch);
  int finish_error = tree->ops->finish(tree);
  free(pytorch.is_part);
  free(pytorch.has_parts);
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
