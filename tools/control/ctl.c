/*
 * gpupool ctl: sends a request to a running program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "base/size.h"
#include "tools/control/control_client.h"
#include "tools/json_print.h"
#include "tools/output.h"
#include "tools/parameters.h"
#include "tools/tool.h"

typedef struct request {
  const char *name;
  const char *argument; /* the argument's name in the help; NULL: the request has no argument */
  bool is_optional;
  void (*print)(const cJSON *answer);
} request_t;

static char *bytes(const cJSON *object, const char *name, char *buffer)
{
  return gp_size_format(gp_control_number(object, name), buffer);
}

static void print_snapshot(const cJSON *answer)
{
  char path[GP_PATH_BYTES];
  gp_printable(gp_control_text(answer, "path"), path, sizeof(path));
  printf("snapshot written: %s\nnext: gpupool summary %s\n", path, path);
}

#define TEXT_BYTES (GP_NUMBER_BYTES > GP_SIZE_TEXT_BYTES ? GP_NUMBER_BYTES : GP_SIZE_TEXT_BYTES)

/* Prints a gauge's value in its unit. A gauge whose name ends in _bytes is a size. */
static void print_value(const char *name, const cJSON *gauge, const char *member)
{
  size_t length = strlen(name);
  bool is_bytes = length > 6 && strcmp(name + length - 6, "_bytes") == 0;
  uint64_t value = gp_control_number(gauge, member);
  printf("%16s", is_bytes ? GP_AS_SIZE(value) : GP_AS_COUNT(value));
}

static void print_device(const cJSON *device)
{
  char name[64];
  char size[TEXT_BYTES];
  const cJSON *item;
  bool limited = cJSON_IsNumber(cJSON_GetObjectItem(device, "limit"));

  printf("device %d, limit %s\n", (int)gp_control_number(device, "device"),
      limited ? bytes(device, "limit", size) : "none");
  printf("  %-22s%16s%16s%16s\n", "", "current", "peak", "total");
  cJSON_ArrayForEach(item, cJSON_GetObjectItem(device, "stats"))
  {
    gp_printable(item->string, name, sizeof(name));
    printf("  %-22s", name);
    if (cJSON_IsObject(item)) {
      print_value(name, item, "current");
      print_value(name, item, "peak");
      print_value(name, item, "allocated");
    } else if (cJSON_IsNumber(item) && item->valuedouble == (double)(uint64_t)item->valuedouble) {
      printf("%16s", gp_number_count((uint64_t)item->valuedouble, size));
    } else if (cJSON_IsNumber(item)) {
      printf("%16.3f", item->valuedouble);
    }
    putchar('\n');
  }
}

static void print_stats(const cJSON *answer)
{
  const cJSON *device;
  cJSON_ArrayForEach(device, cJSON_GetObjectItem(answer, "devices")) print_device(device);
}

static void print_given_back(const cJSON *answer)
{
  char size[GP_SIZE_TEXT_BYTES];
  if (cJSON_IsTrue(cJSON_GetObjectItem(answer, "suspended"))) {
    printf("nothing released: a stream is being captured; try again\n");
    return;
  }
  printf("released to the driver: %s\n", bytes(answer, "given_back", size));
  if (gp_control_number(answer, "kept") > 0)
    printf(
        "the device is busy: %s more are released when the program frees memory or\nsynchronizes while the device is quiet\n",
        bytes(answer, "kept", size));
}

static void print_done(const cJSON *answer)
{
  (void)answer;
  printf("done\n");
}

static void print_limit(const cJSON *answer)
{
  char limit[GP_SIZE_TEXT_BYTES];
  char held[GP_SIZE_TEXT_BYTES];
  const cJSON *device;
  cJSON_ArrayForEach(device, cJSON_GetObjectItem(answer, "devices"))
  {
    bool limited = cJSON_IsNumber(cJSON_GetObjectItem(device, "limit"));
    bool exceeded = limited && gp_control_number(device, "held") > gp_control_number(device, "limit");
    printf("device %d: limit %s, total %s%s\n", (int)gp_control_number(device, "device"),
        limited ? bytes(device, "limit", limit) : "none", bytes(device, "held", held),
        exceeded ? ": allocations fail until the program has freed enough" : "");
  }
}

static void print_trace(const cJSON *answer)
{
  char mode[64];
  printf("recorded from now on: %s\n", gp_printable(gp_control_text(answer, "trace"), mode, sizeof(mode)));
}

static const request_t requests[] = {
    {"snapshot", "PATH", true, print_snapshot},
    {"stats", NULL, false, print_stats},
    {"empty-cache", NULL, false, print_given_back},
    {"reset-peaks", NULL, false, print_done},
    {"limit", "SIZE", false, print_limit},
    {"trace", "off, state or all", false, print_trace},
};
#define REQUEST_COUNT (sizeof(requests) / sizeof(requests[0]))

static void print_help(void)
{
  printf("usage: gpupool ctl [--json] PID REQUEST\n"
         "\n"
         "Sends a request to a running program, which must have been started with\n"
         "GPUPOOL_CONTROL=1 (gpupool run --control). Only its user and root may do that.\n"
         "\n"
         "  snapshot [PATH]\n"
         "      writes a snapshot, by default where GPUPOOL_OUTPUT says, and prints its\n"
         "      name. Nothing is overwritten: a name that is taken gets a number\n"
         "  stats\n"
         "      prints the program's memory on each device, and its counters\n"
         "  empty-cache\n"
         "      releases idle memory to the driver\n"
         "  reset-peaks\n"
         "      sets the peaks to the current values\n"
         "  limit SIZE\n"
         "      sets a new GPUPOOL_LIMIT, in the same form: 8GiB, 50%%, 0=8GiB,1=50%%, none.\n"
         "      While the program uses more than its limit, allocations fail\n"
         "  trace off|state|all\n"
         "      sets what is recorded from now on\n"
         "\n"
         "  --json\n"
         "      print the program's answer as JSON, unchanged\n"
         "\n"
         "Exit status: 0 done; 2 usage; 3 the program cannot be reached, or refuses.\n");
}

static int unknown_request(const char *name)
{
  const char *names[REQUEST_COUNT];
  for (size_t i = 0; i < REQUEST_COUNT; i++)
    names[i] = requests[i].name;
  const char *nearest = gp_suggest_nearest(name, names, REQUEST_COUNT);
  return nearest ? gp_message_usage("ctl", "ctl: unknown request %s (did you mean %s?)", name, nearest)
                 : gp_message_usage("ctl", "ctl: unknown request %s", name);
}

/* Writes the request's line to `line`, or "" after a message on failure. Makes paths absolute, because the
 * program may have another working directory. */
static void make_line(const request_t *request, const char *argument, char *line, size_t capacity)
{
  char folder[GP_PATH_BYTES] = "";
  const char *slash = "";
  int length;

  line[0] = '\0';
  if (argument && strchr(argument, '\n')) {
    gp_message("ctl: a path with a line break cannot be sent");
    return;
  }
  if (argument && request->is_optional && argument[0] != '/') {
    if (!getcwd(folder, sizeof(folder))) {
      gp_message("ctl: the path of the current folder is unknown; give the full path");
      return;
    }
    slash = "/";
  }
  length = snprintf(line, capacity, "%s%s%s%s%s", request->name, argument ? " " : "", folder, slash,
      argument ? argument : "");
  if (length < 0 || (size_t)length >= capacity) {
    gp_message("ctl: %s is too long", request->argument ? request->argument : request->name);
    line[0] = '\0';
  }
}

static int ask(const char *process, const request_t *request, const char *argument, bool json)
{
  char problem[GP_CONTROL_PROBLEM_BYTES];
  char line[GP_PATH_BYTES + 32];
  gp_control_client_t client;

  make_line(request, argument, line, sizeof(line));
  if (!line[0])
    return GP_EXIT_USAGE;
  cJSON *answer = gp_control_client_init(&client, process, problem)
                      ? gp_control_client_ask(&client, line, problem)
                      : NULL;
  if (!answer) {
    gp_message("ctl: %s", problem);
    return GP_EXIT_INPUT;
  }
  char *text = json ? gp_json_print(answer, false) : NULL;
  if (text)
    puts(text);
  else
    request->print(answer);
  free(text);
  cJSON_Delete(answer);
  return GP_EXIT_DONE;
}

int gp_command_ctl(int argc, char **argv)
{
  static const gp_parameter_t parameters[] = {{.name = "json"}};
  static const gp_words_form_t form = {"ctl", parameters, 1, 3, print_help};
  bool json = false;
  int count, status;

  if (!gp_words_parse(&form, argc, argv, &json, &count, &status))
    return status;
  if (count < 2)
    return gp_message_usage("ctl", count ? "ctl: a request is missing" : "ctl: the process id is missing");
  const char *process = argv[1], *name = argv[2], *argument = count > 2 ? argv[3] : NULL;
  if (!gp_control_client_is_number(process))
    return gp_message_usage("ctl", "ctl: %s is not a process id", process);
  for (size_t i = 0; i < REQUEST_COUNT; i++) {
    const request_t *request = &requests[i];
    if (strcmp(name, request->name) != 0)
      continue;
    if (argument && !request->argument)
      return gp_message_usage("ctl", "ctl: %s takes no argument", request->name);
    if (!argument && request->argument && !request->is_optional)
      return gp_message_usage("ctl", "ctl: %s needs %s", request->name, request->argument);
    return ask(process, request, argument, json);
  }
  return unknown_request(name);
}
