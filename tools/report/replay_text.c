#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "tools/report/replay_report.h"
#include "tools/report/report.h"
#include "tools/request.h"
#include "tools/table.h"
#include "tools/tool.h"

static void print_ready(const gp_replay_t *replay, gp_output_t *output)
{
  const gp_ready_t *ready = &replay->workload.ready;
  switch (ready->kind) {
  case GP_READY_RECORDED: fputs("as recorded", output->stream); break;
  case GP_READY_AT_ONCE: fputs("before the next request", output->stream); break;
  case GP_READY_SYNC:
    fprintf(output->stream, "at a synchronization after each %" PRIu64 " requests", ready->number);
    break;
  case GP_READY_LAG:
    if (ready->number > 0)
      fprintf(output->stream, "%" PRIu64 " requests later", ready->number);
    else
      fputs("as soon as the pool asks", output->stream);
    fputs("; the program never synchronizes", output->stream);
    break;
  }
}

static void print_heading(const gp_replay_t *replay, gp_output_t *output)
{
  const gp_workload_t *workload = &replay->workload;
  char name[256];
  gp_figures_t figures;

  gp_figures_of(&figures, &replay->results[0].simulation, workload, GP_PASS_COLD, GP_REQUEST_ALL_DEVICES);
  gp_output_heading(output, "gpupool replay: %s", gp_printable(replay->file, name, sizeof(name)));
  fprintf(output->stream, "requests   %s; the program used at most %s\n",
      GP_AS_COUNT(workload->request_count), GP_AS_SIZE(figures.asked_peak));
  fputs("ready      ", output->stream);
  print_ready(replay, output);
  fputc('\n', output->stream);
  if (replay->capacity)
    fprintf(output->stream, "capacity   %s\n", GP_AS_SIZE(replay->capacity));
  if (workload->is_partial)
    fputs("missing    requests that were not recorded: only what stayed allocated is included\n",
        output->stream);
  if (workload->ill_freed)
    fprintf(output->stream, "missing    the memory of %s free%s: allocated before, and left out\n",
        GP_AS_COUNT(workload->ill_freed), workload->ill_freed == 1 ? "" : "s");
  fputc('\n', output->stream);
}

/* A row of the table. A ratio of 0 means that it is unknown. */
typedef struct row {
  const char *type;
  uint64_t held;
  double ratio;
  double hit_rate;
  bool has_hits;
  uint64_t calls;
  bool has_warm;
  uint64_t warm_calls;
  double cost_ns;
  double busy_ns;
  uint64_t deferred;
} row_t;

static void add_row(gp_table_t *table, const row_t *row)
{
  char ratio[16] = "-";
  if (row->ratio > 0)
    snprintf(ratio, sizeof(ratio), "%.2f", row->ratio);
  gp_table_row(table, row->type, GP_AS_SIZE(row->held), ratio,
      row->has_hits ? GP_AS_PERCENT(row->hit_rate) : "-", GP_AS_COUNT(row->calls),
      row->has_warm ? GP_AS_COUNT(row->warm_calls) : "-",
      row->has_warm ? GP_AS_DURATION((uint64_t)row->cost_ns) : "-",
      row->has_warm ? GP_AS_DURATION((uint64_t)row->busy_ns) : "-", GP_AS_SIZE(row->deferred), NULL);
}

static void add_result(
    const gp_replay_t *replay, const gp_replay_result_t *result, int device, gp_table_t *table)
{
  gp_figures_t cold, warm;
  gp_figures_of(&cold, &result->simulation, &replay->workload, GP_PASS_COLD, device);
  gp_figures_of(&warm, &result->simulation, &replay->workload, GP_PASS_WARM, device);
  const gp_simulated_pass_t *passes = result->simulation.passes;
  const row_t row = {
      .type = result->type,
      .held = cold.held_peak,
      .ratio = gp_figures_ratio(&cold),
      .hit_rate = gp_figures_hit_rate(&cold),
      .has_hits = cold.hits + cold.misses > 0,
      .calls = passes[GP_PASS_COLD].call_count,
      .has_warm = true,
      .warm_calls = passes[GP_PASS_WARM].call_count,
      .cost_ns = passes[GP_PASS_COLD].cost_ns,
      .busy_ns = passes[GP_PASS_COLD].busy_cost_ns,
      .deferred = cold.deferred_peak,
  };
  add_row(table, &row);
}

/* Adds the figures of the recorded pool, from its own statistics. Returns false if they are unknown. */
static bool add_recorded(const gp_replay_t *replay, gp_table_t *table)
{
  row_t row = {.type = "recorded"};
  uint64_t hits = 0, misses = 0, live = 0;

  for (int i = 0; i < GP_SNAPSHOT_DEVICES; i++) {
    const gp_workload_device_t *device = &replay->workload.devices[i];
    if (!device->is_recorded || !(replay->workload.present >> i & 1))
      continue;
    row.held += device->stats.reserved_bytes.peak;
    row.calls += device->stats.driver_allocs + device->stats.driver_frees;
    row.deferred += device->stats.deferred_bytes.peak;
    hits += device->stats.cache_hits;
    misses += device->stats.cache_misses;
    live += device->live_peak;
  }
  if (row.held == 0)
    return false;
  row.ratio = live ? (double)row.held / (double)live : 0;
  row.has_hits = hits + misses > 0;
  row.hit_rate = row.has_hits ? (double)hits / (double)(hits + misses) : 0;
  add_row(table, &row);
  return true;
}

static void print_refused(const gp_replay_t *replay, gp_output_t *output)
{
  for (size_t i = 0; i < replay->result_count; i++) {
    const gp_replay_result_t *result = &replay->results[i];
    gp_figures_t figures;
    gp_figures_of(&figures, &result->simulation, &replay->workload, GP_PASS_COLD, GP_REQUEST_ALL_DEVICES);
    if (figures.refused)
      fprintf(output->stream,
          "%s does not fit: it refuses %s, the first (number %s, counted from 0) for %s\n", result->type,
          GP_AS_PLURAL(figures.refused, "request"), GP_AS_COUNT(figures.first_refused),
          GP_AS_SIZE(figures.refused_size));
    if (figures.granted)
      fprintf(output->stream, "%s serves %s that the program did not get\n", result->type,
          GP_AS_PLURAL(figures.granted, "request"));
  }
}

void gp_replay_print(const gp_replay_t *replay, gp_output_t *output)
{
  gp_table_t table = {.output = output, .indent = "  ", .format = "lrrrrrrrr"};

  print_heading(replay, output);
  gp_table_row(
      &table, "type", "held", "/ live", "hits", "calls", "2nd pass", "cost", "busy", "deferred", NULL);
  bool is_recorded = add_recorded(replay, &table);
  for (size_t i = 0; i < replay->result_count; i++)
    add_result(replay, &replay->results[i], GP_REQUEST_ALL_DEVICES, &table);
  gp_table_print(&table);
  fputc('\n', output->stream);
  print_refused(replay, output);
  if (replay->workload.pool[0] && is_recorded)
    fprintf(output->stream, "recorded: %s, by its own statistics\n", replay->workload.pool);
  if (!replay->is_last)
    return;
  gp_output_say(output, "",
      "held: the most that the driver had given, forwarded memory included; calls: those that allocate, map and free memory; cost, busy: what they take on an idle H100, and while kernels run; 2nd pass: calls of the same requests again, with what is in the pool");
  if (strcmp(replay->file, "stdin") == 0)
    return;
  if (replay->result_count == 1)
    gp_report_next(output, "replay", replay->file, "--type all");
  else
    gp_report_next(output, "tune", replay->file, "");
}
