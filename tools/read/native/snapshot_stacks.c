/*
 * Who asked, in a snapshot: stacks, their frames, and the modules these are in.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/read/native/snapshot_parts.h"

static bool read_stack(gp_json_scan_t *scan, gp_snapshot_stacks_t *stacks, size_t *frame_count)
{
  int64_t frames[64];
  size_t most = sizeof(frames) / sizeof(frames[0]), got = most;
  (void)gp_json_scan_peek(scan); /* for the blanks */
  size_t at = scan->at;

  if (!gp_json_scan_begin(scan, '['))
    return false;
  size_t *first = gp_snapshot_append(scan, (void **)&stacks->first, &stacks->count, sizeof(*first));
  if (first)
    *first = *frame_count;
  while (first && got == most && gp_json_scan_integers(scan, frames, most, &got)) {
    for (size_t i = 0; i < got; i++) {
      int *frame = gp_snapshot_append(scan, (void **)&stacks->frame_indexes, frame_count, sizeof(*frame));
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
  /* One more, that says where the last one ends. */
  size_t *end = gp_snapshot_append(scan, (void **)&stacks->first, &stacks->count, sizeof(*end));
  if (!end)
    return false;
  *end = frame_count;
  stacks->count--;
  return true;
}

static bool read_frame(gp_json_scan_t *scan, gp_snapshot_frame_t *frame)
{
  gp_json_slice_t name;
  uint64_t line = 0;

  if (!gp_json_scan_begin(scan, '{'))
    return false;
  while (gp_json_scan_member(scan, &name)) {
    bool good;
    if (gp_json_slice_is(name, "address"))
      good = gp_snapshot_read_uint(scan, &frame->address);
    else if (gp_json_slice_is(name, "module"))
      good = gp_snapshot_read_index(scan, &frame->module);
    else if (gp_json_slice_is(name, "function"))
      good = gp_snapshot_read_string(scan, &frame->function);
    else if (gp_json_slice_is(name, "file"))
      good = gp_snapshot_read_string(scan, &frame->file);
    else if (gp_json_slice_is(name, "line"))
      good = gp_snapshot_read_uint(scan, &line);
    else if (gp_json_slice_is(name, "inline"))
      good = gp_snapshot_read_bool(scan, &frame->is_inline);
    else
      good = gp_json_scan_skip(scan);
    if (!good)
      return false;
  }
  frame->line = line <= INT32_MAX ? (int)line : 0;
  return !scan->error;
}

/* "" for what the file does not say. */
static bool complete(gp_json_scan_t *scan, char **text)
{
  if (!*text)
    *text = strdup("");
  return *text || gp_json_scan_fail(scan, scan->at, "not enough memory to read this");
}

bool gp_snapshot_read_frames(gp_snapshot_parse_t *parse)
{
  gp_json_scan_t *scan = &parse->scan;
  gp_snapshot_t *snapshot = parse->snapshot;

  parse->frames_at = scan->at;
  bool good = gp_json_scan_begin(scan, '[');
  while (good && gp_json_scan_element(scan)) {
    gp_snapshot_frame_t *frame =
        gp_snapshot_append(scan, (void **)&snapshot->frames, &snapshot->frame_count, sizeof(*frame));
    if (!frame)
      return false;
    frame->module = -1;
    good = read_frame(scan, frame) && complete(scan, &frame->function) && complete(scan, &frame->file);
  }
  return good && !scan->error;
}

static bool read_module(gp_json_scan_t *scan, gp_snapshot_module_t *module)
{
  gp_json_slice_t name;

  if (!gp_json_scan_begin(scan, '{'))
    return false;
  while (gp_json_scan_member(scan, &name)) {
    bool good;
    if (gp_json_slice_is(name, "path"))
      good = gp_snapshot_read_string(scan, &module->path);
    else if (gp_json_slice_is(name, "build_id"))
      good = gp_snapshot_read_string(scan, &module->build_id);
    else if (gp_json_slice_is(name, "bias"))
      good = gp_snapshot_read_uint(scan, &module->bias);
    else if (gp_json_slice_is(name, "start"))
      good = gp_snapshot_read_uint(scan, &module->start);
    else if (gp_json_slice_is(name, "end"))
      good = gp_snapshot_read_uint(scan, &module->end);
    else
      good = gp_json_scan_skip(scan);
    if (!good)
      return false;
  }
  return !scan->error && complete(scan, &module->path) && complete(scan, &module->build_id);
}

bool gp_snapshot_read_modules(gp_snapshot_parse_t *parse)
{
  gp_json_scan_t *scan = &parse->scan;
  gp_snapshot_t *snapshot = parse->snapshot;

  bool good = gp_json_scan_begin(scan, '[');
  while (good && gp_json_scan_element(scan)) {
    gp_snapshot_module_t *module =
        gp_snapshot_append(scan, (void **)&snapshot->modules, &snapshot->module_count, sizeof(*module));
    good = module && read_module(scan, module);
  }
  return good && !scan->error;
}

bool gp_snapshot_check_stacks(gp_snapshot_parse_t *parse)
{
  const gp_snapshot_t *snapshot = parse->snapshot;
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;

  for (size_t i = 0; i < snapshot->frame_count; i++) {
    int module = snapshot->frames[i].module;
    if (module >= 0 && (size_t)module >= snapshot->module_count)
      return gp_snapshot_fail(
          parse, parse->frames_at, "frame %zu is in module %d, which is not there", i, module);
  }
  for (size_t i = 0; i < stacks->count; i++) {
    for (size_t k = stacks->first[i]; k < stacks->first[i + 1]; k++) {
      if ((size_t)stacks->frame_indexes[k] >= snapshot->frame_count)
        return gp_snapshot_fail(parse, parse->stacks_at, "stack %zu has frame %d, which is not there", i,
            stacks->frame_indexes[k]);
    }
  }
  return true;
}

void gp_snapshot_stacks_fini(gp_snapshot_t *snapshot)
{
  for (size_t i = 0; i < snapshot->frame_count; i++) {
    free(snapshot->frames[i].function);
    free(snapshot->frames[i].file);
  }
  for (size_t i = 0; i < snapshot->module_count; i++) {
    free(snapshot->modules[i].path);
    free(snapshot->modules[i].build_id);
  }
  free(snapshot->frames);
  free(snapshot->modules);
  free(snapshot->stacks.first);
  free(snapshot->stacks.frame_indexes);
}
