/*
 * A snapshot that PyTorch wrote, again: the same dicts with the same members in the same order, of the parts
 * that its reader kept (tools/read/original.h).
 */
#include <errno.h>
#include <stdlib.h>

#include "pool/util/assert.h"
#include "tools/export/export_pytorch_parts.h"
#include "tools/read/original.h"

/* Writes a member that the snapshot holds. index: of the segment, block, event or frame. */
typedef void (*held_fn)(gp_pytorch_t *pytorch, gp_original_held_t held, size_t index);

static const gp_original_t *original_of(const gp_pytorch_t *pytorch)
{
  return pytorch->export->snapshot->original;
}

static void write_integer(gp_pytorch_t *pytorch, uint64_t number)
{
  pytorch->tree->ops->integer(pytorch->tree, (int64_t)number); /* the reader took it as one */
}

/* A text, or a large integer. */
static void write_bytes(gp_pytorch_t *pytorch, uint32_t part, const unsigned char *bytes, size_t length)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  uint32_t *number = &pytorch->part_numbers[part];
  if (ops->refer(pytorch->tree, number))
    return;
  if (bytes[0] == GP_ORIGINAL_TEXT)
    ops->bytes(pytorch->tree, (const char *)bytes + 1, length - 1);
  else
    ops->long_integer(pytorch->tree, bytes + 1, length - 1);
  ops->remember(pytorch->tree, number);
}

static void write_name(gp_pytorch_t *pytorch, const gp_original_element_t *name)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  size_t length;
  if (name->kind == GP_ORIGINAL_INTEGER) {
    ops->key_integer(pytorch->tree, name->integer);
    return;
  }
  const unsigned char *bytes = gp_original_get(original_of(pytorch), (uint32_t)name->integer, &length);
  ops->key_bytes(pytorch->tree, (const char *)bytes + 1, length - 1, &pytorch->part_numbers[name->integer]);
}

static void write_part(gp_pytorch_t *pytorch, uint32_t part);

static void write_element(
    gp_pytorch_t *pytorch, const gp_original_element_t *element, held_fn write_held, size_t index)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  switch (element->kind) {
  case GP_ORIGINAL_NULL: ops->null(pytorch->tree); break;
  case GP_ORIGINAL_FALSE:
  case GP_ORIGINAL_TRUE: ops->boolean(pytorch->tree, element->kind == GP_ORIGINAL_TRUE); break;
  case GP_ORIGINAL_INTEGER: ops->integer(pytorch->tree, element->integer); break;
  case GP_ORIGINAL_FLOAT: ops->number(pytorch->tree, element->number); break;
  case GP_ORIGINAL_PART: write_part(pytorch, (uint32_t)element->integer); break;
  case GP_ORIGINAL_STACK: gp_pytorch_stack(pytorch, (int)element->integer); break;
  case GP_ORIGINAL_HELD: write_held(pytorch, (gp_original_held_t)element->integer, index); break;
  }
}

static void write_dict(gp_pytorch_t *pytorch, const unsigned char *at, const unsigned char *end,
    held_fn write_held, size_t index)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  gp_original_element_t name, value;
  ops->dict_open(pytorch->tree);
  while (gp_original_read(&at, end, &name) && gp_original_read(&at, end, &value)) {
    write_name(pytorch, &name);
    write_element(pytorch, &value, write_held, index);
  }
  ops->dict_close(pytorch->tree);
}

static void write_list(
    gp_pytorch_t *pytorch, const unsigned char *at, const unsigned char *end, bool is_tuple)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  gp_original_element_t element;
  is_tuple ? ops->tuple_open(pytorch->tree) : ops->list_open(pytorch->tree);
  while (gp_original_read(&at, end, &element)) {
    if (!is_tuple)
      ops->item(pytorch->tree);
    write_element(pytorch, &element, NULL, 0);
  }
  is_tuple ? ops->tuple_close(pytorch->tree) : ops->list_close(pytorch->tree);
}

/* A part of which the snapshot holds nothing. It is written once where references are possible; where they
 * are not, a small input can be any amount, and nothing but the bound of the tree ends it. */
static void write_part(gp_pytorch_t *pytorch, uint32_t part)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  size_t length;
  const unsigned char *bytes = gp_original_get(original_of(pytorch), part, &length);
  const unsigned char *end = bytes + length;
  gp_original_part_t kind = (gp_original_part_t)bytes[0];

  if (kind == GP_ORIGINAL_TEXT || kind == GP_ORIGINAL_LONG) {
    write_bytes(pytorch, part, bytes, length);
    return;
  }
  if (ops->has_failed(pytorch->tree) || ops->refer(pytorch->tree, &pytorch->part_numbers[part]))
    return;
  if (kind == GP_ORIGINAL_DICT)
    write_dict(pytorch, bytes + 1, end, NULL, 0);
  else
    write_list(pytorch, bytes + 1, end, kind == GP_ORIGINAL_TUPLE);
  ops->remember(pytorch->tree, &pytorch->part_numbers[part]);
}

/* A dict of which the snapshot holds something. */
static void write_held_dict(gp_pytorch_t *pytorch, uint32_t part, held_fn write_held, size_t index)
{
  size_t length;
  const unsigned char *bytes = gp_original_get(original_of(pytorch), part, &length);
  write_dict(pytorch, bytes + 1, bytes + length, write_held, index);
}

/*
 * Frames and events
 */

static void write_held_of_frame(gp_pytorch_t *pytorch, gp_original_held_t held, size_t index)
{
  const gp_snapshot_frame_t *frame = &pytorch->export->snapshot->frames[index];
  switch (held) {
  case GP_HELD_FILE: pytorch->tree->ops->text(pytorch->tree, frame->file); break;
  case GP_HELD_LINE: write_integer(pytorch, (uint64_t)frame->line); break;
  default: pytorch->tree->ops->text(pytorch->tree, frame->function); break;
  }
}

void gp_pytorch_original_frame(gp_pytorch_t *pytorch, size_t frame)
{
  write_held_dict(pytorch, pytorch->export->snapshot->frames[frame].original, write_held_of_frame, frame);
}

static void write_held_of_event(gp_pytorch_t *pytorch, gp_original_held_t held, size_t index)
{
  const gp_snapshot_events_t *events = &pytorch->export->snapshot->events;
  uint64_t bytes = 0;
  switch (held) {
  case GP_HELD_ACTION:
    pytorch->tree->ops->text(
        pytorch->tree, events->actions.names[gp_snapshot_event(events, GP_COLUMN_ACTION, index, 0)]);
    break;
  case GP_HELD_ADDRESS:
    write_integer(pytorch, gp_snapshot_event_uint(events, GP_COLUMN_ADDRESS, index));
    break;
  case GP_HELD_SIZE: write_integer(pytorch, gp_snapshot_event_uint(events, GP_COLUMN_SIZE, index)); break;
  case GP_HELD_STREAM:
    gp_pytorch_stream_value(pytorch, (int)gp_snapshot_event(events, GP_COLUMN_STREAM, index, -1));
    break;
  case GP_HELD_TIME:
    write_integer(pytorch, (uint64_t)gp_column_get(original_of(pytorch)->times_us, index));
    break;
  case GP_HELD_DEVICE_FREE:
    (void)gp_snapshot_device_free(events, index, &bytes); /* it is said, or it would not be held */
    write_integer(pytorch, bytes);
    break;
  default: gp_pytorch_stack(pytorch, (int)gp_snapshot_event(events, GP_COLUMN_STACK, index, -1)); break;
  }
}

/* Each device has its list, in the order of the file; those of other devices than asked for are empty. */
static void write_traces(gp_pytorch_t *pytorch)
{
  const gp_export_t *export = pytorch->export;
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const gp_snapshot_events_t *events = &export->snapshot->events;

  ops->list_open(pytorch->tree);
  for (uint32_t device = 0; device < original_of(pytorch)->trace_count; device++) {
    ops->item(pytorch->tree);
    ops->list_open(pytorch->tree);
    for (size_t i = 0; i < events->count && gp_export_has_device(export, (int)device); i++) {
      gp_export_progress(export, i, events->count);
      if (gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0) != (int64_t)device)
        continue;
      ops->item(pytorch->tree);
      write_held_dict(
          pytorch, (uint32_t)gp_column_get(original_of(pytorch)->events, i), write_held_of_event, i);
    }
    ops->list_close(pytorch->tree);
  }
  ops->list_close(pytorch->tree);
}

/*
 * Segments
 */

static void write_held_of_block(gp_pytorch_t *pytorch, gp_original_held_t held, size_t index)
{
  const gp_snapshot_block_t *block = &pytorch->export->snapshot->blocks[index];
  switch (held) {
  case GP_HELD_ADDRESS: write_integer(pytorch, block->address); break;
  case GP_HELD_SIZE: write_integer(pytorch, block->size); break;
  case GP_HELD_REQUESTED: write_integer(pytorch, block->requested); break;
  default: pytorch->tree->ops->text(pytorch->tree, gp_snapshot_state_name(block->state)); break;
  }
}

static void write_held_of_segment(gp_pytorch_t *pytorch, gp_original_held_t held, size_t index)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const gp_snapshot_t *snapshot = pytorch->export->snapshot;
  const gp_snapshot_segment_t *segment = &snapshot->segments[index];
  switch (held) {
  case GP_HELD_DEVICE: write_integer(pytorch, (uint64_t)segment->device); return;
  case GP_HELD_ADDRESS: write_integer(pytorch, segment->address); return;
  case GP_HELD_SIZE: write_integer(pytorch, segment->size); return;
  case GP_HELD_STREAM: gp_pytorch_stream_value(pytorch, segment->stream); return;
  default: break; /* its blocks */
  }
  ops->list_open(pytorch->tree);
  for (size_t i = segment->first_block; i < segment->first_block + segment->block_count; i++) {
    ops->item(pytorch->tree);
    write_held_dict(pytorch, snapshot->blocks[i].original, write_held_of_block, i);
  }
  ops->list_close(pytorch->tree);
}

static void write_segments(gp_pytorch_t *pytorch)
{
  const gp_tree_ops_t *ops = pytorch->tree->ops;
  const gp_snapshot_t *snapshot = pytorch->export->snapshot;
  ops->list_open(pytorch->tree);
  for (size_t i = 0; i < snapshot->segment_count; i++) {
    size_t segment = original_of(pytorch)->segments[i];
    if (!gp_export_has_device(pytorch->export, snapshot->segments[segment].device))
      continue;
    ops->item(pytorch->tree);
    write_held_dict(pytorch, snapshot->segments[segment].original, write_held_of_segment, segment);
  }
  ops->list_close(pytorch->tree);
}

static void write_held_of_top(gp_pytorch_t *pytorch, gp_original_held_t held, size_t index)
{
  (void)index;
  if (held == GP_HELD_SEGMENTS)
    write_segments(pytorch);
  else
    write_traces(pytorch);
}

int gp_pytorch_original(gp_pytorch_t *pytorch)
{
  const gp_original_t *original = original_of(pytorch);
  pytorch->part_numbers = calloc((size_t)original->part_count + 1, sizeof(uint32_t));
  if (!pytorch->part_numbers)
    return ENOMEM;
  if (original->top)
    write_held_dict(pytorch, original->top, write_held_of_top, 0);
  else
    write_segments(pytorch); /* PyTorch 1 */
  free(pytorch->part_numbers);
  return 0;
}
