/*
 * The command gpupool export, which writes a snapshot in the format of another tool.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/export/export.h"
#include "tools/output.h"
#include "tools/output_file.h"
#include "tools/parameters.h"
#include "tools/pattern.h"
#include "tools/read/load.h"
#include "tools/symbols/stack_owners.h"
#include "tools/symbols/symbols.h"
#include "tools/tool.h"

typedef struct format {
  const char *name;
  int (*write)(gp_export_t *export);
  bool is_binary;
  bool is_of_one_device; /* the format has no devices, so it can contain only one */
  const char *help;
  const char *repeats;     /* the data that the format repeats; NULL: none */
  const char *alternative; /* another format, whose output size is bounded by the snapshot's size */
} format_t;

static const format_t formats[] = {
    {"pytorch", gp_export_pytorch, true, false, "pickle for PyTorch's memory viewer and _memory_viz.py", NULL,
        NULL},
    {"pytorch-json", gp_export_pytorch_json, false, false, "the same as JSON",
        "the whole call stack with every event", "--to pytorch writes each stack once"},
    {"perfetto", gp_export_perfetto, false, false, "timeline for ui.perfetto.dev, chrome://tracing",
        "the name of an owner with every event", "--to pytorch writes each name once"},
    {"speedscope", gp_export_speedscope, false, false, "flame graphs for speedscope.app",
        "every stack for every metric", "--to pytorch writes each stack once"},
    {"folded", gp_export_folded, false, false, "stacks and bytes for flamegraph.pl, see --metric",
        "the names of functions with every stack", "--to speedscope writes each name once"},
    {"csv", gp_export_csv, false, true, "the requests, to be replayed: op,id,size,stream", NULL, NULL},
};
#define FORMAT_COUNT (sizeof(formats) / sizeof(formats[0]))

#define COLUMNS                                                                                              \
  (1u << GP_COLUMN_ACTION | 1u << GP_COLUMN_TIME_NS | 1u << GP_COLUMN_DEVICE | 1u << GP_COLUMN_STREAM |      \
      1u << GP_COLUMN_THREAD | 1u << GP_COLUMN_ADDRESS | 1u << GP_COLUMN_SIZE |                              \
      1u << GP_COLUMN_ROUNDED_SIZE | 1u << GP_COLUMN_BLOCK | 1u << GP_COLUMN_STACK | 1u << GP_COLUMN_DETAIL)

typedef struct request {
  const char *to; /* as typed; NULL: not given */
  const format_t *format;
  const char *input;
  const char *output;
  int device;
  int metric; /* gp_export_metric_t; -1: not given */
  bool force;
  bool no_symbols;
  bool all_frames;
  gp_patterns_t skip;
  const char *skip_file; /* file with more patterns to skip; its lines were added to `skip`; NULL: none */
} request_t;

static void print_help(void)
{
  printf("usage: gpupool export --to FORMAT FILE [options]\n"
         "\n"
         "Writes a snapshot (FILE, or - for stdin) in the format of another tool:\n"
         "\n");
  for (size_t i = 0; i < FORMAT_COUNT; i++)
    printf("  %-14s %s\n", formats[i].name, formats[i].help);
  printf("\n"
         "  --to FORMAT      one of these\n"
         "  -o, --output F   write to F (- is stdout); an existing file is kept\n"
         "  --force          overwrite the file of -o\n"
         "  --device N       only this device\n"
         "  --metric M       folded: bytes that were live, at the peak or in total\n"
         "                   (live, peak, total; default peak)\n"
         "  --skip PATTERN   frames that own no memory, as in the reports (repeatable)\n"
         "  --skip-file FILE the same for each line of FILE\n"
         "  --all-frames     name the innermost frame of each stack, whatever it is\n"
         "  --no-symbols     open no file that the snapshot names: stacks have places in\n"
         "                   files instead of names\n"
         "\n"
         "Exit status: 0 done; 2 usage; 3 a file that cannot be read or is corrupt, or an\n"
         "output that cannot be written.\n");
}

static const gp_parameter_t parameters[] = {
    {"to", .kind = GP_PARAMETER_TEXT, .offset = offsetof(request_t, to)},
    {"output", .letter = 'o', .kind = GP_PARAMETER_TEXT, .offset = offsetof(request_t, output)},
    {"force", .offset = offsetof(request_t, force)},
    {"device", .kind = GP_PARAMETER_DEVICE, .offset = offsetof(request_t, device)},
    {"metric", .kind = GP_PARAMETER_CHOICE, .offset = offsetof(request_t, metric),
        .choices = "live|peak|total"},
    {"skip", .kind = GP_PARAMETER_PATTERNS, .offset = offsetof(request_t, skip)},
    {"skip-file", .kind = GP_PARAMETER_TEXT, .offset = offsetof(request_t, skip_file)},
    {"all-frames", .offset = offsetof(request_t, all_frames)},
    {"no-symbols", .offset = offsetof(request_t, no_symbols)},
};

static const gp_words_form_t form = {
    "export", parameters, sizeof(parameters) / sizeof(parameters[0]), INT_MAX, print_help};

static int parse_format(const char *text, request_t *request)
{
  const char *names[FORMAT_COUNT];
  for (size_t i = 0; i < FORMAT_COUNT; i++) {
    names[i] = formats[i].name;
    if (strcmp(names[i], text) == 0)
      request->format = &formats[i];
  }
  if (request->format && strcmp(request->format->name, text) == 0)
    return 0;
  const char *nearest = gp_suggest_nearest(text, names, FORMAT_COUNT);
  if (nearest)
    return gp_message_usage("export", "export: unknown format %s (did you mean %s?)", text, nearest);
  return gp_message_usage("export",
      "export: unknown format %s; accepted: pytorch, pytorch-json, perfetto, speedscope, folded, csv", text);
}

/* Checks the request. `words` are the files. Returns 0 or, after a message, the exit status. */
static int check(request_t *request, char **words, int count)
{
  if (count > 1)
    return gp_message_usage("export", "export: one file at a time, not also %s", words[1]);
  if (!request->to)
    return gp_message_usage("export", "export: --to FORMAT is missing");
  int status = parse_format(request->to, request);
  if (status)
    return status;
  if (!count)
    return gp_message_usage("export", "export: a file is missing");
  if (request->metric >= 0 && request->format->write != gp_export_folded)
    return gp_message_usage("export", "export: --metric applies to --to folded only");
  request->input = words[0];
  return request->skip_file ? gp_patterns_load(&request->skip, request->skip_file) : 0;
}

static int check_device(const request_t *request, const gp_snapshot_t *snapshot, const char *name)
{
  bool is_there = request->device == GP_EXPORT_ALL;
  for (size_t i = 0; i < snapshot->device_count; i++)
    is_there |= snapshot->devices[i].device == request->device;
  if (!is_there) {
    gp_message("%s: there is no device %d in it (%zu in all)", name, request->device, snapshot->device_count);
    return GP_EXIT_USAGE;
  }
  if (request->format->is_of_one_device && request->device == GP_EXPORT_ALL && snapshot->device_count > 1)
    return gp_message_usage("export",
        "export: %s has %zu devices, and %s has room for one: choose it with --device", name,
        snapshot->device_count, request->format->name);
  return 0;
}

static int write_export(const request_t *request, gp_export_t *export)
{
  gp_output_file_t file;
  bool is_stdout = !request->output || strcmp(request->output, "-") == 0;
  if (is_stdout && request->format->is_binary && isatty(STDOUT_FILENO))
    return gp_message_usage("export", "export: this format cannot go to a terminal; name a file with -o");
  int status = gp_output_file_open(&file, request->output, request->force);
  if (status)
    return status;
  export->stream = file.stream;
  export->metric = request->metric < 0 ? GP_EXPORT_PEAK : (gp_export_metric_t)request->metric;
  export->shows_progress = file.path && isatty(STDERR_FILENO);
  int error = request->format->write(export);
  if (export->shows_progress)
    fputs("\r\033[K", stderr);
  if (!error)
    return gp_output_file_close(&file);
  if (error == EOVERFLOW && request->format->repeats)
    gp_message("%s: as %s it would be more than %s, of a snapshot of %s: this format has %s; %s",
        export->name, request->format->name, GP_AS_SIZE(gp_snapshot_output_most(export->snapshot)),
        GP_AS_SIZE(export->snapshot->input_bytes), request->format->repeats, request->format->alternative);
  else
    gp_message("%s: %s", file.path ? file.path : "the output", strerror(error));
  gp_output_file_discard(&file);
  return GP_EXIT_INPUT;
}

/* Loads the file and writes it in the requested format. Returns the exit status. */
static int run(const request_t *request)
{
  gp_export_t export = {0};
  char rebuilt[512];
  const char *name = strcmp(request->input, "-") == 0 ? "stdin" : request->input;
  gp_snapshot_t *snapshot = gp_snapshot_load(request->input, COLUMNS);
  if (!snapshot)
    return GP_EXIT_INPUT;
  if (!request->no_symbols)
    gp_symbols_resolve(snapshot, NULL);
  if (gp_symbols_describe_rebuilt(snapshot, rebuilt, sizeof(rebuilt)))
    gp_message("%s: %s", name, rebuilt);
  int status = check_device(request, snapshot, name);
  if (!status) {
    const gp_owner_options_t owners = {.all_frames = request->all_frames, .skip = &request->skip};
    int error = gp_stack_owners_find(snapshot, &owners);
    if (!error)
      error = gp_export_init(&export, snapshot, name, request->device);
    if (error)
      gp_message("%s: %s", name, strerror(error));
    status = error ? GP_EXIT_INPUT : write_export(request, &export);
    gp_export_fini(&export);
  }
  gp_snapshot_destroy(snapshot);
  return status;
}

int gp_command_export(int argc, char **argv)
{
  request_t request = {.device = GP_EXPORT_ALL, .metric = -1};
  int words, status;
  if (gp_words_parse(&form, argc, argv, &request, &words, &status)) {
    status = check(&request, argv + 1, words);
    if (!status)
      status = run(&request);
  }
  gp_patterns_fini(&request.skip);
  return status;
}
