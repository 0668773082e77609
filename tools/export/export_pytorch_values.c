#include <string.h>

#include "base/assert.h"
#include "tools/export/export_pytorch_parts.h"

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
    pytorch->next_place = PLACES_FIRST; /* earlier users of the places are gone, or the sizes are absurd */
  gp_assert(pytorch->next_place >= PLACES_FIRST && pytorch->next_place < PLACES_END);
  uint64_t place = pytorch->next_place;
  pytorch->next_place += size;
  return place;
}
