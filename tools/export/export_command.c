/*
 * gpupool export: writes a snapshot for other tools.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "tools/export/export.h"
#include "tools/output_file.h"
#include "tools/read/load.h"
#include "tools/pattern.h"
#include "tools/symbols/stack_owners.h"
#include "tools/symbols/symbols.h"
#include "tools/tool.h"

typedef struct format {
  const char *name;
  int (*write)(gp_export_t *export);
  bool is_binary;
  bool is_of_one_device; /* the format cannot tell devices apart */
  const char *help;
  const char *repeats;     /* what the format writes repeatedly; NULL: nothing */
  const char *alternative; /* a format whose size the snapshot bounds */
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
  const format_t *format;
  const char *input;
  const char *output;
  int device;
  gp_export_metric_t metric;
  bool has_metric;
  bool force;
  bool no_symbols;
  bool all_frames;
  bool help;
  gp_patterns_t skip;
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
         "  --skip PATTERN   frames that own no memory, as of the reports (several times)\n"
         "  --skip-file FILE the same for each line of FILE\n"
         "  --all-frames     name the innermost frame of each stack, whatever it is\n"
         "  --no-symbols     open no file that the snapshot names: stacks have places in\n"
         "                   files instead of names\n"
         "\n"
         "Exit status: 0 done; 2 usage; 3 a file that cannot be read or is corrupt, or an\n"
         "output that cannot be written.\n");
}

static int unknown(const char *option)
{
  static const char *const names[] = {
      "to", "output", "force", "device", "metric", "skip", "skip-file", "all-frames", "no-symbols", "help"};
  return gp_message_unknown_option("export", option, names, sizeof(names) / sizeof(names[0]));
}

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

static int parse_device(const char *text, request_t *request)
{
  char *end;
  unsigned long device = strtoul(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end || device >= GP_SNAPSHOT_DEVICES)
    return gp_message_usage(
        "export", "export: --device=%s is malformed; accepted: 0 to %d", text, GP_SNAPSHOT_DEVICES - 1);
  request->device = (int)device;
  return 0;
}

static int parse_metric(const char *text, request_t *request)
{
  for (int metric = 0; metric < GP_EXPORT_METRICS; metric++) {
    if (strcmp(text, gp_export_metric_names[metric]) == 0) {
      request->metric = (gp_export_metric_t)metric;
      request->has_metric = true;
      return 0;
    }
  }
  return gp_message_usage("export", "export: --metric=%s is malformed; accepted: live, peak, total", text);
}

static int parse_output(const char *text, request_t *request)
{
  request->output = text;
  return 0;
}

static int parse_skip(const char *text, request_t *request)
{
  if (gp_pattern_is_empty(text))
    return gp_message_usage(
        "export", "export: --skip=%s is malformed; accepted: a pattern that does not match everything", text);
  if (gp_patterns_add(&request->skip, text))
    return 0;
  gp_message("%s", strerror(ENOMEM));
  return GP_EXIT_INPUT;
}

static int parse_skip_file(const char *text, request_t *request)
{
  return gp_patterns_load(&request->skip, text);
}

/* Parses an option, whose value may be in the same argument. next: the following argument, or NULL. */
static int parse_option(const char *argument, const char *next, request_t *request, bool *ret_took_next)
{
  static const struct {
    const char *name;
    int (*parse)(const char *text, request_t *request);
  } options[] = {
      {"--to", parse_format},
      {"--output", parse_output},
      {"-o", parse_output},
      {"--device", parse_device},
      {"--metric", parse_metric},
      {"--skip", parse_skip},
      {"--skip-file", parse_skip_file},
  };
  size_t count = sizeof(options) / sizeof(options[0]), i = 0;
  const char *value = strchr(argument, '=');
  size_t length = value ? (size_t)(value - argument) : strlen(argument);

  while (i < count && !(strncmp(options[i].name, argument, length) == 0 && options[i].name[length] == '\0'))
    i++;
  if (i == count)
    return unknown(argument);
  if (!value && !next)
    return gp_message_usage("export", "export: %s needs a value", argument);
  *ret_took_next = !value;
  return options[i].parse(value ? value + 1 : next, request);
}

static int parse(int argc, char **argv, request_t *request)
{
  bool only_files = false;

  for (int i = 1; i < argc; i++) {
    const char *argument = argv[i];
    bool took_next = false;
    if (only_files || argument[0] != '-' || argument[1] == '\0') {
      if (request->input)
        return gp_message_usage("export", "export: one file at a time, not also %s", argument);
      request->input = argument;
    } else if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
      request->help = true;
      return 0;
    } else if (strcmp(argument, "--") == 0) {
      only_files = true;
    } else if (strcmp(argument, "--no-symbols") == 0) {
      request->no_symbols = true;
    } else if (strcmp(argument, "--all-frames") == 0) {
      request->all_frames = true;
    } else if (strcmp(argument, "--force") == 0) {
      request->force = true;
    } else {
      int status = parse_option(argument, i + 1 < argc ? argv[i + 1] : NULL, request, &took_next);
      if (status)
        return status;
    }
    i += took_next;
  }
  if (!request->format)
    return gp_message_usage("export", "export: --to is missing: which format");
  if (!request->input)
    return gp_message_usage("export", "export: a file is missing");
  if (request->has_metric && request->format->write != gp_export_folded)
    return gp_message_usage("export", "export: --metric is of --to folded only");
  return 0;
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
    return gp_message_usage("export", "export: %s has %zu devices, and %s is of one: --device says which",
        name, snapshot->device_count, request->format->name);
  return 0;
}

static int write_export(const request_t *request, gp_export_t *export)
{
  gp_output_file_t file;
  char most[GP_SIZE_TEXT_BYTES], input[GP_SIZE_TEXT_BYTES];
  bool is_stdout = !request->output || strcmp(request->output, "-") == 0;
  if (is_stdout && request->format->is_binary && isatty(STDOUT_FILENO))
    return gp_message_usage("export", "export: this format is not for a terminal; -o names a file");
  int status = gp_output_file_open(&file, request->output, request->force);
  if (status)
    return status;
  export->stream = file.stream;
  export->metric = request->has_metric ? request->metric : GP_EXPORT_PEAK;
  export->shows_progress = file.path && isatty(STDERR_FILENO);
  int error = request->format->write(export);
  if (export->shows_progress)
    fputs("\r\033[K", stderr);
  if (!error)
    return gp_output_file_close(&file);
  if (error == EOVERFLOW && request->format->repeats)
    gp_message("%s: as %s it would be more than %s, of a snapshot of %s: this format has %s; %s",
        export->name, request->format->name, gp_size_format(gp_snapshot_output_most(export->snapshot), most),
        gp_size_format(export->snapshot->input_bytes, input), request->format->repeats,
        request->format->alternative);
  else
    gp_message("%s: %s", file.path ? file.path : "the output", strerror(error));
  gp_output_file_discard(&file);
  return GP_EXIT_INPUT;
}

/* Loads the file and writes it in the format. */
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
  request_t request = {.device = GP_EXPORT_ALL};
  int status = parse(argc, argv, &request);
  if (!status && request.help)
    print_help();
  else if (!status)
    status = run(&request);
  gp_patterns_fini(&request.skip);
  return status;
}
