/*
 * Writes the events of a snapshot as PyTorch's traces, one list for each device.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/export_pytorch_parts.h"

/*
 * Finds the events about pieces of memory that are only a part of a segment. gpupool records a segment_alloc
 * for each piece that it maps, but its snapshot shows adjacent pieces as one segment. In PyTorch's format a
 * segment_alloc is a whole segment, and a segment_map is a part. A piece is a part if a block, or a segment
 * of the snapshot, extends beyond the piece.
 */

typedef struct piece {
  uint64_t address, end;
  size_t event; /* index of the piece's segment_alloc; SIZE_MAX: the piece is older than the events */
  int device;
  bool is_part;
} piece_t;

/* The pieces that exist, sorted by device and address. An array is fast enough, because there are few pieces
 * and most new ones are appended. */
typedef struct pieces {
  piece_t *list;
  size_t count, capacity;
} pieces_t;

/* Returns the index of the device's first piece that begins at or after `address`. */
static size_t find(const pieces_t *pieces, int device, uint64_t address)
{
  size_t low = 0, high = pieces->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const piece_t *piece = &pieces->list[middle];
    if (piece->device < device || (piece->device == device && piece->address < address))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool is_at(const pieces_t *pieces, size_t at, int device, uint64_t address)
{
  return at < pieces->count && pieces->list[at].device == device && pieces->list[at].address == address;
}

static int add(pieces_t *pieces, const gp_export_event_t *event, size_t number)
{
  size_t at = find(pieces, event->device, event->address);
  if (is_at(pieces, at, event->device, event->address)) /* happens only in a damaged file */
    return 0;
  if (pieces->count == pieces->capacity) {
    size_t capacity = pieces->capacity ? 2 * pieces->capacity : 64;
    piece_t *list = realloc(pieces->list, capacity * sizeof(*list));
    if (!list)
      return ENOMEM;
    pieces->list = list;
    pieces->capacity = capacity;
  }
  memmove(&pieces->list[at + 1], &pieces->list[at], (pieces->count - at) * sizeof(*pieces->list));
  pieces->list[at] = (piece_t){event->address, event->address + event->size, number, event->device, false};
  pieces->count++;
  return 0;
}

static void take(pieces_t *pieces, const gp_export_event_t *event, bool *is_part)
{
  size_t at = find(pieces, event->device, event->address);
  if (!is_at(pieces, at, event->device, event->address))
    return;
  const piece_t *piece = &pieces->list[at];
  is_part[event->index] = piece->is_part;
  if (piece->event != SIZE_MAX)
    is_part[piece->event] = piece->is_part;
  pieces->count--;
  memmove(&pieces->list[at], &pieces->list[at + 1], (pieces->count - at) * sizeof(*pieces->list));
}

/* Records that a single block or segment covers [address, end). Every piece in the range that does not
 * contain the whole range is a part. Returns true if any piece in the range is a part. */
static bool span(pieces_t *pieces, int device, uint64_t address, uint64_t end)
{
  size_t at = find(pieces, device, address);
  bool is_any = false;
  if (at > 0 && pieces->list[at - 1].device == device && pieces->list[at - 1].end > address)
    at--;
  for (; at < pieces->count && pieces->list[at].device == device && pieces->list[at].address < end; at++) {
    piece_t *piece = &pieces->list[at];
    if (address < piece->address || end > piece->end)
      piece->is_part = true;
    is_any |= piece->is_part;
  }
  return is_any;
}

/* Applies the events to the pieces. If an event frees a piece that no event allocated, adds the piece to
 * `older` unless `older` is NULL. */
static int apply(const gp_export_t *export, pieces_t *pieces, pieces_t *older, bool *is_part)
{
  gp_export_event_t event;
  int error = 0;
  for (size_t i = 0; i < export->event_count && !error; i++) {
    if (!gp_export_event(export, i, &event))
      continue;
    if (event.kind == GP_EVENT_SEGMENT_ALLOC) {
      error = add(pieces, &event, i);
    } else if (event.kind == GP_EVENT_SEGMENT_FREE) {
      if (older && !is_at(pieces, find(pieces, event.device, event.address), event.device, event.address))
        error = add(older, &event, SIZE_MAX);
      take(pieces, &event, is_part);
    } else if (event.kind == GP_EVENT_ALLOC || event.kind == GP_EVENT_FREE_COMPLETED) {
      (void)span(pieces, event.device, event.address, event.address + event.rounded);
    }
  }
  return error;
}

int gp_pytorch_find_parts(gp_pytorch_t *pytorch)
{
  const gp_export_t *export = pytorch->export;
  const gp_snapshot_t *snapshot = export->snapshot;
  pieces_t pieces = {0}, older = {0};

  pytorch->is_part = calloc(export->event_count + 1, sizeof(bool));
  pytorch->has_parts = calloc(snapshot->segment_count + 1, sizeof(bool));
  int error = pytorch->is_part && pytorch->has_parts ? 0 : ENOMEM;
  if (!error)
    error = apply(export, &pieces, &older, pytorch->is_part);
  if (!error)
    error = apply(export, &older, NULL, pytorch->is_part); /* again, with the older pieces */
  for (size_t i = 0; i < snapshot->segment_count && !error; i++) {
    const gp_snapshot_segment_t *segment = &snapshot->segments[i];
    pytorch->has_parts[i] = span(&older, segment->device, segment->address, segment->address + segment->size);
  }
  for (size_t i = 0; i < older.count && !error; i++) {
    if (older.list[i].event != SIZE_MAX)
      pytorch->is_part[older.list[i].event] = older.list[i].is_part;
  }
  free(pieces.list);
  free(older.list);
  return error;
}

#define ROUND_BYTES UINT64_C(512) /* PyTorch rounds sizes up to a multiple of this many bytes */

/* Writes an event. `rounded` is the block's size in bytes, or 0 if the event is not about a block. If PyTorch
 * would round the size differently, adds "rounded_size", so that an import restores the exact size. */
static void write_entry(gp_pytorch_t *pytorch, const char *action, const gp_export_event_t *event,
    uint64_t address, uint64_t size, uint64_t rounded)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const gp_export_t *export = pytorch->export;
  bool is_oom = event->kind == GP_EVENT_OOM;

  ops->item(pytorch->tree);
  ops->begin(pytorch->tree, '{');
  gp_pytorch_text(pytorch, "action", action);
  gp_pytorch_integer(pytorch, is_oom ? "device_free" : "addr", address);
  gp_pytorch_integer(pytorch, "size", size);
  if (rounded && (rounded < size || rounded - size >= ROUND_BYTES || rounded % ROUND_BYTES))
    gp_pytorch_integer(pytorch, "rounded_size", rounded);
  gp_pytorch_stream(pytorch, event->stream);
  if (!export->snapshot->times_are_numbers)
    gp_pytorch_integer(pytorch, "time_us", export->start_time_us + event->time_ns / 1000);
  gp_pytorch_text(pytorch, "compile_context", "N/A");
  bool has_thread = event->thread >= 0 && export->tids[event->thread]; /* PyTorch records no threads */
  gp_pytorch_text(pytorch, "user_metadata", has_thread ? export->threads[event->thread] : "");
  ops->key(pytorch->tree, "pool_id");
  ops->pair(pytorch->tree, 0, 0);
  ops->key(pytorch->tree, "segment_pool_id");
  ops->pair(pytorch->tree, 0, 0);
  if (event->stack >= 0)
    gp_pytorch_frames(pytorch, event->stack);
  ops->end(pytorch->tree, '}');
}

/* Returns the device's free memory at an out-of-memory event, or 0 if it is unknown. PyTorch records the
 * value for each such event. gpupool records it only for the event that made it write the snapshot. */
static uint64_t free_at(const gp_pytorch_t *pytorch, const gp_export_event_t *event)
{
  uint64_t said;
  if (gp_snapshot_device_free(&pytorch->export->snapshot->events, event->index, &said))
    return said;
  const cJSON *oom = cJSON_GetObjectItemCaseSensitive(pytorch->export->snapshot->root, "oom");
  uint64_t time_ns, device, bytes;
  bool is_this = gp_snapshot_uint(oom, "time_ns", &time_ns) == 1 &&
                 gp_snapshot_uint(oom, "device", &device) == 1 && time_ns == event->time_ns &&
                 device == (uint64_t)event->device;
  return is_this && gp_snapshot_uint(oom, "device_free", &bytes) == 1 ? bytes : 0;
}

static int write_forwarded(gp_pytorch_t *pytorch, const gp_export_event_t *event)
{
  const gp_block_entry_t *last = gp_block_map_find(&pytorch->live, event->block);
  gp_block_entry_t entry;

  if (!event->block || !gp_export_is_device_memory(event->detail))
    return 0;
  if (event->kind == GP_EVENT_FORWARDED_ALLOC) {
    uint64_t place =
        last ? last->address : gp_pytorch_place(pytorch, event->detail, event->address, event->size);
    uint64_t size = last ? last->size : event->size;
    entry = (gp_block_entry_t){.key = event->block, .address = place, .size = size};
    if (!last && !gp_block_map_put(&pytorch->placed, &entry))
      return ENOMEM;
    write_entry(pytorch, "segment_alloc", event, place, size, 0);
    write_entry(pytorch, "alloc", event, place, size, size);
    return 0;
  }
  if (!gp_block_map_take(&pytorch->placed, event->block, &entry)) /* allocated before the first event */
    entry =
        (gp_block_entry_t){.address = gp_pytorch_place(pytorch, event->detail, event->address, event->size),
            .size = event->size};
  write_entry(pytorch, "free_requested", event, entry.address, entry.size, entry.size);
  write_entry(pytorch, "free_completed", event, entry.address, entry.size, entry.size);
  write_entry(pytorch, "segment_free", event, entry.address, entry.size, 0);
  return 0;
}

static int write_event(gp_pytorch_t *pytorch, const gp_export_event_t *event)
{
  gp_event_kind_t kind = event->kind;
  switch (kind) {
  case GP_EVENT_ALLOC:
  case GP_EVENT_FREE_REQUESTED:
  case GP_EVENT_FREE_COMPLETED:
    write_entry(pytorch, gp_event_kind_name(event->kind), event, event->address, event->size, event->rounded);
    return 0;
  case GP_EVENT_SEGMENT_ALLOC:
  case GP_EVENT_SEGMENT_FREE:
    if (pytorch->is_part[event->index])
      kind = kind == GP_EVENT_SEGMENT_ALLOC ? GP_EVENT_SEGMENT_MAP : GP_EVENT_SEGMENT_UNMAP;
    write_entry(pytorch, gp_event_kind_name(kind), event, event->address, event->size, 0);
    return 0;
  case GP_EVENT_SEGMENT_MAP:
  case GP_EVENT_SEGMENT_UNMAP:
  case GP_EVENT_SNAPSHOT:
    write_entry(pytorch, gp_event_kind_name(event->kind), event, event->address, event->size, 0);
    return 0;
  case GP_EVENT_OOM: write_entry(pytorch, "oom", event, free_at(pytorch, event), event->size, 0); return 0;
  case GP_EVENT_FORWARDED_ALLOC:
  case GP_EVENT_FORWARDED_FREE: return write_forwarded(pytorch, event);
  default: return 0; /* PyTorch has no such event. For a trim, each freed piece has its own segment_free. */
  }
}

/* Writes one list per device, up to the last device. Devices without events get an empty list. */
int gp_pytorch_traces(gp_pytorch_t *pytorch)
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
  ops->begin(pytorch->tree, '[');
  for (int device = 0; device <= last && !error; device++) {
    ops->item(pytorch->tree);
    ops->begin(pytorch->tree, '[');
    for (size_t i = 0; i < export->event_count && has_events[device] && !error; i++) {
      gp_export_progress(export, i, export->event_count);
      if ((!device_of || gp_column_get(device_of, i) == device) && gp_export_event(export, i, &event))
        error = write_event(pytorch, &event);
    }
    ops->end(pytorch->tree, ']');
  }
  ops->end(pytorch->tree, ']');
  return error;
}
