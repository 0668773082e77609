/*
 * gpupool ps: what each pooled program on this machine holds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/json_print.h"
#include "tools/machine/ps_table.h"
#include "tools/parameters.h"
#include "tools/tool.h"

#define LINE_BYTES 128

static void print_help(void)
{
  printf("usage: gpupool ps [--sort KEY] [--json]\n"
         "\n"
         "Lists the running programs whose GPU memory is pooled, and how much memory each\n"
         "uses on each device: those of this user, as root of all users, and those in\n"
         "containers whose files this user may read. It reads their records in shared\n"
         "memory and asks them nothing.\n"
         "\n"
         "  DEV     the device, by the number that the program has for it\n"
         "  TOTAL   device memory: reserved by the pool, and forwarded (not pooled)\n"
         "  PEAK    peak reserved plus peak forwarded\n"
         "  CACHED  of TOTAL: freed, and ready to be allocated again\n"
         "  PINNED  page-locked memory of the host\n"
         "  LIMIT   GPUPOOL_LIMIT\n"
         "  HITS    allocations served without the driver\n"
         "  OOM     allocations that were refused for want of memory\n"
         "  AGE     since the program's first use of GPU memory\n"
         "\n"
         "  --sort KEY\n"
         "      %s (default: total)\n"
         "  --json\n"
         "      one JSON document (REPORTS.md)\n"
         "\n"
         "Exit status: 0 done; 2 usage; 3 no memory.\n",
      GP_PS_SORTS);
}

typedef struct options {
  const char *sort; /* as typed; NULL: not given */
  bool json;
} options_t;

static const gp_parameter_t parameters[] = {
    {"sort", .kind = GP_PARAMETER_TEXT, .offset = offsetof(options_t, sort)},
    {"json", .offset = offsetof(options_t, json)},
};

static const gp_words_form_t form = {
    "ps", parameters, sizeof(parameters) / sizeof(parameters[0]), 0, print_help};

static int parse_sort(const char *text, gp_ps_sort_t *ret_sort)
{
  if (strcmp(text, "held") == 0) /* its name before */
    text = gp_ps_sort_name(GP_PS_TOTAL);
  for (int sort = 0; sort < GP_PS_SORT_COUNT; sort++) {
    if (strcmp(text, gp_ps_sort_name((gp_ps_sort_t)sort)) == 0) {
      *ret_sort = (gp_ps_sort_t)sort;
      return 0;
    }
  }
  return gp_message_usage("ps", "ps: --sort %s: accepted are " GP_PS_SORTS, text);
}

static void add_device(cJSON *devices, const gp_machine_device_t *device)
{
  cJSON *object = gp_json_add_item(devices);
  GP_JSON_SHAPE(ps_device);
  GP_PUT_DEVICE(object, "device", device->ordinal, "ordinal of the device in the program");
  GP_PUT_UINT(object, "held", device->held, "bytes from the driver: reserved by the pool, and forwarded");
  GP_PUT_UINT(object, "peak", device->peak, "the highest of both, which may be of two moments");
  GP_PUT_UINT(object, "used", device->used, "bytes requested and not freed");
  GP_PUT_UINT(object, "cached", device->cached, "bytes that are idle");
  GP_PUT_UINT(object, "pinned_host", device->pinned, "bytes of page-locked memory of the host");
  GP_PUT_UINT_OR_NULL(object, "limit", device->limit > 0, device->limit, "`GPUPOOL_LIMIT`; null: none");
  GP_PUT_UINT(object, "hits", device->hits, "allocations served from the pool since the start");
  GP_PUT_UINT(object, "misses", device->misses, "those that needed the driver");
  GP_PUT_UINT(object, "driver_calls", device->driver_calls, "calls of the driver for memory");
  GP_PUT_UINT(object, "ooms", device->ooms, "how often memory ran out");
  GP_PUT_BOOL(object, "is_settled", device->is_settled,
      "false: the program changed the figures while they were read, so they may be of two moments");
}

static void add_process(cJSON *processes, const gp_machine_t *machine, const gp_machine_process_t *process)
{
  cJSON *object = gp_json_add_item(processes);
  GP_JSON_SHAPE(ps_process);
  GP_PUT_UINT_OR_NULL(object, "pid", process->pid > 0, (uint64_t)process->pid,
      "process id; null: /proc does not show this user whose record it is");
  GP_PUT_UINT(object, "inner_pid", (uint64_t)process->inside, "process id in its own PID namespace");
  GP_PUT_UINT(object, "uid", process->user, "user id");
  GP_PUT_UINT(object, "start_time_us", process->start_time_us,
      "when it first used GPU memory, microseconds since 1970");
  GP_PUT_TEXT_OR_NULL(object, "program", process->program, "name of the program");
  GP_PUT_TEXT_OR_NULL(object, "command", process->command, "its command line");
  GP_PUT_TEXT_OR_NULL(object, "host", process->host, "name of its machine");
  GP_PUT_TEXT_OR_NULL(object, "container", process->container, "by its control group; null: none");
  GP_PUT_TEXT_OR_NULL(object, "pod", process->pod, "by its control group; null: none");
  GP_PUT_TEXT_OR_NULL(object, "library_version", process->version, "version of the library in it");
  GP_PUT_BOOL(object, "is_readable", !process->is_of_other_build,
      "false: another version of the library wrote the record, and its figures cannot be read");
  cJSON *devices = GP_PUT_LIST(object, "devices", ps_device, "the devices that it uses");
  for (size_t i = 0; i < process->device_count; i++)
    add_device(devices, &machine->devices[process->first_device + i]);
}

/* In the order of the table. */
static int print_json(const gp_machine_t *machine, const gp_ps_table_t *table)
{
  cJSON *root = gp_json_document("ps");
  GP_JSON_DOCUMENT(ps);
  cJSON *processes =
      GP_PUT_LIST(root, "processes", ps_process, "each running program, in the order of the table");
  for (size_t i = 0; i < table->count; i++) {
    if (table->rows[i].is_first)
      add_process(processes, machine, table->rows[i].process);
  }
  return gp_json_put(root);
}

static int print_text(const gp_ps_table_t *table)
{
  gp_output_t output;
  struct timespec now;
  char line[LINE_BYTES];

  int status = gp_output_open(&output, NULL, false, false);
  if (status)
    return status;
  (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail */
  if (table->count) {
    const gp_ps_look_t look = {.columns = (unsigned)output.columns,
        .chosen = SIZE_MAX,
        .now_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000};
    gp_ps_table_print(table, &look, &output);
    fprintf(output.stream, "%s.\n", gp_ps_table_sum(table, line, sizeof(line)));
  } else {
    fprintf(output.stream, "No program%s has its GPU memory pooled now.\n", geteuid() ? " of this user" : "");
  }
  return gp_output_close(&output);
}

int gp_command_ps(int argc, char **argv)
{
  gp_machine_t machine;
  gp_ps_table_t table = {0};
  options_t options = {0};
  gp_ps_sort_t sort = (gp_ps_sort_t)0;
  int words, status;

  if (!gp_words_parse(&form, argc, argv, &options, &words, &status))
    return status;
  if (options.sort && (status = parse_sort(options.sort, &sort)))
    return status;
  if (gp_machine_read(&machine) || gp_ps_table_init(&table, &machine, sort, NULL)) {
    gp_message("out of memory");
    status = GP_EXIT_INPUT;
  } else {
    status = options.json ? print_json(&machine, &table) : print_text(&table);
  }
  gp_ps_table_fini(&table);
  gp_machine_fini(&machine);
  return status;
}
