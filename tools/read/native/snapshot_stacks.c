/*
 * Reads the stacks of a snapshot, their frames, and the modules of the frames.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/read/native/snapshot_parts.h"

static bool read_stack(gp_json_scan_t *scan, gp_snapshot_stacks_t *stacks, size_t *frame_count)
{
  int64_t frames[64];
  size_t most = sizeof(frames) / sizeof(frames[0]), got = most;
  (void)gp_json_scan_peek(scan); /* skip blanks */
  size_t at = scan->at;

  if (!gp_json_scan_begin(scan, '['))
    return false;
  size_t *first = gp_snapshot_append(scan, &stacks->first, &stacks->count, sizeof(*first));
  if (first)
    *first = *frame_count;
  while (first && got == most && gp_json_scan_integers(scan, frames, most, &got)) {
    for (size_t i = 0; i < got; i++) {
      int *frame = gp_snapshot_append(scan, &stacks->frame_indexes, frame_count, sizeof(*frame));
      if (!frame)
        return false;
      if (frames[i] < 0 || frames[i] > INT32_MAX)
        return gp_json_scan_fail(scan, at, "a stack with an impossible frame");
      *frame = (int)frames[i];
    }
  }
  return !scan->error;
}

bool gp_snapshot_read_stacks(gp_snapshot_parse_t *parse)
{
  gp_json_scan_t *scan = &parse->scan;
  gp_snapshot_stacks_t *stacks = &parse->snapshot->stacks;
  size_t frame_count = 0;

  parse->stacks_at = scan->at;
  bool good = gp_json_scan_begin(scan, '[');
  while (good && gp_json_scan_element(scan))
    good = read_stack(scan, stacks, &frame_count);
  if (!good || scan->error)
    return false;
  if (stacks->count == 0)
    return true;
  /* One additional entry marks the end of the last stack. */
  size_t *end = gp_snapshot_append(scan, &stacks->first, &stacks->count, sizeof(*end));
  if (!end)
    return false;
  *end = frame_count;
  stacks->count--;
  return true;
}

static bool read_line(gp_json_scan_t *scan, void *to)
{
  uint64_t line = (uint64_t) * (int *)to;
  if (!gp_snapshot_read_uint(scan, &line))
    return false;
  *(int *)to = line <= INT32_MAX ? (int)line : 0;
  return true;
}

#define FRAME(name, read, field) GP_SNAPSHOT_MEMBER(name, read, gp_snapshot_frame_t, field)
static const gp_snapshot_member_t frame_members[] = {
    FRAME("address", gp_snapshot_read_uint, address),
    FRAME("module", gp_snapshot_read_index, module),
    FRAME("function", gp_snapshot_read_string, function),
    FRAME("file", gp_snapshot_read_string, file),
    FRAME("line", read_line, line),
    FRAME("inline", gp_snapshot_read_bool, is_inline),
    {.name = NULL},
};

/* Replaces a missing text with "". Returns false if memory runs out. */
static bool complete(gp_json_scan_t *scan, char **text)
{
  if (!*text)
    *text = strdup("");
  return *text || gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
}

static bool read_frame(gp_json_scan_t *scan, gp_snapshot_t *snapshot)
{
  gp_snapshot_frame_t *frame =
      gp_snapshot_append(scan, &snapshot->frames, &snapshot->frame_count, sizeof(*frame));
  if (!frame)
    return false;
  frame->module = -1;
  return gp_snapshot_read_object(scan, frame_members, frame) && complete(scan, &frame->function) &&
         complete(scan, &frame->file);
}

bool gp_snapshot_read_frames(gp_snapshot_parse_t *parse)
{
  parse->frames_at = parse->scan.at;
  return gp_snapshot_read_array(parse, read_frame);
}

#define MODULE(name, read, field) GP_SNAPSHOT_MEMBER(name, read, gp_snapshot_module_t, field)
static const gp_snapshot_member_t module_members[] = {
    MODULE("path", gp_snapshot_read_string, path),
    MODULE("build_id", gp_snapshot_read_string, build_id),
    MODULE("bias", gp_snapshot_read_uint, bias),
    MODULE("start", gp_snapshot_read_uint, start),
    MODULE("end", gp_snapshot_read_uint, end),
    {.name = NULL},
};

static bool read_module(gp_json_scan_t *scan, gp_snapshot_t *snapshot)
{
  gp_snapshot_module_t *module =
      gp_snapshot_append(scan, &snapshot->modules, &snapshot->module_count, sizeof(*module));
  return module && gp_snapshot_read_object(scan, module_members, module) && complete(scan, &module->path) &&
         complete(scan, &module->build_id);
}

bool gp_snapshot_read_modules(gp_snapshot_parse_t *parse)
{
  return gp_snapshot_read_array(parse, read_module);
}

bool gp_snapshot_check_stacks(gp_snapshot_parse_t *parse)
{
  const gp_snapshot_t *snapshot = parse->snapshot;
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;

  for (size_t i = 0; i < snapshot->frame_count; i++) {
    int module = snapshot->frames[i].module;
    if (module >= 0 && (size_t)module >= snapshot->module_count)
      return gp_snapshot_fail(
          parse, parse->frames_at, "frame %zu refers to module %d, which is missing", i, module);
  }
  for (size_t i = 0; i < stacks->count; i++) {
    for (size_t k = stacks->first[i]; k < stacks->first[i + 1]; k++) {
      if ((size_t)stacks->frame_indexes[k] >= snapshot->frame_count)
        return gp_snapshot_fail(parse, parse->stacks_at, "stack %zu refers to frame %d, which is missing", i,
            stacks->frame_indexes[k]);
    }
  }
  return true;
}
