/*
 * gpupool diff: prints the differences between two snapshots.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/array.h"
#include "tools/hash_index.h"
#include "tools/model/component_use.h"
#include "tools/saturated.h"
#include "tools/report/relation.h"
#include "tools/model/sites.h"
#include "tools/table.h"
#include "tools/tool.h"

#define SHOWN_SITES 15
#define STAYS       5 /* most components in the sentence about memory that stays in use */

enum { SORT_LIVE, SORT_PEAK, SORT_TOTAL, SORT_COUNT, SORT_TEMPORARY };

typedef struct own {
  int sort;
  int by;
  uint64_t most; /* most rows; 0: all */
} own_t;

static const gp_parameter_t parameters[] = {
    {"sort", 0, NULL, GP_PARAMETER_CHOICE, offsetof(own_t, sort), "live|peak|total|count|temporary", 0, 0,
        "what is compared of the sites, as of gpupool sites (default: peak; by component live, what stays)"},
    {"by", 0, NULL, GP_PARAMETER_CHOICE, offsetof(own_t, by), "function|line|module|size|component|phase", 0,
        0, "what makes a site, as of gpupool sites (default: function)"},
    {"top", 'n', "N", GP_PARAMETER_COUNT, offsetof(own_t, most), NULL, 0, 1000000000,
        "only the first N sites; 0: all (default: 15, with --json all)"},
};

static const gp_request_form_t form = {
    .command = "diff",
    .files = "FILE OTHER_FILE",
    .least_files = 2,
    .most_files = 2,
    .about = "Compares two snapshots, of one run or of two: the figures of each device, then\n"
             "the code that requests more or less. What is equal is left out. Statistics are\n"
             "of whole devices, whatever is selected.\n",
    .parameters = parameters,
    .parameter_count = sizeof(parameters) / sizeof(parameters[0]),
};

static const struct {
  const char *name;
  gp_site_measure_t measure;
  bool by_count;
} sorts[] = {
    [SORT_LIVE] = {"live", GP_SITE_LIVE, false},
    [SORT_PEAK] = {"peak", GP_SITE_PEAK, false},
    [SORT_TOTAL] = {"total", GP_SITE_TOTAL, false},
    [SORT_COUNT] = {"count", GP_SITE_TOTAL, true},
    [SORT_TEMPORARY] = {"temporary", GP_SITE_TEMPORARY, true},
};

static const char *const by_names[] = {"function", "line", "module", "size", "component", "phase"};

/* Returns the effective sort. The default for components is the live memory, because users then ask what
 * stays in use. Otherwise it is the peak, because users look for the difference of the peaks. */
static int sort_of(const own_t *own)
{
  return own->sort >= 0 ? own->sort : own->by == GP_SITE_BY_COMPONENT ? SORT_LIVE : SORT_PEAK;
}

/* A site that occurs in one or both snapshots. */
typedef struct pair {
  const char *name;
  uint64_t before;
  uint64_t after;
  bool is_of_host;
  bool is_said;
} pair_t;

/* Formats a difference as "+1.2 GiB", "-3" or "0". Returns `buffer`. */
static char *change_text(uint64_t before, uint64_t after, char *(*format)(uint64_t, char *), char *buffer)
{
  buffer[0] = after < before ? '-' : '+';
  format(after < before ? before - after : after - before, buffer + 1);
  if (after == before)
    snprintf(buffer, GP_NUMBER_BYTES, "0");
  return buffer;
}

/* Formats the change relative to `before`, or "new" or "gone". Returns `buffer`. */
static char *share_text(uint64_t before, uint64_t after, char *buffer)
{
  if (!before || !after)
    snprintf(buffer, GP_NUMBER_BYTES, "%s", before ? "gone" : "new");
  else
    snprintf(buffer, GP_NUMBER_BYTES, "%+.1f%%", ((double)after / (double)before - 1) * 100);
  if (strlen(buffer) > 8)
    snprintf(buffer, GP_NUMBER_BYTES, ">10000%%");
  return buffer;
}

/*
 * Figures
 */

/* A device as it is in one of the snapshots. */
typedef struct side {
  const gp_snapshot_t *snapshot;
  const gp_snapshot_device_t *device; /* NULL if the snapshot lacks the device */
  gp_stats_t stats;
} side_t;

typedef struct value {
  uint64_t number;
  bool is_known;
} value_t;

static side_t side_of(const gp_snapshot_t *snapshot, int ordinal)
{
  side_t side = {.snapshot = snapshot, .device = gp_snapshot_device(snapshot, ordinal)};
  if (side.device)
    side.stats = side.device->stats;
  return side;
}

/* Returns true if the statistic is known at least to the degree `least`: GP_KNOWN_AT_END for a current value,
 * otherwise GP_KNOWN. */
static bool knows(const side_t *side, size_t stat, gp_known_t least)
{
  return !side->device || gp_stats_known(side->snapshot, side->device, stat) >= least;
}

/* Called for each figure. `name` is the statistic's name; for gauges, ".peak" or ".current" is appended. */
typedef void (*figure_fn)(
    void *arg, const char *name, const char *words, bool is_bytes, value_t before, value_t after);

static bool is_bytes(const char *unit)
{
  return strcmp(unit, "bytes") == 0;
}

static void for_figures(const side_t *before, const side_t *after, figure_fn figure, void *arg)
{
#define OF(stat, field, least, words, is_bytes)                                                              \
  figure(arg, #stat #field, words, is_bytes,                                                                 \
      (value_t){before->stats.stat field, knows(before, offsetof(gp_stats_t, stat), least)},                 \
      (value_t){after->stats.stat field, knows(after, offsetof(gp_stats_t, stat), least)});
#define GAUGE(name, unit, label, ...)                                                                        \
  OF(name, .peak, GP_KNOWN, label ", peak", is_bytes(unit))                                                  \
  OF(name, .current, GP_KNOWN_AT_END, label ", now", is_bytes(unit))
#define COUNTER(name, label, ...) OF(name, , GP_KNOWN, label, false)
#include "format/stats.def"
  OF(allocation, .allocated, GP_KNOWN, "allocations", false)
#undef OF
}

static void print_figure(
    void *arg, const char *name, const char *words, bool is_bytes, value_t before, value_t after)
{
  char *(*format)(uint64_t, char *) = is_bytes ? gp_size_format : gp_number_count;
  char was[GP_NUMBER_BYTES], is[GP_NUMBER_BYTES], change[GP_NUMBER_BYTES + 1], share[GP_NUMBER_BYTES];
  (void)name;
  if (!before.is_known || !after.is_known || before.number == after.number)
    return;
  gp_table_row(arg, words, format(before.number, was), format(after.number, is),
      change_text(before.number, after.number, format, change),
      share_text(before.number, after.number, share), NULL);
}

static void add_figure(
    void *arg, const char *name, const char *words, bool is_bytes, value_t before, value_t after)
{
  cJSON *item = cJSON_AddObjectToObject(arg, name);
  (void)words;
  (void)is_bytes;
  GP_JSON_SHAPE(change);
  GP_PUT_UINT_OR_NULL(item, "before", before.is_known, before.number, "in the first file; null: not known");
  GP_PUT_UINT_OR_NULL(item, "after", after.is_known, after.number, "in the second");
}

static double hit_rate(const gp_stats_t *stats)
{
  uint64_t all = gp_add_saturated(stats->cache_hits, stats->cache_misses);
  return all ? (double)stats->cache_hits / (double)all : 0;
}

static void print_device(int ordinal, const side_t *before, const side_t *after, gp_output_t *output)
{
  gp_table_t table = {.output = output, .indent = "  ", .format = "lrrrr"};
  const size_t hits = offsetof(gp_stats_t, cache_hits), first = 5;
  gp_output_heading(output, "Device %d", ordinal);
  gp_table_row(&table, "", "before", "after", "change", NULL);
  for_figures(before, after, print_figure, &table);
  if (knows(before, hits, GP_KNOWN) && knows(after, hits, GP_KNOWN) &&
      hit_rate(&before->stats) != hit_rate(&after->stats))
    gp_table_row(&table, "hit rate", GP_AS_PERCENT(hit_rate(&before->stats)),
        GP_AS_PERCENT(hit_rate(&after->stats)), NULL);
  if (table.count == first)
    gp_table_row(&table, "no difference", NULL);
  gp_table_print(&table);
}

static void for_devices(const gp_report_input_t *inputs, gp_output_t *output, cJSON *list)
{
  for (int ordinal = 0; ordinal < GP_SNAPSHOT_DEVICES; ordinal++) {
    const side_t before = side_of(inputs[0].snapshot, ordinal), after = side_of(inputs[1].snapshot, ordinal);
    if ((!before.device && !after.device) || !gp_filter_has_device(inputs[0].filter, ordinal))
      continue;
    if (!list) {
      print_device(ordinal, &before, &after, output);
      continue;
    }
    cJSON *item = gp_json_add_item(list);
    GP_JSON_SHAPE(diff_device);
    GP_PUT_DEVICE(item, "device", ordinal, "ordinal of the device");
    cJSON *figures = GP_PUT_MAP(item, "figures", change,
        "by statistic, such as `reserved_bytes.peak` or `cache_hits`; 0 in a file that did not use the device");
    for_figures(&before, &after, add_figure, figures);
  }
}

/*
 * Sites
 */

static uint64_t figure_of(const gp_site_t *site, int sort)
{
  const gp_site_amount_t *amount = &site->flat[sorts[sort].measure];
  return sorts[sort].by_count ? amount->count : amount->bytes;
}

static uint64_t difference(const pair_t *pair)
{
  return pair->after > pair->before ? pair->after - pair->before : pair->before - pair->after;
}

static int compare_pairs(const void *a, const void *b)
{
  const pair_t *x = a, *y = b;
  if (difference(x) != difference(y))
    return difference(x) > difference(y) ? -1 : 1;
  if (x->after != y->after)
    return x->after > y->after ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Adds memory that belongs to no site (by component), at the end or the peak. Returns false if memory runs
 * out. */
static bool add_unsited(const gp_unsited_use_t *unsited, int sort, pair_t **pairs, size_t *count)
{
  gp_unsited_row_t before[GP_UNSITED_ROWS], after[GP_UNSITED_ROWS];
  int moment = sort == SORT_LIVE ? GP_USE_END : GP_USE_PEAK;

  if (sort != SORT_LIVE && sort != SORT_PEAK)
    return true;
  gp_unsited_rows(&unsited[0], moment, before);
  gp_unsited_rows(&unsited[1], moment, after);
  for (size_t i = 0; i < GP_UNSITED_ROWS; i++) {
    pair_t *pair = GP_ARRAY_ADD(*pairs, *count);
    if (!pair)
      return false;
    *pair = (pair_t){.name = before[i].name,
        .before = before[i].bytes,
        .after = after[i].bytes,
        .is_of_host = before[i].is_of_host};
  }
  return true;
}

/* Joins the sites of both snapshots by name, and adds memory that belongs to no site (`unsited`; NULL: none).
 * Returns the pairs, which the caller frees, or NULL if memory runs out. Borrows names from the sites. */
static pair_t *join(const gp_sites_t *sites, const gp_unsited_use_t *unsited, int sort, size_t *ret_count)
{
  gp_hash_index_t index = {.count = 0};
  size_t count = 0;
  pair_t *pairs = calloc(1, sizeof(*pairs)); /* not NULL, even if there are no pairs */
  bool failed = !pairs;

  for (int i = 0; !failed && i < 2; i++) {
    for (size_t k = 0; !failed && k < sites[i].count; k++) {
      const gp_site_t *site = &sites[i].sites[k];
      pair_t *pair = GP_HASH_TEXT(&index, pairs, count, site->name, false);
      failed = !pair;
      if (pair)
        *(i ? &pair->after : &pair->before) = figure_of(site, sort);
    }
  }
  gp_hash_index_fini(&index);
  if (failed || (unsited && !add_unsited(unsited, sort, &pairs, &count))) {
    free(pairs);
    return NULL;
  }
  if (count > 1)
    qsort(pairs, count, sizeof(*pairs), compare_pairs);
  /* Removes pairs without a difference, but keeps components still in use, because they show what stays. */
  while (count > 0 && difference(&pairs[count - 1]) == 0 && !(unsited && pairs[count - 1].after))
    count--;
  *ret_count = count;
  return pairs;
}

/* Prints what uses the devices' memory in the second snapshot, largest first. It shows, for example, what
 * stays in use while a server sleeps. */
static void print_stays(pair_t *pairs, size_t count, gp_output_t *output)
{
  gp_sentence_t text = {.used = 0};
  uint64_t before = 0, after = 0;

  for (size_t i = 0; i < count; i++) {
    before = gp_add_saturated(before, pairs[i].is_of_host ? 0 : pairs[i].before);
    after = gp_add_saturated(after, pairs[i].is_of_host ? 0 : pairs[i].after);
  }
  gp_sentence_add(&text, "Device memory in use at the end: %s before, %s after.%s", GP_AS_SIZE(before),
      GP_AS_SIZE(after),
      !after            ? ""
      : after <= before ? " What stays:"
                        : " After:");
  for (int shown = 0; shown < STAYS; shown++) {
    pair_t *next = NULL;
    for (size_t i = 0; i < count; i++) {
      if (!pairs[i].is_of_host && !pairs[i].is_said && pairs[i].after > (next ? next->after : 0))
        next = &pairs[i];
    }
    if (!next)
      break;
    next->is_said = true;
    gp_sentence_add(&text, "%s %s %s", shown ? "," : "", next->name, GP_AS_SIZE(next->after));
  }
  fputc('\n', output->stream);
  gp_output_say(output, "", "%s%s", text.text, after ? "." : "");
}

static void print_pairs(
    const gp_report_input_t *inputs, pair_t *pairs, size_t count, gp_site_by_t by, gp_output_t *output)
{
  const own_t *own = inputs[0].own;
  uint64_t most = own->most == UINT64_MAX ? SHOWN_SITES : own->most;
  char *(*format)(uint64_t, char *) = sorts[sort_of(own)].by_count ? gp_number_count : gp_size_format;
  char was[GP_NUMBER_BYTES], is[GP_NUMBER_BYTES], change[GP_NUMBER_BYTES + 1];
  size_t shown = 0;
  gp_table_t table = {.output = output, .indent = "", .format = inputs[0].request->wide ? "rrrw" : "rrrn"};

  if (by == GP_SITE_BY_COMPONENT && sort_of(own) == SORT_LIVE)
    print_stays(pairs, count, output);
  gp_output_heading(output, "By %s, %s", by_names[by], sorts[sort_of(own)].name);
  if (!count) {
    fprintf(output->stream, "  no difference\n");
    return;
  }
  gp_table_row(&table, "before", "after", "change", by_names[by], NULL);
  for (; shown < count && (most == 0 || shown < most); shown++) {
    const pair_t *pair = &pairs[shown];
    gp_table_row(&table, format(pair->before, was), format(pair->after, is),
        change_text(pair->before, pair->after, format, change), pair->name, NULL);
  }
  gp_table_print(&table);
  if (shown < count)
    fprintf(output->stream, "and %s with less difference; -n 0 shows all\n",
        gp_number_plural(count - shown, "other", was));
}

static void add_pairs(const gp_report_input_t *inputs, const pair_t *pairs, size_t count, cJSON *object)
{
  const own_t *own = inputs[0].own;
  uint64_t most = own->most == UINT64_MAX ? 0 : own->most;
  GP_JSON_DOCUMENT(diff);
  GP_PUT_UINT(object, "site_count", count, "how many sites differ, whatever `-n` says");
  cJSON *list = GP_PUT_LIST(object, "sites", diff_site,
      "those that differ, the largest difference first; by component also those that do not");
  GP_JSON_SHAPE(diff_site);
  for (size_t i = 0; i < count && (most == 0 || i < most); i++) {
    cJSON *item = gp_json_add_item(list);
    GP_PUT_TEXT(item, "name", pairs[i].name, "the function, line, module, size, component or phase");
    GP_PUT_UINT(item, "before", pairs[i].before,
        "bytes in the first file; with `--sort count` and `temporary` allocations");
    GP_PUT_UINT(item, "after", pairs[i].after, "in the second");
  }
}

/* Finds the sites of both snapshots, and the memory that belongs to no site. Returns 0 or an errno. */
static int make_sites(
    const gp_report_input_t *inputs, gp_site_by_t by, gp_sites_t *sites, gp_unsited_use_t *ret_unsited)
{
  int error = 0;
  for (int i = 0; !error && i < 2; i++) {
    gp_lifetimes_t lifetimes;
    gp_moments_t end;
    error = gp_lifetimes_init(&lifetimes, inputs[i].snapshot);
    gp_moments_end(&end, &lifetimes);
    if (!error)
      error = gp_sites_init(&sites[i], &lifetimes, inputs[i].filter, &end, by, NULL, NULL);
    if (!error)
      gp_unsited_use_find(&lifetimes, inputs[i].filter, &end, &sites[i].peak, &ret_unsited[i]);
    gp_lifetimes_fini(&lifetimes);
  }
  return error;
}

static int report(const gp_report_input_t *inputs, int count, gp_output_t *output, cJSON *object)
{
  const own_t *own = inputs[0].own;
  gp_sites_t sites[2] = {{0}, {0}};
  gp_unsited_use_t unsited[2];
  size_t pair_count = 0;

  int error = make_sites(inputs, (gp_site_by_t)own->by, sites, unsited);
  if (!error && sites[0].by != sites[1].by && sites[0].count && sites[1].count) {
    /* One snapshot has no stacks. Both have sizes, so compare by size. */
    gp_sites_fini(&sites[0]);
    gp_sites_fini(&sites[1]);
    error = make_sites(inputs, GP_SITE_BY_SIZE, sites, unsited);
  }
  gp_site_by_t by = sites[0].count ? sites[0].by : sites[1].by;
  bool has_unsited = own->by == GP_SITE_BY_COMPONENT;
  pair_t *pairs = error ? NULL : join(sites, has_unsited ? unsited : NULL, sort_of(own), &pair_count);
  if (!pairs) {
    gp_message("diff: %s", strerror(error ? error : ENOMEM));
  } else if (inputs[0].request->json) {
    GP_JSON_DOCUMENT(diff);
    GP_PUT_SHAPE(comparison, gp_report_json_files(object, inputs, count));
    GP_PUT_CHOICE(object, "by", "function|line|module|size|component|phase", by_names[by], "as of `sites`");
    GP_PUT_CHOICE(object, "sort", "live|peak|total|count|temporary", sorts[sort_of(own)].name,
        "as of `sites`: by default `peak`, by component `live`");
    for_devices(
        inputs, NULL, GP_PUT_LIST(object, "devices", diff_device, "each device that either file used"));
    add_pairs(inputs, pairs, pair_count, object);
  } else {
    for (int i = 0; i < count; i++)
      gp_report_heading(output, &inputs[i]);
    gp_relation_print(output, inputs, count);
    for_devices(inputs, output, NULL);
    print_pairs(inputs, pairs, pair_count, by, output);
    gp_report_next(output, "timeline", inputs[1].file, "");
  }
  bool failed = !pairs;
  free(pairs);
  gp_sites_fini(&sites[0]);
  gp_sites_fini(&sites[1]);
  return failed ? GP_EXIT_INPUT : GP_EXIT_DONE;
}

int gp_command_diff(int argc, char **argv)
{
  own_t own = {.sort = -1, .most = UINT64_MAX};
  return gp_report_run(&form, argc, argv, &own, GP_LIFETIMES_COLUMNS, false, report);
}
