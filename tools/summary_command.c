/*
 * gpupool summary: what happened, from snapshots.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/summary.h"
#include "tools/tool.h"

typedef struct request {
  bool json;
  bool force;
  bool strict;
  bool no_color;
  bool help;
  const char *output;
  int device;
  char **files; /* moved to the front of argv */
  int file_count;
} request_t;

void gp_command_summary_help(void)
{
  printf("usage: gpupool summary FILE... [options]\n"
         "\n"
         "Says what a program did with GPU memory, from the snapshot that it left (FILE,\n"
         "or - for stdin): what went wrong, then the figures of each device and the\n"
         "events.\n"
         "\n"
         "  --device N      only this device\n"
         "  --json          one JSON document with the same facts\n"
         "  -o, --output F  write to F (- is stdout); an existing file is kept\n"
         "  --force         overwrite the file of -o\n"
         "  --strict        exit status 4 if something is missing in a snapshot\n"
         "  --no-color      no colour (nor with NO_COLOR set, nor away from a terminal)\n"
         "\n"
         "Exit status: 0 done; 2 usage; 3 a file that cannot be read or is corrupt (the\n"
         "others are still shown); 4 with --strict.\n");
}

static int unknown(const char *option)
{
  static const char *const names[] = {"device", "json", "output", "force", "strict", "no-color", "help"};
  return gp_message_unknown_option("summary", option, names, sizeof(names) / sizeof(names[0]));
}

/* The value of an option: after '=' or the next argument. NULL: there is none. */
static const char *option_value(
    const char *argument, const char *inline_value, int argc, char **argv, int *at)
{
  if (inline_value)
    return inline_value;
  if (*at + 1 < argc)
    return argv[++*at];
  (void)gp_message_usage("summary", "summary: %s needs a value", argument);
  return NULL;
}

static int parse_device(const char *text, int *ret_device)
{
  char *end;
  unsigned long device = strtoul(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end || device >= GP_SNAPSHOT_DEVICES)
    return gp_message_usage(
        "summary", "summary: --device=%s is malformed; accepted: 0 to %d", text, GP_SNAPSHOT_DEVICES - 1);
  *ret_device = (int)device;
  return 0;
}

static int parse(int argc, char **argv, request_t *ret_request)
{
  static const struct {
    const char *name;
    size_t offset;
  } flags[] = {
      {"--json", offsetof(request_t, json)},
      {"--force", offsetof(request_t, force)},
      {"--strict", offsetof(request_t, strict)},
      {"--no-color", offsetof(request_t, no_color)},
      {"--help", offsetof(request_t, help)},
      {"-h", offsetof(request_t, help)},
  };
  request_t request = {.device = GP_SUMMARY_ALL, .files = argv + 1};
  bool options_end = false;

  for (int i = 1; i < argc; i++) {
    char *argument = argv[i];
    size_t flag = 0;
    size_t length = strcspn(argument, "=");
    const char *value = argument[length] ? argument + length + 1 : NULL;

    if (options_end || argument[0] != '-' || strcmp(argument, "-") == 0) {
      request.files[request.file_count++] = argument;
      continue;
    }
    while (flag < sizeof(flags) / sizeof(flags[0]) && strcmp(argument, flags[flag].name) != 0)
      flag++;
    if (strcmp(argument, "--") == 0) {
      options_end = true;
    } else if (flag < sizeof(flags) / sizeof(flags[0])) {
      *(bool *)((char *)&request + flags[flag].offset) = true;
    } else if (strcmp(argument, "-o") == 0 || (length == 8 && strncmp(argument, "--output", 8) == 0)) {
      request.output = option_value(argument, value, argc, argv, &i);
      if (!request.output)
        return GP_EXIT_USAGE;
    } else if (length == 8 && strncmp(argument, "--device", 8) == 0) {
      const char *text = option_value(argument, value, argc, argv, &i);
      if (!text || parse_device(text, &request.device))
        return GP_EXIT_USAGE;
    } else {
      return unknown(argument);
    }
  }
  *ret_request = request;
  return 0;
}

/* Adds one file to the output: to list for JSON. Returns the exit status for it. */
static int summarize(const request_t *request, const char *file, gp_output_t *output, cJSON *list)
{
  static gp_summary_t summary; /* too large for a stack */
  const char *name = strcmp(file, "-") == 0 ? "stdin" : file;
  int status = GP_EXIT_DONE;

  gp_snapshot_t *snapshot = gp_snapshot_load(file, GP_SUMMARY_COLUMNS);
  if (!snapshot)
    return GP_EXIT_INPUT;
  int error = gp_summary_init(&summary, snapshot, name, request->device);
  if (error == ENODEV) {
    gp_message("%s: there is no device %d in it (%zu in all)", name, request->device, snapshot->device_count);
    status = GP_EXIT_USAGE;
  } else if (error) {
    gp_message("%s: %s", name, strerror(error));
    status = GP_EXIT_INPUT;
  } else if (request->json) {
    cJSON_AddItemToArray(list, gp_summary_json(&summary));
  } else {
    gp_summary_print(&summary, output);
  }
  if (!error && request->strict && summary.is_partial) {
    gp_message("%s: it is incomplete (--strict)", name);
    status = GP_EXIT_PARTIAL;
  }
  gp_summary_fini(&summary);
  gp_snapshot_destroy(snapshot);
  return status;
}

/* An unreadable file outweighs a wrong device, and that a partial one. */
static int worse(int a, int b)
{
  static const int order[] = {GP_EXIT_DONE, GP_EXIT_PARTIAL, GP_EXIT_USAGE, GP_EXIT_INPUT};
  for (size_t i = sizeof(order) / sizeof(order[0]); i-- > 0;) {
    if (a == order[i] || b == order[i])
      return order[i];
  }
  return a;
}

static int print_json(gp_output_t *output, cJSON *root)
{
  char *text = cJSON_Print(root);
  if (!text) {
    gp_message("out of memory");
    return GP_EXIT_INPUT;
  }
  fprintf(output->stream, "%s\n", text);
  cJSON_free(text);
  return 0;
}

int gp_command_summary(int argc, char **argv)
{
  request_t request = {.device = GP_SUMMARY_ALL};
  gp_output_t output;
  size_t shown = 0;

  int status = parse(argc, argv, &request);
  if (status)
    return status;
  if (request.help) {
    gp_command_summary_help();
    return GP_EXIT_DONE;
  }
  if (!request.file_count)
    return gp_message_usage("summary", "summary: a file is missing");
  status = gp_output_open(&output, request.output, request.force, request.no_color);
  if (status)
    return status;

  cJSON *root = cJSON_CreateObject();
  cJSON_AddStringToObject(root, "format", "gpupool-summary");
  cJSON_AddNumberToObject(root, "version", 1);
  cJSON *list = cJSON_AddArrayToObject(root, "snapshots");
  for (int i = 0; i < request.file_count; i++) {
    int result = summarize(&request, request.files[i], &output, list);
    shown += result == GP_EXIT_DONE || result == GP_EXIT_PARTIAL;
    status = worse(status, result);
  }
  if (shown && request.json)
    status = worse(status, print_json(&output, root));
  cJSON_Delete(root);
  if (shown)
    return worse(status, gp_output_close(&output));
  gp_output_discard(&output);
  return status;
}
