/*
 * gpupool metrics: reports the memory of each pooled program to Prometheus.
 *
 * Labels contain neither command lines nor paths, because these may be secret, and because each new value
 * creates a new series.
 */
#include "tools/machine/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/machine/ps_table.h"
#include "tools/output.h"
#include "tools/parameters.h"
#include "tools/tool.h"

typedef struct family {
  const char *name; /* metric's name without the unit and _total */
  const char *unit; /* NULL: none */
  bool is_counter;
  size_t offset; /* offset of the figure in gp_machine_device_t */
  const char *help;
} family_t;

#define FIGURE(name) offsetof(gp_machine_device_t, name)
static const family_t families[] = {
    {"held", "bytes", false, FIGURE(held), "Device memory reserved by the pool, and forwarded memory."},
    {"peak", "bytes", false, FIGURE(peak),
        "Peak reserved plus peak forwarded memory, which may be of two moments."},
    {"used", "bytes", false, FIGURE(used), "Of the total, what the program requested and has not freed."},
    {"cached", "bytes", false, FIGURE(cached), "Of the total, what is freed and ready for reuse."},
    {"pinned_host", "bytes", false, FIGURE(pinned), "Page-locked memory of the host."},
    {"limit", "bytes", false, FIGURE(limit), "GPUPOOL_LIMIT; no sample without one."},
    {"cache_hits", NULL, true, FIGURE(hits), "Allocations served without a driver call."},
    {"cache_misses", NULL, true, FIGURE(misses), "Allocations that needed the driver."},
    {"driver_calls", NULL, true, FIGURE(driver_calls), "Driver calls that reserved or released memory."},
    {"out_of_memory", NULL, true, FIGURE(ooms), "Allocations that failed because memory ran out."},
};

typedef struct chosen {
  const gp_ps_row_t *rows[GP_METRICS_ROWS];
  size_t count;
  uint64_t left_out; /* number of other rows: beyond the limit, or without known pid or figures */
} chosen_t;

/* Returns true if a row with the same labels was already chosen. Forged records could cause duplicate labels,
 * which the format does not allow. */
static bool is_chosen(const chosen_t *chosen, const gp_ps_row_t *row)
{
  for (size_t i = 0; i < chosen->count; i++) {
    if (chosen->rows[i]->process->pid == row->process->pid &&
        (chosen->rows[i]->process != row->process ||
            chosen->rows[i]->device->ordinal == row->device->ordinal))
      return true;
  }
  return false;
}

static void choose(const gp_ps_table_t *table, chosen_t *chosen)
{
  for (size_t i = 0; i < table->count; i++) {
    const gp_ps_row_t *row = &table->rows[i];
    if (row->process->pid > 0 && row->device && chosen->count < GP_METRICS_ROWS && !is_chosen(chosen, row))
      chosen->rows[chosen->count++] = row;
    else
      chosen->left_out++;
  }
}

static void write_label(FILE *stream, const char *name, const char *text)
{
  fprintf(stream, "%s=\"", name);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      fputc('\\', stream);
    fputc(*text, stream);
  }
  fputc('"', stream);
}

static void write_head(FILE *stream, const char *name, const char *type, const char *unit, const char *help)
{
  fprintf(stream, "# TYPE gpupool_%s %s\n", name, type);
  if (unit)
    fprintf(stream, "# UNIT gpupool_%s %s\n", name, unit);
  fprintf(stream, "# HELP gpupool_%s %s\n", name, help);
}

static void write_family(FILE *stream, const family_t *family, const chosen_t *chosen)
{
  char name[64];
  snprintf(
      name, sizeof(name), "%s%s%s", family->name, family->unit ? "_" : "", family->unit ? family->unit : "");
  write_head(stream, name, family->is_counter ? "counter" : "gauge", family->unit, family->help);
  for (size_t i = 0; i < chosen->count; i++) {
    const gp_machine_device_t *device = chosen->rows[i]->device;
    uint64_t figure;
    memcpy(&figure, (const char *)device + family->offset, sizeof(figure));
    if (family->offset == FIGURE(limit) && !figure)
      continue;
    fprintf(stream, "gpupool_%s%s{pid=\"%d\",device=\"%d\"} %" PRIu64 "\n", name,
        family->is_counter ? "_total" : "", (int)chosen->rows[i]->process->pid, device->ordinal, figure);
  }
}

/* Returns true if the row is the first one of its process. */
static bool is_first(const chosen_t *chosen, size_t index)
{
  for (size_t i = 0; i < index; i++) {
    if (chosen->rows[i]->process == chosen->rows[index]->process)
      return false;
  }
  return true;
}

static void write_processes(FILE *stream, const chosen_t *chosen)
{
  write_head(stream, "process", "info", NULL, "Which program it is; join by pid.");
  for (size_t i = 0; i < chosen->count; i++) {
    const gp_machine_process_t *process = chosen->rows[i]->process;
    if (!is_first(chosen, i))
      continue;
    fprintf(
        stream, "gpupool_process_info{pid=\"%d\",uid=\"%u\",", (int)process->pid, (unsigned)process->user);
    write_label(stream, "program", process->program);
    write_label(stream, ",host", process->host);
    write_label(stream, ",container", process->container);
    write_label(stream, ",pod", process->pod);
    write_label(stream, ",version", process->version);
    fputs("} 1\n", stream);
  }
  write_head(stream, "process_start_time_seconds", "gauge", "seconds",
      "The program's first use of GPU memory, since 1970.");
  for (size_t i = 0; i < chosen->count; i++) {
    const gp_machine_process_t *process = chosen->rows[i]->process;
    if (is_first(chosen, i))
      fprintf(stream, "gpupool_process_start_time_seconds{pid=\"%d\"} %" PRIu64 ".%06" PRIu64 "\n",
          (int)process->pid, process->start_time_us / 1000000, process->start_time_us % 1000000);
  }
}

int gp_metrics_write(FILE *stream)
{
  gp_machine_t machine;
  gp_ps_table_t table = {0};
  chosen_t chosen = {.count = 0};

  int error = gp_machine_read(&machine);
  if (!error)
    error = gp_ps_table_init(&table, &machine, GP_PS_TOTAL, NULL);
  if (!error) {
    choose(&table, &chosen);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
      write_family(stream, &families[i], &chosen);
    write_processes(stream, &chosen);
    write_head(stream, "left_out", "gauge", NULL,
        "Devices of processes without samples: more than are shown, or of an unknown process or build.");
    fprintf(stream, "gpupool_left_out %" PRIu64 "\n# EOF\n", chosen.left_out);
  }
  gp_ps_table_fini(&table);
  gp_machine_fini(&machine);
  return error;
}

static void print_help(void)
{
  printf("usage: gpupool metrics [-o FILE [--force]]\n"
         "       gpupool metrics --listen [ADDRESS:]PORT\n"
         "\n"
         "Prints the figures of gpupool ps as OpenMetrics text, for Prometheus: those of\n"
         "the %d devices of processes that use the most. The text has no command line\n"
         "and no path.\n"
         "\n"
         "  -o, --output FILE\n"
         "      write to FILE, which appears whole (- is stdout): for the textfile\n"
         "      collector of the node exporter, with --force\n"
         "  --force\n"
         "      overwrite FILE\n"
         "  --listen [ADDRESS:]PORT\n"
         "      serve the text at http://ADDRESS:PORT/metrics until a signal comes. Without\n"
         "      ADDRESS only this machine reaches it (127.0.0.1); needs libmicrohttpd\n"
         "\n"
         "Exit status: 0 done; 2 usage, or FILE exists; 3 it cannot be written or served.\n",
      GP_METRICS_ROWS);
}

typedef struct options {
  const char *output;
  const char *listen;
  bool force;
} options_t;

static const gp_parameter_t parameters[] = {
    {"output", .letter = 'o', .kind = GP_PARAMETER_TEXT, .offset = offsetof(options_t, output)},
    {"force", .offset = offsetof(options_t, force)},
    {"listen", .kind = GP_PARAMETER_TEXT, .offset = offsetof(options_t, listen)},
};

static const gp_words_form_t form = {
    "metrics", parameters, sizeof(parameters) / sizeof(parameters[0]), 0, print_help};

int gp_command_metrics(int argc, char **argv)
{
  options_t options = {0};
  gp_output_t output;
  int words, status;

  if (!gp_words_parse(&form, argc, argv, &options, &words, &status))
    return status;
  if (options.listen && options.output)
    return gp_message_usage("metrics", "metrics: --listen and --output cannot be given together");
  if (options.listen)
    return gp_metrics_serve(options.listen);
  status = gp_output_open(&output, options.output, options.force, true);
  if (status)
    return status;
  if (gp_metrics_write(output.stream)) {
    gp_output_discard(&output);
    gp_message("out of memory");
    return GP_EXIT_INPUT;
  }
  return gp_output_close(&output);
}
