/*
 * Prints the summary as text, at most 80 columns wide.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "tools/saturated.h"
#include "tools/report/component_report.h"
#include "tools/report/report.h"
#include "tools/report/summary_overview.h"
#include "tools/report/summary_report.h"
#include "tools/table.h"
#include "tools/tool.h"

#define TEXT_BYTES  1024
#define SHOWN_NAMES 8

/* Prints a line with a label. Prints nothing if `text` is empty. */
static void line(gp_output_t *output, const char *label, const char *text)
{
  char first[32];
  char shown[TEXT_BYTES];
  if (!text[0])
    return;
  snprintf(first, sizeof(first), "  %-10s ", label);
  gp_output_wrap(output->stream, first, "             ", gp_printable(text, shown, sizeof(shown)));
}

static void print_versions(gp_output_t *output, const cJSON *process)
{
  static const struct {
    const char *name, *label;
  } versions[] = {{"driver_version", "driver"}, {"runtime_version", "runtime"}};
  gp_sentence_t text = {.used = 0};
  for (size_t i = 0; i < 2; i++) {
    uint64_t version;
    if (gp_snapshot_uint(process, versions[i].name, &version) == 1 && version < 1000000)
      gp_sentence_add(&text, "%s%s %u.%u", text.used ? ", " : "", versions[i].label, (unsigned)version / 1000,
          (unsigned)version % 1000 / 10);
  }
  line(output, "CUDA", text.text);
}

static void print_command_line(gp_output_t *output, const cJSON *process)
{
  gp_sentence_t text = {.used = 0};
  const cJSON *argument;
  cJSON_ArrayForEach(argument, cJSON_GetObjectItemCaseSensitive(process, "command_line"))
  {
    const char *word = cJSON_GetStringValue(argument);
    if (word)
      gp_sentence_add(&text, "%s%s", text.used ? " " : "", word);
  }
  line(output, "command", text.text);
}

static void print_when(const gp_summary_t *summary, gp_output_t *output, const cJSON *process)
{
  char text[128], moment[64] = "";
  uint64_t start_us;
  struct tm broken;

  if (gp_snapshot_uint(process, "start_time_us", &start_us) == 1) {
    time_t seconds = (time_t)(start_us / 1000000);
    if (gmtime_r(&seconds, &broken))
      strftime(moment, sizeof(moment), "%Y-%m-%d %H:%M:%S UTC", &broken);
  }
  if (summary->snapshot->times_are_numbers || !summary->until_ns) /* the duration is unknown */
    snprintf(text, sizeof(text), "%s", moment);
  else
    snprintf(text, sizeof(text), "%s%srecorded for %s", moment, moment[0] ? ", " : "",
        GP_AS_DURATION(summary->until_ns));
  /* In files from PyTorch, the time is that of the first event, not of the start of the process. */
  line(output, summary->snapshot->lacks_counters ? "events" : "began", text);
}

/* Prints the options that were set, except the output: gpupool run sets it, and the user has the file. */
static void print_settings(gp_output_t *output, const cJSON *settings)
{
  gp_sentence_t text = {.used = 0}, conf = {.used = 0};
  const char *type = gp_snapshot_text(settings, "type");
  const cJSON *source;
  if (type[0])
    gp_sentence_add(&text, "type=%s", type);
  cJSON_ArrayForEach(source, cJSON_GetObjectItemCaseSensitive(settings, "sources"))
  {
    if (source->string && strcmp(source->string, "type") != 0 && strcmp(source->string, "output") != 0)
      gp_sentence_add(
          &text, "%s%s=%s", text.used ? " " : "", source->string, gp_snapshot_text(settings, source->string));
  }
  line(output, "settings", text.text);
  const char *of_pytorch = gp_snapshot_text(settings, "PYTORCH_CUDA_ALLOC_CONF");
  if (of_pytorch[0])
    gp_sentence_add(&conf, "PYTORCH_CUDA_ALLOC_CONF=%s", of_pytorch);
  line(output, "settings", conf.text);
}

/* Prints the process and its host. Omits what the snapshot lacks. */
static void print_place(gp_output_t *output, const cJSON *process)
{
  char pid_text[32] = "", rank_text[32] = "", text[TEXT_BYTES];
  const char *host = gp_snapshot_text(process, "host");
  uint64_t pid, rank;

  if (gp_snapshot_uint(process, "pid", &pid) == 1 && pid)
    snprintf(pid_text, sizeof(pid_text), "pid %llu%s", (unsigned long long)pid, host[0] ? " " : "");
  bool may_be_none = !gp_snapshot_text(process, "library_version")[0]; /* older files have 0 without a rank */
  if (gp_snapshot_uint(process, "rank", &rank) == 1 && !(rank == 0 && may_be_none))
    snprintf(rank_text, sizeof(rank_text), "%srank %llu", pid_text[0] || host[0] ? ", " : "",
        (unsigned long long)rank);
  snprintf(text, sizeof(text), "%s%s%s%s", pid_text, host[0] ? "on " : "", host, rank_text);
  line(output, "process", text);
}

/* Prints the environment variables that select devices or limit their memory. */
static void print_environment(gp_output_t *output, const cJSON *process)
{
  gp_sentence_t text = {.used = 0};
  const cJSON *variable;
  cJSON_ArrayForEach(variable, cJSON_GetObjectItemCaseSensitive(process, "environment"))
  {
    if (variable->string && cJSON_IsString(variable))
      gp_sentence_add(&text, "%s%s=%s", text.used ? " " : "", variable->string, variable->valuestring);
  }
  line(output, "variables", text.text);
}

static void print_process(const gp_summary_t *summary, gp_output_t *output)
{
  const cJSON *root = summary->snapshot->root;
  const cJSON *process = cJSON_GetObjectItemCaseSensitive(root, "process");
  char text[TEXT_BYTES], written[TEXT_BYTES / 2];

  gp_output_heading(output, "Process");
  line(output, "program", gp_snapshot_text(process, "program"));
  print_command_line(output, process);
  print_place(output, process);
  print_versions(output, process);
  print_environment(output, process);
  print_when(summary, output, process);
  print_settings(output, cJSON_GetObjectItemCaseSensitive(root, "settings"));
  const char *version = gp_snapshot_text(process, "library_version");
  gp_report_written(summary->snapshot, written, sizeof(written));
  snprintf(text, sizeof(text), "%s%s%s", written, version[0] ? ", by gpupool " : "", version);
  line(output, "snapshot", text);
}

static void print_findings(const gp_findings_t *findings, gp_output_t *output)
{
  static const gp_style_t styles[] = {
      [GP_SEVERITY_GOOD] = GP_STYLE_GOOD,
      [GP_SEVERITY_NOTE] = GP_STYLE_FAINT,
      [GP_SEVERITY_WARNING] = GP_STYLE_WARNING,
      [GP_SEVERITY_ERROR] = GP_STYLE_ERROR,
  };
  static const char *const marks[] = {[GP_SEVERITY_GOOD] = "  ",
      [GP_SEVERITY_NOTE] = "- ",
      [GP_SEVERITY_WARNING] = "! ",
      [GP_SEVERITY_ERROR] = "! "};

  fprintf(output->stream, "%sWhat happened%s\n", gp_output_style(output, GP_STYLE_HEADING),
      gp_output_style(output, GP_STYLE_PLAIN));
  for (size_t i = 0; i < findings->count; i++) {
    const gp_finding_t *finding = &findings->items[i];
    char first[8], shown[2 * TEXT_BYTES];
    bool is_loud = finding->severity != GP_SEVERITY_NOTE;
    snprintf(first, sizeof(first), "  %s", marks[finding->severity]);
    fputs(is_loud ? gp_output_style(output, styles[finding->severity]) : "", output->stream);
    gp_output_wrap(output->stream, first, "    ", gp_printable(finding->text, shown, sizeof(shown)));
    fputs(is_loud ? gp_output_style(output, GP_STYLE_PLAIN) : "", output->stream);
    if (finding->advice)
      gp_output_wrap(output->stream,
          gp_remedy_is_empty(&finding->remedy) ? "    Hint: " : "    Remedy: ", "    ",
          gp_printable(finding->advice, shown, sizeof(shown)));
  }
}

/* Finds the value of a statistic at the moment that the summary describes. Returns false if it is unknown. */
static bool find_then(const gp_summary_device_t *device, size_t stat, uint64_t *ret_value)
{
  const gp_memory_t *then = &device->then;
  uint64_t active = gp_add_saturated(then->allocated, then->deferred);
  switch (stat) {
  case offsetof(gp_stats_t, requested_bytes): *ret_value = then->requested; return true;
  case offsetof(gp_stats_t, allocated_bytes): *ret_value = then->allocated; return true;
  case offsetof(gp_stats_t, active_bytes): *ret_value = active; return true;
  case offsetof(gp_stats_t, deferred_bytes): *ret_value = then->deferred; return true;
  case offsetof(gp_stats_t, passthrough_bytes): *ret_value = then->forwarded; return true;
  case offsetof(gp_stats_t, allocation): *ret_value = then->count; return !then->forwarded;
  case offsetof(gp_stats_t, reserved_bytes): *ret_value = then->reserved; return device->knows_reserved;
  case offsetof(gp_stats_t, segment): *ret_value = device->then_segments; return device->knows_reserved;
  case offsetof(gp_stats_t, cached_bytes):
    *ret_value = gp_subtract_saturated(then->reserved, active);
    return device->knows_reserved;
  default: return false;
  }
}

static void add_gauge(gp_table_t *table, const gp_snapshot_t *snapshot, const gp_summary_device_t *device,
    const char *label, const char *unit, size_t stat)
{
  char current[GP_NUMBER_BYTES], peak[GP_NUMBER_BYTES], total[GP_NUMBER_BYTES], text[GP_NUMBER_BYTES];
  char *(*format)(uint64_t, char *) = strcmp(unit, "bytes") == 0 ? gp_size_format : gp_number_count;
  const gp_gauge_t *gauge = (const gp_gauge_t *)((const char *)&device->device->stats + stat);
  gp_known_t known = gp_stats_known(snapshot, device->device, stat);
  uint64_t then = 0;
  bool knows_then = find_then(device, stat, &then);
  bool is_zero = !gauge->peak && !gauge->current && !(device->has_then && then);
  if (known == GP_KNOWN_NOT || (is_zero && stat != offsetof(gp_stats_t, requested_bytes)))
    return;
  gp_table_row(table, label,
      !device->has_then ? ""
      : knows_then      ? format(then, text)
                        : "-",
      format(gauge->current, current), known == GP_KNOWN ? format(gauge->peak, peak) : "-",
      known == GP_KNOWN ? format(gauge->allocated, total) : "-", NULL);
}

static void print_gauges(const gp_summary_t *summary, const gp_summary_device_t *device, gp_output_t *output)
{
  gp_table_t table = {.output = output, .indent = "  ", .format = "lrrrr"};
  /* The moment that the summary describes has its own column if it concerns the device and is not the end. */
  gp_table_row(&table, "", device->has_then ? "then" : "", "current", "peak", "total", NULL);
#define GAUGE(name, unit, label, ...)                                                                        \
  add_gauge(&table, summary->snapshot, device, label, unit, offsetof(gp_stats_t, name));
#include "format/stats.def"
  gp_table_print(&table);
}

/* Collects "label value" pairs, and prints three per line. */
typedef struct cells {
  gp_table_t *table;
  const char *labels[3];
  char values[3][GP_NUMBER_BYTES];
  int count;
} cells_t;

static void end_line(cells_t *cells)
{
  const char *const *labels = cells->labels;
  if (cells->count)
    gp_table_row(cells->table, labels[0], cells->values[0], cells->count > 1 ? labels[1] : NULL,
        cells->values[1], cells->count > 2 ? labels[2] : NULL, cells->values[2], NULL);
  cells->count = 0;
}

static void cell(cells_t *cells, const char *label, const char *value)
{
  cells->labels[cells->count] = label;
  snprintf(cells->values[cells->count++], GP_NUMBER_BYTES, "%s", value);
  if (cells->count == 3)
    end_line(cells);
}

static void cell_count(cells_t *cells, const char *label, gp_known_t known, uint64_t count)
{
  cell(cells, label, known == GP_KNOWN ? GP_AS_COUNT(count) : "-");
}

static void cell_ratio(cells_t *cells, const char *label, double ratio, bool is_known)
{
  cell(cells, label, is_known ? GP_AS_PERCENT(ratio) : "-");
}

/* Prints the number of allocations for which hits and misses are unknown. For allocations before the first
 * event, only the library's own snapshots count hits and misses. */
static void print_older(const gp_stats_t *stats, gp_output_t *output)
{
  uint64_t known = gp_add_saturated(stats->cache_hits, stats->cache_misses);
  if (stats->allocation.allocated <= known)
    return;
  if (known)
    gp_output_say(output, "  ", "Hits and misses are unknown for %s.",
        GP_AS_PLURAL(stats->allocation.allocated - known, "allocation"));
  else
    gp_output_say(output, "  ", "Which allocations were hits and which were misses is unknown.");
}

static void print_efficiency(cells_t *cells, const gp_summary_device_t *device)
{
  const gp_memory_t *then = &device->then;
  if (device->has_then)
    cell_ratio(cells, "efficiency", (double)then->requested / (double)(then->reserved ? then->reserved : 1),
        device->knows_reserved && then->reserved > 0 && then->requested > 0);
  else
    cell_ratio(cells, "efficiency", device->device->efficiency, device->device->efficiency > 0);
}

static void print_fragmentation(cells_t *cells, const gp_summary_device_t *device)
{
  const gp_memory_t *then = &device->then;
  uint64_t cached = gp_subtract_saturated(then->reserved, gp_add_saturated(then->allocated, then->deferred));
  if (device->has_then)
    cell_ratio(cells, "fragmentation", 1 - (double)device->then_hole / (double)(cached ? cached : 1),
        device->knows_reserved && cached > 0 && device->then_hole <= cached);
  else
    cell_ratio(cells, "fragmentation", device->device->fragmentation, device->idle_count > 0);
}

static void print_counters(
    const gp_summary_t *summary, const gp_summary_device_t *device, gp_output_t *output)
{
  const gp_stats_t *stats = &device->device->stats;
  gp_table_t table = {.output = output, .indent = "  ", .format = "lrlrlr"};
  cells_t cells = {.table = &table};
  fputc('\n', output->stream);
#define KNOWN(stat) gp_stats_known(summary->snapshot, device->device, offsetof(gp_stats_t, stat))
  cell_count(&cells, "allocations", KNOWN(allocation), stats->allocation.allocated);
  cell_count(&cells, "frees", KNOWN(allocation), stats->allocation.freed);
#define COUNTER(name, label, ...) cell_count(&cells, label, KNOWN(name), stats->name);
#include "format/stats.def"
  cell_ratio(&cells, "hit rate", device->device->cache_hit_rate,
      stats->cache_hits + stats->cache_misses > 0 && KNOWN(cache_hits) == GP_KNOWN);
#undef KNOWN
  print_efficiency(&cells, device);
  print_fragmentation(&cells, device);
  end_line(&cells);
  gp_table_print(&table);
  if (!summary->snapshot->lacks_history && !summary->snapshot->lacks_segments)
    print_older(stats, output);
}

/* Formats the block size of a group. If the text would equal that of another group, formats exact bytes.
 * Returns `buffer`. */
static char *group_size(const gp_summary_device_t *device, size_t index, char *buffer)
{
  gp_size_format(device->groups[index].requested, buffer);
  for (size_t i = 0; i < device->group_count; i++) {
    if (i == index || strcmp(GP_AS_SIZE(device->groups[i].requested), buffer) != 0)
      continue;
    snprintf(buffer, GP_NUMBER_BYTES, "%s B", GP_AS_COUNT(device->groups[index].requested));
    break;
  }
  return buffer;
}

static void print_groups(const gp_summary_device_t *device, gp_output_t *output)
{
  gp_table_t table = {.output = output, .indent = "  ", .format = "rrrr"};
  char size[GP_NUMBER_BYTES];
  if (!device->group_count)
    return;
  fputc('\n', output->stream);
  gp_table_row(&table, device->has_then ? "live at the end, by size" : "live blocks by requested size",
      "blocks", "memory", "share", NULL);
  for (size_t i = 0; i < device->group_count; i++) {
    const gp_summary_group_t *group = &device->groups[i];
    gp_table_row(&table, group_size(device, i, size), GP_AS_COUNT(group->count), GP_AS_SIZE(group->bytes),
        GP_AS_PERCENT(device->live_bytes ? (double)group->bytes / (double)device->live_bytes : 0), NULL);
  }
  if (device->size_count > device->group_count)
    gp_table_row(&table, GP_AS_PLURAL(device->size_count - device->group_count, "other size"), NULL);
  gp_table_print(&table);
}

/* Prints the memory use of the whole device. Without it, users would search their program for memory that
 * belongs to contexts, code or other processes. */
static void print_use(const gp_snapshot_device_t *device, gp_output_t *output)
{
  gp_sentence_t text = {.used = 0};

  if (!device->total)
    return;
  gp_sentence_add(&text, "Of the device's %s, %s were free %s after the start", GP_AS_SIZE(device->total),
      GP_AS_SIZE(device->free), GP_AS_DURATION(device->use_ns));
  if (device->in_pools)
    gp_sentence_add(
        &text, ", %s were kept by the driver's own pools and not in use", GP_AS_SIZE(device->in_pools));
  if (device->unaccounted)
    gp_sentence_add(
        &text, ", and %s were in use by contexts, code and other processes", GP_AS_SIZE(device->unaccounted));
  fputc('\n', output->stream);
  gp_output_say(output, "  ", "%s.", text.text);
}

static void print_device(const gp_summary_t *summary, const gp_summary_device_t *device, gp_output_t *output)
{
  char when[128];

  gp_output_heading(output, "Device %d%s%s%s", device->device->device,
      device->device->limit ? " (limit " : "", device->device->limit ? GP_AS_SIZE(device->device->limit) : "",
      device->device->limit ? ")" : "");
  const gp_stats_t *stats = &device->device->stats;
  if (summary->device_count > 1 && !stats->allocation.allocated && !stats->reserved_bytes.peak &&
      !stats->passthrough_bytes.peak) {
    fputs("  Nothing was allocated here.\n", output->stream);
    return;
  }
  if (device->has_then) {
    gp_moments_describe(&summary->moments, &summary->lifetimes, when, sizeof(when));
    gp_output_say(output, "  ",
        "Then is %s, and current is when the snapshot was written. Efficiency and fragmentation are of then.",
        when);
  }
  print_gauges(summary, device, output);
  print_counters(summary, device, output);
  print_use(device->device, output);
  if (device->idle_count) {
    fprintf(output->stream, "\n  %s idle%s, %s in all, the largest %s\n",
        GP_AS_PLURAL(device->idle_count, "block"), device->has_then ? " at the end" : "",
        GP_AS_SIZE(device->idle_bytes), GP_AS_SIZE(device->largest_idle));
  }
  print_groups(device, output);
}

static void print_events(const gp_summary_t *summary, gp_output_t *output)
{
  char text[128];

  if (!summary->event_count)
    return;
  gp_output_heading(output, "Events: %s%s%s", GP_AS_COUNT(summary->event_count),
      summary->snapshot->times_are_numbers ? ", without times" : " in ",
      summary->snapshot->times_are_numbers ? "" : GP_AS_DURATION(summary->last_ns - summary->first_ns));
  bool has_calls = summary->driver_calls > 0; /* snapshots from PyTorch have no driver calls */
  gp_table_t table = {.output = output, .indent = "  ", .format = has_calls ? "lrrrr" : "lr"};
  if (has_calls)
    gp_table_row(&table, "", "count", "driver calls", "time", "longest", NULL);
  for (size_t i = 0; i < summary->action_count; i++) {
    const gp_summary_action_t *action = &summary->actions[i];
    char name[25];
    if (!action->count)
      continue;
    snprintf(name, sizeof(name), "%s", action->name);
    gp_table_row(&table, name, GP_AS_COUNT(action->count),
        action->driver_calls ? GP_AS_COUNT(action->driver_calls) : "-",
        action->driver_calls ? GP_AS_DURATION(action->driver_ns) : "-",
        action->driver_calls ? GP_AS_DURATION(action->longest_ns) : "-", NULL);
  }
  for (size_t i = 0; i < summary->detail_count; i++) {
    snprintf(text, sizeof(text), "  of %.24s: %.32s", summary->details[i].action, summary->details[i].detail);
    gp_table_row(&table, text, GP_AS_COUNT(summary->details[i].count), NULL);
  }
  if (has_calls)
    gp_table_row(&table, "in all, each call once", "", GP_AS_COUNT(summary->driver_calls),
        GP_AS_DURATION(summary->driver_ns), NULL);
  gp_table_print(&table);
}

static void print_names(gp_output_t *output, const cJSON *list, const char *noun, const char *key)
{
  char shown[TEXT_BYTES];
  gp_sentence_t text = {.used = 0};
  int total = cJSON_GetArraySize(list), i = 0;
  const cJSON *item;
  bool is_default = !total && strcmp(noun, "stream") == 0; /* the file lists only created streams */
  gp_sentence_add(
      &text, "%s", is_default ? "no stream but the default one" : GP_AS_PLURAL((uint64_t)total, noun));
  cJSON_ArrayForEach(item, list)
  {
    if (i == SHOWN_NAMES)
      break;
    gp_sentence_add(&text, "%s %.60s", i++ ? "," : ":", gp_snapshot_text(item, key));
  }
  gp_sentence_add(&text, "%s", i < total ? ", ..." : "");
  gp_output_wrap(output->stream, "  ", "    ", gp_printable(text.text, shown, sizeof(shown)));
}

/* Returns true if the snapshot records threads. PyTorch's do not: they have one thread without an id. */
static bool knows_threads(const cJSON *root)
{
  const cJSON *threads = cJSON_GetObjectItemCaseSensitive(root, "threads");
  uint64_t tid = 0;
  return cJSON_GetArraySize(threads) != 1 ||
         gp_snapshot_uint(cJSON_GetArrayItem(threads, 0), "tid", &tid) != 1 || tid;
}

/* Prints a command that examines the findings more closely. */
static void print_next(const gp_findings_t *findings, gp_output_t *output)
{
  const gp_summary_t *summary = findings->summary;
  char options[32];
  if (summary->moments.oom && !summary->moments.is_end) {
    snprintf(options, sizeof(options), "--at oom=%zu", summary->moments.oom);
    gp_report_next(output, "sites", summary->file, options);
  } else if (gp_findings_have(findings, GP_FINDING_oom) ||
             gp_findings_have(findings, GP_FINDING_sudden_end)) {
    gp_report_next(output, "sites", summary->file, "--sort live");
  } else if (gp_findings_have(findings, GP_FINDING_live_at_exit)) {
    gp_report_next(output, "leaks", summary->file, "");
  } else {
    gp_report_next(output, "sites", summary->file, "");
  }
}

/* Prints all devices. If there are many, prints one device in full, and one line for each. */
static void print_devices(const gp_summary_t *summary, bool is_full, gp_output_t *output)
{
  bool is_many = !is_full && summary->device_count >= GP_OVERVIEW_DEVICES;
  const gp_summary_device_t *shown = is_many ? gp_overview_device(summary) : NULL;

  if (is_many) {
    gp_overview_print_devices(summary, output);
    fprintf(output->stream, "  Device %d in full; the others with --full, or --device N.\n",
        shown->device->device);
  }
  for (size_t i = 0; i < summary->device_count; i++) {
    if (shown && shown != &summary->devices[i])
      continue;
    print_device(summary, &summary->devices[i], output);
    gp_component_print(&summary->devices[i].components, output);
  }
}

/* Explains technical words in the text, if their figures are not zero. */
static void print_words(const gp_summary_t *summary, gp_output_t *output)
{
  struct {
    const char *word, *text;
    bool is_used;
  } words[] = {
      {"deferred", "freed by the program, and the device may still use it", false},
      {"forwarded", "forwarded to the driver: not pooled, but counted", false},
      {"fences", "events that prove to the pool that work is complete", false},
      {"efficiency", "requested memory as a share of reserved memory", false},
      {"fragmentation", "idle memory that is not in the largest idle block", false},
  };
  const size_t count = sizeof(words) / sizeof(words[0]);
  bool is_first = true;

  for (size_t i = 0; i < summary->device_count; i++) {
    const gp_snapshot_device_t *device = summary->devices[i].device;
    const gp_stats_t *stats = &device->stats;
    words[0].is_used |= stats->deferred_bytes.peak > 0;
    words[1].is_used |= stats->passthrough_bytes.peak > 0;
    words[2].is_used |= stats->fences > 0;
    words[3].is_used |= device->efficiency > 0;
    words[4].is_used |= summary->devices[i].idle_count > 0;
  }
  for (size_t i = 0; i < count; i++) {
    if (!words[i].is_used)
      continue;
    fprintf(output->stream, "%s  %-14s %s\n", is_first ? "\n" : "", words[i].word, words[i].text);
    is_first = false;
  }
}

void gp_summary_print(const gp_findings_t *findings, bool is_full, gp_output_t *output)
{
  const gp_summary_t *summary = findings->summary;
  const cJSON *root = summary->snapshot->root;
  char file[TEXT_BYTES];
  gp_output_heading(output, "%s", gp_printable(summary->file, file, sizeof(file)));
  print_findings(findings, output);
  print_process(summary, output);
  print_devices(summary, is_full, output);
  if (summary->phases.count > 0) {
    gp_output_heading(output, "Phases");
    gp_summary_phases_print(summary, output);
  }
  print_events(summary, output);
  gp_output_heading(output, "%s", knows_threads(root) ? "Streams and threads" : "Streams");
  print_names(output, cJSON_GetObjectItemCaseSensitive(root, "streams"), "stream", "handle");
  if (knows_threads(root))
    print_names(output, cJSON_GetObjectItemCaseSensitive(root, "threads"), "thread", "name");
  print_words(summary, output);
  print_next(findings, output);
  gp_report_next_page(output, summary->file);
}
