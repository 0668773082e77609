#include "tools/report/summary_overview.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/saturated.h"
#include "tools/report/report.h"
#include "tools/shorten.h"
#include "tools/side_by_side.h"
#include "tools/table.h"
#include "tools/tool.h"

#define FILE_COLUMNS 27

/* Appends the codes of warnings and errors, each code once: "oom, growth". */
static void add_codes(const gp_findings_t *findings, gp_sentence_t *text)
{
  for (size_t i = 0; i < findings->count; i++) {
    const gp_finding_t *finding = &findings->items[i];
    if (finding->severity >= GP_SEVERITY_WARNING && !strstr(text->text, finding->code))
      gp_sentence_add(text, "%s%s", text->used ? ", " : "", finding->code);
  }
}

static void add_events(gp_overview_row_t *row, const gp_summary_t *summary)
{
  gp_moments_t end;
  gp_memory_t memory;

  gp_moments_end(&end, &summary->lifetimes);
  gp_moments_memory(&end, &summary->lifetimes, summary->filter, GP_REQUEST_ALL_DEVICES, &memory);
  if (strcmp(gp_snapshot_text(summary->snapshot->root, "reason"), "exit") == 0)
    row->leaked = gp_memory_requested(&memory);
  for (size_t i = 0; !row->ran_out && i < summary->ooms.count; i++) {
    const gp_oom_event_t *event = &summary->ooms.events[i];
    row->out_ns = event->time_ns;
    row->ran_out = event->time_ns > 0 && gp_filter_has_device(summary->filter, event->device);
  }
}

int gp_overview_init(gp_overview_t *overview, size_t count)
{
  *overview = (gp_overview_t){
      .rows = gp_shared_alloc(count * sizeof(*overview->rows)), .count = count, .room = count};
  return overview->rows ? 0 : ENOMEM;
}

void gp_overview_fini(gp_overview_t *overview)
{
  gp_shared_free(overview->rows, overview->room * sizeof(*overview->rows));
  *overview = (gp_overview_t){.count = 0};
}

void gp_overview_set(gp_overview_row_t *row, const gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  gp_sentence_t codes = {.used = 0};

  add_codes(findings, &codes);
  (void)snprintf(row->codes, sizeof(row->codes), "%.*s", (int)sizeof(row->codes) - 1, codes.text);
  for (size_t i = 0; i < findings->count; i++)
    if (findings->items[i].severity > row->severity)
      row->severity = findings->items[i].severity;
  for (size_t i = 0; i < summary->device_count; i++) {
    const gp_stats_t *stats = &summary->devices[i].device->stats;
    row->used = gp_add_saturated(row->used, stats->requested_bytes.peak);
    row->held = gp_add_saturated(row->held, stats->reserved_bytes.peak);
    row->ooms = gp_add_saturated(row->ooms, stats->num_ooms);
    row->hits = gp_add_saturated(row->hits, stats->cache_hits);
    row->misses = gp_add_saturated(row->misses, stats->cache_misses);
  }
  add_events(row, summary);
  gp_rank_init(&row->rank, summary->snapshot);
  row->file = summary->file;
}

/* Moves the filled rows to the front, and keeps their order. */
static void drop_empty_rows(gp_overview_t *overview)
{
  size_t kept = 0;
  for (size_t i = 0; i < overview->count; i++) {
    if (overview->rows[i].file)
      overview->rows[kept++] = overview->rows[i];
  }
  overview->count = kept;
}

static int compare_bytes(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Returns the median of a column, or 0 if memory runs out. */
static uint64_t median_of(const gp_overview_t *overview, size_t offset)
{
  uint64_t median = 0, *column = malloc((overview->count + 1) * sizeof(*column));
  if (!column)
    return 0;
  for (size_t i = 0; i < overview->count; i++)
    memcpy(&column[i], (const char *)&overview->rows[i] + offset, sizeof(*column));
  qsort(column, overview->count, sizeof(*column), compare_bytes);
  median = column[overview->count / 2];
  free(column);
  return median;
}

static double apart(uint64_t bytes, uint64_t median)
{
  return median ? fabs((double)bytes - (double)median) / (double)median : bytes > 0;
}

static int compare_rows(const void *a, const void *b)
{
  const gp_overview_row_t *x = a, *y = b;
  int grade_x = x->severity < GP_SEVERITY_WARNING ? 0 : (int)x->severity;
  int grade_y = y->severity < GP_SEVERITY_WARNING ? 0 : (int)y->severity;

  if (grade_x != grade_y)
    return grade_y - grade_x;
  if (x->apart != y->apart)
    return x->apart < y->apart ? 1 : -1;
  return strverscmp(x->file, y->file); /* puts rank2 before rank10 */
}

static void print_hits(uint64_t hits, uint64_t misses, char *buffer)
{
  snprintf(buffer, GP_NUMBER_BYTES, "-");
  if (hits + misses > 0)
    gp_number_percent((double)hits / (double)(hits + misses), buffer);
}

static void add_row(gp_names_t *names, const gp_overview_row_t *row, gp_table_t *table)
{
  char file[4 * FILE_COLUMNS], hits[GP_NUMBER_BYTES];

  print_hits(row->hits, row->misses, hits);
  gp_names_shorten(names, gp_base_name(row->file), FILE_COLUMNS, file, sizeof(file));
  gp_table_row(table, file, GP_AS_SIZE(row->used), row->held ? GP_AS_SIZE(row->held) : "-", hits,
      GP_AS_COUNT(row->ooms), row->codes, NULL);
}

#define RANGE_BYTES (2 * GP_SIZE_TEXT_BYTES + 8)

/* Formats a range: "400 MiB", or "400 MiB to 1.2 GiB". Returns `buffer`. */
static char *range_of(uint64_t least, uint64_t most, char *buffer)
{
  int used = snprintf(buffer, RANGE_BYTES, "%s", GP_AS_SIZE(least));
  if (most > least)
    snprintf(buffer + used, RANGE_BYTES - (size_t)used, " to %s", GP_AS_SIZE(most));
  return buffer;
}

/* Prints the number of rows from `first` on, and the range of their memory. */
static void print_rest(const gp_overview_t *overview, size_t first, gp_output_t *output)
{
  uint64_t least[2] = {UINT64_MAX, UINT64_MAX}, most[2] = {0, 0};
  char used[RANGE_BYTES], held[RANGE_BYTES];

  for (size_t i = first; i < overview->count; i++) {
    const uint64_t bytes[2] = {overview->rows[i].used, overview->rows[i].held};
    for (int k = 0; k < 2; k++) {
      least[k] = bytes[k] < least[k] ? bytes[k] : least[k];
      most[k] = bytes[k] > most[k] ? bytes[k] : most[k];
    }
  }
  gp_output_say(output, "  ", "%s: used %s, total %s (-n 0 lists them)",
      GP_AS_PLURAL(overview->count - first, "other"), range_of(least[0], most[0], used),
      range_of(least[1], most[1], held));
}

void gp_overview_print(gp_overview_t *overview, size_t most, gp_output_t *output)
{
  drop_empty_rows(overview);
  uint64_t used = median_of(overview, offsetof(gp_overview_row_t, used));
  uint64_t held = median_of(overview, offsetof(gp_overview_row_t, held));
  size_t errors = 0, warnings = 0;
  gp_names_t names = {.count = 0};
  gp_table_t table = {.output = output, .indent = "  ", .format = "lrrrrn"};

  for (size_t i = 0; i < overview->count; i++) {
    gp_overview_row_t *row = &overview->rows[i];
    row->apart = fmax(apart(row->used, used), apart(row->held, held));
    errors += row->severity == GP_SEVERITY_ERROR;
    warnings += row->severity == GP_SEVERITY_WARNING;
  }
  qsort(overview->rows, overview->count, sizeof(*overview->rows), compare_rows);
  gp_output_say(output, "",
      "%s: %s with errors, %s with warnings. At most %s were used, and %s in total (medians). What stands out comes first.",
      GP_AS_PLURAL(overview->count, "snapshot"), GP_AS_COUNT(errors), GP_AS_COUNT(warnings), GP_AS_SIZE(used),
      held ? GP_AS_SIZE(held) : "an unknown amount");
  gp_overview_print_ranks(overview, used, median_of(overview, offsetof(gp_overview_row_t, leaked)), output);
  fputc('\n', output->stream);
  gp_table_row(&table, "", "used", "total", "hits", "ooms", "findings", NULL);
  size_t shown = most && most < overview->count ? most : overview->count;
  for (size_t i = 0; i < shown; i++)
    add_row(&names, &overview->rows[i], &table);
  gp_table_print(&table);
  if (shown < overview->count)
    print_rest(overview, shown, output);
  gp_names_fini(&names);
  gp_report_next(output, "summary", overview->rows[0].file, "");
  fputs("  or, of each file: --full\n", output->stream);
}

#define KNOWN(stat) (gp_stats_known(summary->snapshot, device, offsetof(gp_stats_t, stat)) == GP_KNOWN)

void gp_overview_print_devices(const gp_summary_t *summary, gp_output_t *output)
{
  gp_output_heading(output, "Devices");
  gp_table_t table = {.output = output, .indent = "  ", .format = "lrrrrr"};
  gp_table_row(&table, "", "used at most", "total at most", "total now", "hit rate", "out of memory", NULL);
  for (size_t i = 0; i < summary->device_count; i++) {
    const gp_snapshot_device_t *device = summary->devices[i].device;
    const gp_stats_t *stats = &device->stats;
    char name[32], hits[GP_NUMBER_BYTES];
    snprintf(name, sizeof(name), "device %d", device->device);
    print_hits(KNOWN(cache_hits) ? stats->cache_hits : 0, KNOWN(cache_hits) ? stats->cache_misses : 0, hits);
    gp_table_row(&table, name, KNOWN(requested_bytes) ? GP_AS_SIZE(stats->requested_bytes.peak) : "-",
        KNOWN(reserved_bytes) ? GP_AS_SIZE(stats->reserved_bytes.peak) : "-",
        GP_AS_SIZE(stats->reserved_bytes.current), hits, KNOWN(num_ooms) ? GP_AS_COUNT(stats->num_ooms) : "-",
        NULL);
  }
  gp_table_print(&table);
}

const gp_summary_device_t *gp_overview_device(const gp_summary_t *summary)
{
  const gp_summary_device_t *found = NULL;
  for (size_t i = 0; i < summary->device_count; i++) {
    const gp_summary_device_t *device = &summary->devices[i];
    if (summary->has_oom && summary->oom.event.device == device->device->device)
      return device;
    if (!found || device->device->stats.requested_bytes.peak > found->device->stats.requested_bytes.peak)
      found = device;
  }
  return found;
}
