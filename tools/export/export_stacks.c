/*
 * Writes flame graphs: speedscope's JSON, and the folded stacks of flamegraph.pl.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "tools/export/export.h"
#include "tools/tool.h"
#include "base/json.h"

#define BUFFER_BYTES (1 << 16)
#define DEPTH_MOST   500 /* most frames of a stack, from the innermost on; viewers recurse */

static const char no_stack[] = "(no stack)";

static size_t depth_of(const gp_snapshot_stacks_t *stacks, size_t stack)
{
  return stacks->first[stack + 1] - stacks->first[stack];
}

/* If the snapshot has no stacks, prints why the graph is a single bar. */
static void say_if_flat(const gp_export_t *export, const gp_export_weights_t *weights)
{
  if (!export->snapshot->stacks.count && weights->sums[GP_EXPORT_TOTAL])
    gp_message("%s: it has no call stacks, so everything is one bar", export->name);
}

/* The folded format. Each line is a stack: its calls, outermost first, and its bytes. */

/* Writes a name. The format has no quotes, so this replaces ';', which ends a name, and blanks, which end the
 * stack. *left is the number of bytes that may still be written. */
static void write_folded_name(FILE *stream, const char *name, uint64_t *left)
{
  for (size_t rest = *left > 0 ? strlen(name) : 0; rest > 0 && *left > 0;) {
    gp_character_t character = gp_character_at(name, rest);
    if (character.is_unsafe || *name == ' ' || *name == ';')
      (void)putc_unlocked(*name == ';' ? ':' : '_', stream);
    else
      (void)fwrite_unlocked(name, 1, character.length, stream);
    *left -= character.length < *left ? character.length : *left;
    name += character.length;
    rest -= character.length;
  }
}

int gp_export_folded(gp_export_t *export)
{
  const gp_snapshot_t *snapshot = export->snapshot;
  gp_export_weights_t weights;
  char buffer[GP_EXPORT_FRAME_BYTES];
  uint64_t left = gp_snapshot_output_most(snapshot);

  int error = gp_export_weigh(export, &weights);
  for (size_t i = 0; i < weights.count && !error; i++) {
    uint64_t bytes = weights.bytes[export->metric][i];
    if (!bytes)
      continue;
    if (i == 0 || depth_of(&snapshot->stacks, i - 1) == 0)
      write_folded_name(export->stream, no_stack, &left);
    for (size_t k = i ? depth_of(&snapshot->stacks, i - 1) : 0; k-- > 0;) {
      size_t frame = (size_t)snapshot->stacks.frame_indexes[snapshot->stacks.first[i - 1] + k];
      write_folded_name(export->stream, gp_export_frame_function(snapshot, frame, buffer), &left);
      if (k > 0)
        (void)putc_unlocked(';', export->stream);
    }
    fprintf(export->stream, " %" PRIu64 "\n", bytes);
    error = left > 0 ? 0 : EOVERFLOW;
  }
  if (!error)
    say_if_flat(export, &weights);
  gp_export_weights_fini(&weights);
  errno = 0;
  if (!error && fflush(export->stream))
    error = errno ? errno : EIO;
  return error;
}

/* The speedscope format has one profile per metric, and all profiles share the frames. Frame 0 is "(no
 * stack)". Frame 1 stands for the calls that are left out of a deep stack. The snapshot's frames follow. */
#define FRAMES_OWN 2

static void write_frames(gp_json_t *json, const gp_snapshot_t *snapshot)
{
  char buffer[GP_EXPORT_FRAME_BYTES];
  gp_json_key(json, "frames");
  gp_json_begin(json, '[');
  for (size_t i = 0; i < snapshot->frame_count + FRAMES_OWN; i++) {
    gp_json_newline(json);
    gp_json_begin(json, '{');
    if (i < FRAMES_OWN) {
      gp_json_key_string(json, "name", i == 0 ? no_stack : "(deeper than is shown)");
    } else {
      size_t frame = i - FRAMES_OWN;
      const char *file = gp_export_frame_file(snapshot, frame);
      gp_json_key_string(json, "name", gp_export_frame_function(snapshot, frame, buffer));
      if (file[0])
        gp_json_key_string(json, "file", file);
      if (snapshot->frames[frame].line > 0)
        gp_json_key_int(json, "line", snapshot->frames[frame].line);
    }
    gp_json_end(json, '}');
  }
  gp_json_end(json, ']');
}

/* Writes the frames of a stack, outermost call first. */
static void write_sample(gp_json_t *json, const gp_snapshot_stacks_t *stacks, size_t index)
{
  size_t depth = index ? depth_of(stacks, index - 1) : 0;
  size_t shown = depth < DEPTH_MOST ? depth : DEPTH_MOST;

  gp_json_newline(json);
  gp_json_begin(json, '[');
  if (depth == 0)
    gp_json_uint(json, 0);
  if (shown < depth)
    gp_json_uint(json, 1);
  for (size_t k = shown; k-- > 0;)
    gp_json_uint(json, (uint64_t)stacks->frame_indexes[stacks->first[index - 1] + k] + FRAMES_OWN);
  gp_json_end(json, ']');
}

static void write_profile(
    gp_json_t *json, const gp_export_t *export, const gp_export_weights_t *weights, gp_export_metric_t metric)
{
  static const char *const names[GP_EXPORT_METRICS] = {
      [GP_EXPORT_LIVE] = "live: held in the snapshot",
      [GP_EXPORT_PEAK] = "peak: held when most was",
      [GP_EXPORT_TOTAL] = "total: all there ever was",
  };
  const uint64_t *bytes = weights->bytes[metric];

  gp_json_newline(json);
  gp_json_begin(json, '{');
  gp_json_key_string(json, "type", "sampled");
  gp_json_key_string(json, "name", names[metric]);
  gp_json_key_string(json, "unit", "bytes");
  gp_json_key_uint(json, "startValue", 0);
  gp_json_key_uint(json, "endValue", weights->sums[metric]);
  gp_json_key(json, "samples");
  gp_json_begin(json, '[');
  for (size_t i = 0; i < weights->count; i++) {
    if (bytes[i])
      write_sample(json, &export->snapshot->stacks, i);
  }
  gp_json_end(json, ']');
  gp_json_key(json, "weights");
  gp_json_begin(json, '[');
  for (size_t i = 0; i < weights->count; i++) {
    if (bytes[i])
      gp_json_uint(json, bytes[i]);
  }
  gp_json_end(json, ']');
  gp_json_end(json, '}');
}

int gp_export_speedscope(gp_export_t *export)
{
  static char buffer[BUFFER_BYTES];
  gp_export_weights_t weights;
  gp_json_t json;

  int error = gp_export_weigh(export, &weights);
  if (!error) {
    gp_json_init(&json, fileno(export->stream), buffer, sizeof(buffer));
    gp_json_bound(&json, gp_snapshot_output_most(export->snapshot));
    gp_json_begin(&json, '{');
    gp_json_key_string(&json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    gp_json_key_string(&json, "exporter", "gpupool " GP_VERSION);
    gp_json_key_string(&json, "name", export->name);
    gp_json_key_uint(&json, "activeProfileIndex", GP_EXPORT_PEAK);
    gp_json_key(&json, "shared");
    gp_json_begin(&json, '{');
    write_frames(&json, export->snapshot);
    gp_json_end(&json, '}');
    gp_json_newline(&json);
    gp_json_key(&json, "profiles");
    gp_json_begin(&json, '[');
    for (int metric = 0; metric < GP_EXPORT_METRICS; metric++)
      write_profile(&json, export, &weights, (gp_export_metric_t)metric);
    gp_json_end(&json, ']');
    gp_json_end(&json, '}');
    error = gp_json_finish(&json);
    say_if_flat(export, &weights);
  }
  gp_export_weights_fini(&weights);
  return error;
}
