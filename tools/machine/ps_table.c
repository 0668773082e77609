#include "tools/machine/ps_table.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tools/array.h"
#include "tools/saturated.h"
#include "tools/json_print.h"
#include "tools/parameters.h"
#include "tools/tool.h"

/*
 * gpupool ps: prints the memory of each pooled program on this machine.
 */

#define SUM_BYTES 128

static void print_help(void)
{
  printf("usage: gpupool ps [--sort KEY] [--json]\n"
         "\n"
         "Lists the running programs whose GPU memory is pooled, and how much memory each\n"
         "uses on each device: those of this user, as root of all users, and those in\n"
         "containers whose files this user may read. It reads their records in shared\n"
         "memory and does not contact them.\n"
         "\n"
         "  DEV     the device, by its ordinal in the program\n"
         "  TOTAL   device memory: reserved by the pool, and forwarded (not pooled)\n"
         "  PEAK    peak reserved plus peak forwarded\n"
         "  CACHED  of TOTAL: freed, and ready for reuse\n"
         "  PINNED  page-locked memory of the host\n"
         "  LIMIT   GPUPOOL_LIMIT\n"
         "  HITS    allocations served without the driver\n"
         "  OOM     allocations that failed because memory ran out\n"
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
  if (strcmp(text, "held") == 0) /* former name of "total" */
    text = gp_ps_sort_name(GP_PS_TOTAL);
  for (int sort = 0; sort < GP_PS_SORT_COUNT; sort++) {
    if (strcmp(text, gp_ps_sort_name((gp_ps_sort_t)sort)) == 0) {
      *ret_sort = (gp_ps_sort_t)sort;
      return 0;
    }
  }
  return gp_message_usage("ps", "ps: --sort=%s is malformed; accepted: " GP_PS_SORTS, text);
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

/* Prints the processes in the order of the table. */
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
  char line[SUM_BYTES];

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
    fprintf(
        output.stream, "No running program%s has its GPU memory pooled.\n", geteuid() ? " of this user" : "");
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

#define CELL_BYTES      64
#define COMMAND_COLUMNS 24 /* columns reserved for the command when other columns are dropped */
#define LINE_BYTES      1024

const char *gp_ps_sort_name(gp_ps_sort_t sort)
{
  static const char *const names[GP_PS_SORT_COUNT] = {
      "total", "peak", "cached", "pinned", "limit", "oom", "age", "pid"};
  return names[sort];
}

static uint64_t sort_key(const gp_ps_row_t *row, gp_ps_sort_t sort)
{
  static const gp_machine_device_t nothing;
  const gp_machine_device_t *device = row->device ? row->device : &nothing;
  switch (sort) {
  case GP_PS_TOTAL: return device->held;
  case GP_PS_PEAK: return device->peak;
  case GP_PS_CACHED: return device->cached;
  case GP_PS_PINNED: return device->pinned;
  case GP_PS_LIMIT: return device->limit;
  case GP_PS_OOM: return device->ooms;
  case GP_PS_AGE: return UINT64_MAX - row->process->start_time_us;
  default: return 0;
  }
}

static int compare(const void *a, const void *b, void *sort)
{
  const gp_ps_row_t *x = a, *y = b;
  uint64_t key_x = sort_key(x, *(gp_ps_sort_t *)sort), key_y = sort_key(y, *(gp_ps_sort_t *)sort);
  if (key_x != key_y)
    return key_x < key_y ? 1 : -1;
  if (x->process->pid != y->process->pid)
    return x->process->pid < y->process->pid ? -1 : 1;
  return x->device && y->device ? x->device->ordinal - y->device->ordinal : 0;
}

static bool passes(const gp_machine_process_t *process, const char *filter)
{
  char pid[16];
  snprintf(pid, sizeof(pid), "%d", (int)process->pid);
  return !filter || !filter[0] || strcmp(pid, filter) == 0 || strstr(process->command, filter) ||
         strstr(process->host, filter) || strstr(process->container, filter) || strstr(process->pod, filter);
}

int gp_ps_table_init(gp_ps_table_t *table, const gp_machine_t *machine, gp_ps_sort_t sort, const char *filter)
{
  *table = (gp_ps_table_t){0};
  for (size_t p = 0; p < machine->process_count; p++) {
    const gp_machine_process_t *process = &machine->processes[p];
    size_t rows = process->device_count ? process->device_count : 1;
    for (size_t i = 0; passes(process, filter) && i < rows; i++) {
      gp_ps_row_t *row = GP_ARRAY_ADD(table->rows, table->count);
      if (!row)
        return ENOMEM;
      *row = (gp_ps_row_t){
          process, process->device_count ? &machine->devices[process->first_device + i] : NULL, i == 0};
    }
  }
  if (table->count > 1)
    qsort_r(table->rows, table->count, sizeof(table->rows[0]), compare, &sort);
  return 0;
}

void gp_ps_table_fini(gp_ps_table_t *table)
{
  free(table->rows);
  *table = (gp_ps_table_t){0};
}

typedef enum column {
  COLUMN_PID,
  COLUMN_USER,
  COLUMN_DEVICE,
  COLUMN_TOTAL,
  COLUMN_PEAK,
  COLUMN_CACHED,
  COLUMN_PINNED,
  COLUMN_LIMIT,
  COLUMN_HITS,
  COLUMN_OOM,
  COLUMN_AGE,
  COLUMN_CONTAINER,
  COLUMN_COUNT,
} column_t;

static const char *const headings[COLUMN_COUNT] = {
    "PID", "USER", "DEV", "TOTAL", "PEAK", "CACHED", "PINNED", "LIMIT", "HITS", "OOM", "AGE", "CONTAINER"};

/* Columns that are dropped in a narrow terminal, in this order. */
static const column_t yielding[] = {COLUMN_PINNED, COLUMN_CACHED, COLUMN_AGE, COLUMN_HITS, COLUMN_USER,
    COLUMN_CONTAINER, COLUMN_PEAK, COLUMN_LIMIT};

static char *format_age(uint64_t start_us, uint64_t now_us, char *buffer)
{
  uint64_t seconds = gp_subtract_saturated(now_us, start_us) / 1000000;
  static const struct {
    uint64_t seconds;
    const char *unit;
  } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
  size_t i = 0;
  while (i < 3 && seconds < 2 * units[i].seconds)
    i++;
  snprintf(buffer, CELL_BYTES, "%" PRIu64 " %s", seconds / units[i].seconds, units[i].unit);
  return buffer;
}

static char *format_user(uid_t user, char *buffer)
{
  const struct passwd *entry = getpwuid(user);
  snprintf(buffer, CELL_BYTES, "%u", (unsigned)user);
  if (entry && entry->pw_name)
    gp_text_shorten(entry->pw_name, 10, buffer, CELL_BYTES);
  return buffer;
}

/* Formats a size. The text for 0 is "". */
static char *format_size(uint64_t bytes, char *buffer)
{
  buffer[0] = '\0';
  return bytes ? gp_size_format(bytes, buffer) : buffer;
}

static const char *format_cell(const gp_ps_row_t *row, column_t column, uint64_t now_us, char *buffer)
{
  const gp_machine_process_t *process = row->process;
  const gp_machine_device_t *device = row->device;
  buffer[0] = '\0';
  switch (column) {
  case COLUMN_PID: snprintf(buffer, CELL_BYTES, process->pid > 0 ? "%d" : "?", (int)process->pid); break;
  case COLUMN_USER: return format_user(process->user, buffer);
  case COLUMN_AGE: return format_age(process->start_time_us, now_us, buffer);
  case COLUMN_CONTAINER: return process->container;
  default: break;
  }
  if (!device)
    return buffer;
  switch (column) {
  case COLUMN_DEVICE: snprintf(buffer, CELL_BYTES, "%d", device->ordinal); break;
  case COLUMN_TOTAL: return gp_size_format(device->held, buffer);
  case COLUMN_PEAK: return gp_size_format(device->peak, buffer);
  case COLUMN_CACHED: return gp_size_format(device->cached, buffer);
  case COLUMN_PINNED: return format_size(device->pinned, buffer);
  case COLUMN_LIMIT: return format_size(device->limit, buffer);
  case COLUMN_HITS:
    if (gp_add_saturated(device->hits, device->misses))
      gp_number_percent(
          (double)device->hits / (double)gp_add_saturated(device->hits, device->misses), buffer);
    break;
  case COLUMN_OOM:
    if (device->ooms)
      gp_number_count(device->ooms, buffer);
    break;
  default: break;
  }
  return buffer;
}

/* Computes the width of each column, which is 0 if the column is left out. Returns the total width. */
static size_t measure(const gp_ps_table_t *table, uint64_t now_us, size_t *widths)
{
  char cell[CELL_BYTES];
  size_t sum = 0;
  for (int column = 0; column < COLUMN_COUNT; column++) {
    widths[column] = 0;
    for (size_t i = 0; i < table->count; i++) {
      size_t width = strlen(format_cell(&table->rows[i], (column_t)column, now_us, cell));
      widths[column] = width > widths[column] ? width : widths[column];
    }
    if (column == COLUMN_USER && geteuid() != 0)
      widths[column] = 0;
    if (widths[column] && widths[column] < strlen(headings[column]))
      widths[column] = strlen(headings[column]);
    sum += widths[column] ? widths[column] + 2 : 0;
  }
  return sum;
}

/* Drops columns until the command fits. Writes the headings of the dropped columns to `missing`. */
static void make_room(const gp_ps_table_t *table, const gp_ps_look_t *look, size_t *widths, char *missing)
{
  size_t sum = measure(table, look->now_us, widths) + (look->chosen == SIZE_MAX ? 0 : 2);
  missing[0] = '\0';
  for (size_t i = 0; i < sizeof(yielding) / sizeof(yielding[0]) && sum + COMMAND_COLUMNS > look->columns;
       i++) {
    if (!widths[yielding[i]])
      continue;
    sum -= widths[yielding[i]] + 2;
    widths[yielding[i]] = 0;
    snprintf(missing + strlen(missing), LINE_BYTES - strlen(missing), "%s%s", missing[0] ? ", " : "",
        headings[yielding[i]]);
  }
}

/* If a row is selected, writes a marker or blanks at the start of the line. The marker is for terminals
 * without colour. Returns its width. */
static size_t begin_line(const gp_ps_look_t *look, bool is_chosen, char *line)
{
  return look->chosen == SIZE_MAX ? 0 : (size_t)snprintf(line, LINE_BYTES, "%s", is_chosen ? "> " : "  ");
}

static size_t add_cell(char *line, size_t used, const char *text, size_t width, bool is_left)
{
  return used +
         (size_t)snprintf(line + used, LINE_BYTES - used, is_left ? "%-*s  " : "%*s  ", (int)width, text);
}

static bool is_left(column_t column)
{
  return column == COLUMN_USER || column == COLUMN_CONTAINER;
}

/* Prints a line and its last cell, which may use the rest of the line. */
static void print_end(
    const gp_ps_look_t *look, const gp_output_t *output, const char *line, size_t used, const char *text)
{
  char end[LINE_BYTES];
  size_t room = look->columns > used + 4 ? look->columns - used : 4;
  fprintf(output->stream, "%s%s\n", line, gp_text_shorten(text, room, end, sizeof(end)));
}

static void print_row(const gp_ps_table_t *table, size_t index, const gp_ps_look_t *look,
    const size_t *widths, const gp_output_t *output)
{
  const gp_ps_row_t *row = &table->rows[index];
  char line[LINE_BYTES] = "", cell[CELL_BYTES];
  size_t used = begin_line(look, index == look->chosen, line);

  for (int column = 0; column < COLUMN_COUNT; column++) {
    if (widths[column])
      used = add_cell(line, used, format_cell(row, (column_t)column, look->now_us, cell), widths[column],
          is_left((column_t)column));
  }
  if (index == look->chosen)
    fputs(gp_output_style(output, GP_STYLE_HEADING), output->stream);
  print_end(
      look, output, line, used, row->process->is_of_other_build ? "(another build)" : row->process->command);
  if (index == look->chosen)
    fputs(gp_output_style(output, GP_STYLE_PLAIN), output->stream);
}

void gp_ps_table_print(const gp_ps_table_t *table, const gp_ps_look_t *look, const gp_output_t *output)
{
  char line[LINE_BYTES] = "", missing[LINE_BYTES];
  size_t widths[COLUMN_COUNT], used = begin_line(look, false, line);
  size_t end =
      look->most && look->first + look->most < table->count ? look->first + look->most : table->count;

  make_room(table, look, widths, missing);
  for (int column = 0; column < COLUMN_COUNT; column++) {
    if (widths[column])
      used = add_cell(line, used, headings[column], widths[column], is_left((column_t)column));
  }
  fputs(gp_output_style(output, GP_STYLE_FAINT), output->stream);
  print_end(look, output, line, used, "COMMAND");
  fputs(gp_output_style(output, GP_STYLE_PLAIN), output->stream);
  for (size_t i = look->first; i < end; i++)
    print_row(table, i, look, widths, output);
  if (missing[0]) {
    snprintf(line, sizeof(line), "No room for %s (see --json).", missing);
    fputs(gp_output_style(output, GP_STYLE_FAINT), output->stream);
    print_end(look, output, "", 0, line);
    fputs(gp_output_style(output, GP_STYLE_PLAIN), output->stream);
  }
}

char *gp_ps_table_sum(const gp_ps_table_t *table, char *buffer, size_t capacity)
{
  uint64_t held = 0, processes = 0;
  for (size_t i = 0; i < table->count; i++) {
    held = gp_add_saturated(held, table->rows[i].device ? table->rows[i].device->held : 0);
    processes += table->rows[i].is_first;
  }
  snprintf(buffer, capacity, "%s %s %s of device memory", GP_AS_PLURAL(processes, "program"),
      processes == 1 ? "has" : "have", GP_AS_SIZE(held));
  return buffer;
}
