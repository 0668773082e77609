/*
 * Which events are of parts of a segment. gpupool records a segment_alloc for each piece of mapped memory;
 * its snapshot has what is mapped without a gap as one segment. PyTorch's tools take a segment_alloc for a
 * whole segment, and a segment_map for a part. A piece is a part if a block, or a segment of the snapshot,
 * goes beyond it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/export_pytorch_parts.h"

typedef struct piece {
  uint64_t address, end;
  size_t event; /* that brought it; SIZE_MAX: it is older than the events */
  int device;
  bool is_part;
} piece_t;

/* Those that are there, by device and address: few come at a time, and most after the last. */
typedef struct pieces {
  piece_t *list;
  size_t count, capacity;
} pieces_t;

/* The first piece that begins at address or later. */
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
  if (is_at(pieces, at, event->device, event->address)) /* only in a damaged file */
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

/* Something lies in [address, end) as a whole. Returns true if it touches parts. */
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

/* Applies the events to the pieces. older: gets those that go without having come; may be NULL. */
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
    error = apply(export, &older, NULL, pytorch->is_part); /* once more, with what was there before */
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
