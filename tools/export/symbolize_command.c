/*
 * The command gpupool symbolize, which adds the names of stack frames to a snapshot, so that the snapshot can
 * be read on another machine.
 */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/read/json_scan.h"
#include "tools/json_print.h"
#include "tools/output.h"
#include "tools/parameters.h"
#include "tools/read/load.h"
#include "tools/symbols/symbols.h"
#include "tools/tool.h"

typedef struct request {
  const char *output;
  gp_symbols_options_t symbols;
  bool force;
} request_t;

/* The position [start, end) of a key's value in the text; both are 0 if the key is missing. */
typedef struct span {
  size_t start;
  size_t end;
} span_t;

static void print_help(void)
{
  printf("usage: gpupool symbolize FILE [options]\n"
         "\n"
         "Writes the snapshot FILE (- for stdin) again, with function, file and line of\n"
         "the calls in its stacks; all else stays as it is. It can then be read elsewhere,\n"
         "and after the program was rebuilt.\n"
         "\n"
         "Names come from the program's own files, if they are still the build that ran\n"
         "(by build-id), and from debug files in /usr/lib/debug. Nothing is fetched over a\n"
         "network.\n"
         "\n"
         "  -o, --output F   write to F (- is stdout, which is the default); an existing\n"
         "                   file is kept\n"
         "  --force          overwrite the file of -o\n"
         "  --sysroot DIR    look for the files of the program, and debug files, below DIR\n"
         "  --debug-dir DIR  more debug files: DIR/.build-id/ab/cdef.debug, or by name\n"
         "\n"
         "Exit status: 0 done, also if names were not found (stderr says of which files);\n"
         "2 usage; 3 a file that cannot be read or written, or is corrupt, or no libdw.\n");
}

static const gp_parameter_t parameters[] = {
    {"output", .letter = 'o', .kind = GP_PARAMETER_TEXT, .offset = offsetof(request_t, output)},
    {"force", .offset = offsetof(request_t, force)},
    {"sysroot", .kind = GP_PARAMETER_TEXT, .offset = offsetof(request_t, symbols.sysroot)},
    {"debug-dir", .kind = GP_PARAMETER_TEXT, .offset = offsetof(request_t, symbols.debug_directory)},
};

static const gp_words_form_t form = {
    "symbolize", parameters, sizeof(parameters) / sizeof(parameters[0]), INT_MAX, print_help};

/*
 * Writing the snapshot
 */

static void write_string(FILE *stream, const char *name, const char *text)
{
  fprintf(stream, ",\"%s\":\"", name);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      fprintf(stream, "\\%c", *text);
    else if ((unsigned char)*text < 0x20)
      fprintf(stream, "\\u%04x", (unsigned)*text);
    else
      putc(*text, stream); /* a single character, because gp_json_escape escapes everything else */
  }
  putc('"', stream);
}

static void write_frames(FILE *stream, const gp_snapshot_t *snapshot)
{
  putc('[', stream);
  for (size_t i = 0; i < snapshot->frame_count; i++) {
    const gp_snapshot_frame_t *frame = &snapshot->frames[i];
    fprintf(stream, "%s\n{\"address\":%llu,\"module\":%d", i ? "," : "", (unsigned long long)frame->address,
        frame->module);
    if (frame->function[0]) {
      write_string(stream, "function", frame->function);
      write_string(stream, "file", frame->file);
      fprintf(stream, ",\"line\":%d,\"inline\":%s", frame->line, frame->is_inline ? "true" : "false");
    }
    putc('}', stream);
  }
  putc(']', stream);
}

static void write_stacks(FILE *stream, const gp_snapshot_stacks_t *stacks)
{
  putc('[', stream);
  for (size_t i = 0; i < stacks->count; i++) {
    fprintf(stream, "%s\n[", i ? "," : "");
    for (size_t k = stacks->first[i]; k < stacks->first[i + 1]; k++)
      fprintf(stream, "%s%d", k > stacks->first[i] ? "," : "", stacks->frame_indexes[k]);
    putc(']', stream);
  }
  putc(']', stream);
}

/* Finds the values of "stacks" and "frames". The text is well-formed, because it was read as a snapshot. */
static void find_spans(const char *text, size_t length, span_t *ret_stacks, span_t *ret_frames)
{
  gp_json_scan_t scan;
  gp_json_slice_t name;

  gp_json_scan_init(&scan, text, length);
  (void)gp_json_scan_begin(&scan, '{');
  while (gp_json_scan_member(&scan, &name)) {
    span_t *span = gp_json_slice_is(name, "stacks")   ? ret_stacks
                   : gp_json_slice_is(name, "frames") ? ret_frames
                                                      : NULL;
    (void)gp_json_scan_peek(&scan); /* peeking skips blanks */
    size_t start = scan.at;
    (void)gp_json_scan_skip(&scan);
    if (span)
      *span = (span_t){start, scan.at};
  }
}

/* Writes the text, but replaces the values of "stacks" and "frames", which may be in any order. */
static void write_parts(FILE *stream, const char *text, size_t length, const gp_snapshot_t *snapshot)
{
  span_t stacks = {0}, frames = {0};

  find_spans(text, length, &stacks, &frames);
  bool stacks_first = stacks.start < frames.start;
  const span_t first = stacks_first ? stacks : frames;
  const span_t second = stacks_first ? frames : stacks;
  if (snapshot->frame_count == 0 || first.end == 0) { /* nothing has changed */
    (void)fwrite(text, 1, length, stream);
    return;
  }
  (void)fwrite(text, 1, first.start, stream); /* errors are reported when the output is closed */
  stacks_first ? write_stacks(stream, &snapshot->stacks) : write_frames(stream, snapshot);
  (void)fwrite(text + first.end, 1, second.start - first.end, stream);
  stacks_first ? write_frames(stream, snapshot) : write_stacks(stream, &snapshot->stacks);
  (void)fwrite(text + second.end, 1, length - second.end, stream);
}

/* Writes the snapshot with names. Returns false if memory runs out. */
static bool write_snapshot(FILE *stream, const char *text, size_t length, const gp_snapshot_t *snapshot)
{
  char *plain = NULL, *escaped = NULL;
  size_t plain_length, escaped_length;
  FILE *parts = open_memstream(&plain, &plain_length);
  if (parts) {
    write_parts(parts, text, length, snapshot);
    if (fclose(parts) == 0)
      escaped = gp_json_escape(plain, plain_length, &escaped_length);
  }
  if (escaped)
    (void)fwrite(escaped, 1, escaped_length, stream); /* errors are reported when the output is closed */
  free(plain);
  free(escaped);
  return escaped != NULL;
}

/*
 * The command
 */

static void tell_problem(void *arg, const gp_snapshot_module_t *module, const char *why)
{
  (void)arg;
  gp_message("no names for %s: %s", module->path, why);
}

static void tell_result(const char *file, const gp_snapshot_t *snapshot)
{
  size_t named = 0, with_line = 0;

  for (size_t i = 0; i < snapshot->frame_count; i++) {
    named += snapshot->frames[i].function[0] != '\0';
    with_line += snapshot->frames[i].line > 0;
  }
  if (snapshot->frame_count == 0)
    gp_message("%s: it has no stacks; GPUPOOL_STACKS=native records one for every allocation", file);
  else
    gp_message(
        "%s: %zu of %zu frames have names, %zu a source line", file, named, snapshot->frame_count, with_line);
}

int gp_command_symbolize(int argc, char **argv)
{
  request_t request = {0};
  gp_output_t output;
  char *text;
  size_t length;
  int words, status;

  if (!gp_words_parse(&form, argc, argv, &request, &words, &status))
    return status;
  if (words > 1)
    return gp_message_usage("symbolize", "symbolize: one file at a time, and %s is a second one", argv[2]);
  if (!words)
    return gp_message_usage("symbolize", "symbolize: a file is missing");
  const char *file = argv[1];
  if (!gp_symbols_are_available()) {
    gp_message("symbolize needs %s", gp_symbols_need());
    return GP_EXIT_INPUT;
  }
  status = gp_output_open(&output, request.output, request.force, true);
  if (status)
    return status;
  gp_snapshot_t *snapshot = gp_snapshot_load_text(file, 0, &text, &length);
  if (!snapshot) {
    gp_output_discard(&output);
    return GP_EXIT_INPUT;
  }
  request.symbols.problem = tell_problem;
  gp_symbols_resolve(snapshot, &request.symbols);
  if (write_snapshot(output.stream, text, length, snapshot)) {
    status = gp_output_close(&output);
  } else {
    gp_message("out of memory");
    gp_output_discard(&output);
    status = GP_EXIT_INPUT;
  }
  if (status == 0)
    tell_result(file, snapshot);
  gp_snapshot_destroy(snapshot);
  free(text);
  return status;
}
