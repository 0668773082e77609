/*
 * gpupool sites: lists the code that allocates memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "tools/report/component_report.h"
#include "tools/report/report.h"
#include "tools/model/holding.h"
#include "tools/model/sites.h"
#include "tools/report/sites_ranks.h"
#include "tools/report/sites_tree.h"
#include "tools/table.h"
#include "tools/tool.h"

#define SHOWN_SITES 20
#define SORTS       "live|peak|total|count|temporary"

enum { SORT_LIVE, SORT_PEAK, SORT_TOTAL, SORT_COUNT, SORT_TEMPORARY };

typedef struct own {
  int sort; /* sort key; -1: default, which depends on the snapshot */
  int by;
  uint64_t most; /* most rows; 0: all */
  const char *focus;
  const char *ignore;
  bool tree;
  bool full;
  gp_sites_ranks_t *ranks; /* table of all files, if there are many */
} own_t;

/* The inputs of the report. */
typedef struct view {
  const gp_report_input_t *input;
  const gp_lifetimes_t *lifetimes;
  const gp_filter_t *filter;
  const gp_moments_t *moments; /* the moment that "live" refers to */
  const gp_sites_t *sites;
  int sort;
} view_t;

static const gp_parameter_t parameters[] = {
    {"sort", 0, NULL, GP_PARAMETER_CHOICE, offsetof(own_t, sort), SORTS, 0, 0,
        "live: allocated at the end, or at the moment of --at; peak: allocated when the devices together used most; total: everything ever requested; count: allocations; temporary: those freed before anything else was allocated on the device. Default: live with --at, or if memory ran out or the program was killed; else peak, as for many files"},
    {"by", 0, NULL, GP_PARAMETER_CHOICE, offsetof(own_t, by), "function|line|module|size|component|phase", 0,
        0,
        "what makes a site: function (default), line, module, the requested size, component (the program, its framework, NCCL, cuBLAS ...), or phase (the NVTX range or mark, gpupool run --nvtx). Without stacks it is the size"},
    {"top", 'n', "N", GP_PARAMETER_COUNT, offsetof(own_t, most), NULL, 0, 1000000000,
        "only the first N; 0: all (default: 20, with --json all)"},
    {"focus", 0, "REGEX", GP_PARAMETER_TEXT, offsetof(own_t, focus), NULL, 0, 0,
        "only stacks with a function, file or module that matches (extended regular expression)"},
    {"ignore", 0, "REGEX", GP_PARAMETER_TEXT, offsetof(own_t, ignore), NULL, 0, 0, "none of those"},
    {"tree", 0, NULL, GP_PARAMETER_FLAG, offsetof(own_t, tree), NULL, 0, 0,
        "a tree instead: each owner, and under it the functions that called it, as far as they have 1% of all"},
    {"full", 0, NULL, GP_PARAMETER_FLAG, offsetof(own_t, full), NULL, 0, 0,
        "each file by itself, however many there are"},
};

static int check(const gp_request_t *request, void *own)
{
  const own_t *options = own;
  (void)request;
  if (options->tree && options->by != GP_SITE_BY_FUNCTION)
    return gp_message_usage("sites", "sites: --tree shows owners: it cannot be combined with --by");
  return 0;
}

static const gp_request_form_t form = {
    .command = "sites",
    .files = "FILE...",
    .least_files = 1,
    .about = "Lists the code that requests device memory: each function alone (flat: its own\n"
             "requests) and with all that it calls (cum). Libraries that only pass memory on\n"
             "do not count as owners. Sizes are those requested, before rounding. Sums over\n"
             "devices are of one moment; of the moment when memory ran out (--at oom) only\n"
             "the device that ran out is shown, unless --device names another.\n"
             "Four files or more, such as the ranks of a job, become one table: the sum of\n"
             "each site, and which rank has the least and the most of it.\n",
    .takes_moment = true,
    .check = check,
    .parameters = parameters,
    .parameter_count = sizeof(parameters) / sizeof(parameters[0]),
};

static const struct {
  const char *name;
  gp_site_measure_t measure;
  bool by_count;
  const char *what;
} sorts[] = {
    [SORT_LIVE] = {"live", GP_SITE_LIVE, false, "allocated"},
    [SORT_PEAK] = {"peak", GP_SITE_PEAK, false, "allocated"},
    [SORT_TOTAL] = {"total", GP_SITE_TOTAL, false, "ever requested"},
    [SORT_COUNT] = {"count", GP_SITE_TOTAL, true, "allocations"},
    [SORT_TEMPORARY] = {"temporary", GP_SITE_TEMPORARY, true, "temporary allocations"},
};

static const char *const by_names[] = {"function", "line", "module", "size", "component", "phase"};

static int compile(const char *option, const char *text, regex_t *ret_regex, bool *ret_is_there)
{
  char wrong[256];
  *ret_is_there = false;
  if (!text)
    return 0;
  int error = regcomp(ret_regex, text, REG_EXTENDED | REG_NOSUB);
  if (error) {
    regerror(error, ret_regex, wrong, sizeof(wrong));
    return gp_message_usage("sites", "sites: --%s=%s is malformed: %s", option, text, wrong);
  }
  *ret_is_there = true;
  return 0;
}

static char *amount_text(const gp_site_amount_t *amount, bool by_count, char *buffer)
{
  return by_count ? gp_number_count(amount->count, buffer) : gp_size_format(amount->bytes, buffer);
}

static double share(const gp_site_amount_t *part, const gp_site_amount_t *whole, bool by_count)
{
  uint64_t of = by_count ? whole->count : whole->bytes;
  return of ? (double)(by_count ? part->count : part->bytes) / (double)of : 0;
}

/* Returns the peak in the statistics if it is higher than the peak of the events, because it was then before
 * the events. Otherwise returns 0. */
static uint64_t earlier_peak(const gp_snapshot_t *snapshot, const gp_site_peak_t *peak)
{
  for (size_t i = 0; snapshot->recorded_since_ns && i < snapshot->device_count; i++) {
    uint64_t bytes = snapshot->devices[i].stats.requested_bytes.peak;
    if (snapshot->devices[i].device == peak->device && bytes > peak->bytes)
      return bytes;
  }
  return 0;
}

/* Returns true if there are so many files that their sites go into one table. */
static bool is_together(const gp_report_input_t *input)
{
  const own_t *own = input->own;
  return input->request->file_count >= GP_REPORT_MANY && !input->request->json && !own->tree && !own->full;
}

static void print_peaks(const view_t *view, gp_output_t *output)
{
  const gp_snapshot_t *snapshot = view->input->snapshot;
  const gp_sites_t *sites = view->sites;
  gp_site_peak_t peaks[GP_SNAPSHOT_DEVICES];
  char when[GP_NUMBER_BYTES];
  if (snapshot->lacks_history) {
    fputs("The file has no history: peaks and totals are not known.\n", output->stream);
    return;
  }
  size_t count = gp_site_peaks(view->lifetimes, view->filter, peaks);
  for (size_t i = 0; i < count; i++) {
    uint64_t earlier = earlier_peak(snapshot, &peaks[i]);
    if (!peaks[i].bytes)
      continue;
    if (!peaks[i].is_before)
      gp_snapshot_moment(snapshot, peaks[i].time_ns, when);
    gp_sentence_t text = {.used = 0};
    gp_sentence_add(&text, "Device %d used most, %s, %s%s", peaks[i].device, GP_AS_SIZE(peaks[i].bytes),
        !peaks[i].is_before           ? "at "
        : snapshot->events.count == 0 ? "at the end, as far as is known without events"
                                      : "before the first event",
        peaks[i].is_before ? "" : when);
    if (earlier)
      gp_sentence_add(&text,
          "; its peak of %s was before the first recorded event, and its owners are unknown",
          GP_AS_SIZE(earlier));
    gp_output_say(output, "", "%s.", text.text);
  }
  if (count < 2 || sorts[view->sort].measure != GP_SITE_PEAK)
    return;
  if (!sites->peak.is_of_one)
    gp_output_say(
        output, "", "Sums over devices are of one moment: the peak is when they used most together.");
  else
    gp_output_say(
        output, "", "The events have no times, so what one device used at the peak of another is unknown.");
}

/* Returns the measure whose count is next to the bytes: blocks for memory in use, calls for other sorts. */
static gp_site_measure_t counted(int sort)
{
  return sort == SORT_LIVE || sort == SORT_PEAK ? sorts[sort].measure : GP_SITE_TOTAL;
}

/* Formats how many blocks a site has freed. Writes "none" if the site has blocks in use and is known to have
 * freed none. Writes "-" if the number is unknown or there are no blocks. */
static char *freed_text(const gp_site_amount_t *flat, bool knows_frees, char *buffer)
{
  if (flat->freed || !flat->count || !knows_frees)
    return flat->freed ? gp_number_count(flat->freed, buffer) : strcpy(buffer, "-");
  return strcpy(buffer, "none");
}

static void add_site(
    const gp_sites_t *sites, const gp_site_t *site, int sort, bool knows_frees, gp_table_t *table)
{
  gp_site_measure_t measure = sorts[sort].measure;
  bool by_count = sorts[sort].by_count;
  const gp_site_amount_t *flat = &site->flat[measure], *cumulative = &site->cumulative[measure];
  const gp_site_amount_t *sum = &sites->sums[measure];
  char flat_text[GP_NUMBER_BYTES], cumulative_text[GP_NUMBER_BYTES], freed[GP_NUMBER_BYTES];
  const char *count = GP_AS_COUNT(site->flat[counted(sort)].count);
  bool is_size = sites->by == GP_SITE_BY_SIZE, is_total = counted(sort) == GP_SITE_TOTAL;

  amount_text(flat, by_count, flat_text);
  amount_text(cumulative, by_count, cumulative_text);
  freed_text(flat, knows_frees, freed);
  /* Leaves cells empty in columns that have no heading. */
  gp_table_row(table, flat_text, GP_AS_PERCENT(share(flat, sum, by_count)), is_size ? "" : cumulative_text,
      is_size ? "" : GP_AS_PERCENT(share(cumulative, sum, by_count)), count, is_total ? "" : freed,
      site->name, NULL);
}

/* Prints a heading such as "allocated at the peak (1.5 s, event 120), by function: 3 GiB in all". */
static void print_heading(const view_t *view, gp_output_t *output)
{
  char when[128] = "", sum[GP_NUMBER_BYTES], text[256];
  const gp_sites_t *sites = view->sites;
  gp_site_measure_t measure = sorts[view->sort].measure;
  bool is_tree = ((const own_t *)view->input->own)->tree && sites->stacks;

  if (measure == GP_SITE_LIVE || measure == GP_SITE_PEAK)
    gp_moments_describe(
        measure == GP_SITE_LIVE ? view->moments : &sites->peak, view->lifetimes, when, sizeof(when));
  snprintf(text, sizeof(text), "%s%s%s, by %s: %s in all", sorts[view->sort].what, when[0] ? " " : "", when,
      is_tree ? "owner and callers" : by_names[sites->by],
      amount_text(&sites->sums[measure], sorts[view->sort].by_count, sum));
  fprintf(output->stream, "\n%s", gp_output_style(output, GP_STYLE_HEADING));
  gp_output_wrap(output->stream, "", "", text);
  fputs(gp_output_style(output, GP_STYLE_PLAIN), output->stream);
}

static void print_tree_heading(const view_t *view, gp_output_t *output)
{
  gp_report_heading(output, view->input);
  print_peaks(view, output);
  print_heading(view, output);
}

static void print_text(const view_t *view, uint64_t most, gp_output_t *output)
{
  const gp_report_input_t *input = view->input;
  const gp_sites_t *sites = view->sites;
  int sort = view->sort;
  size_t shown = 0, there = 0;
  bool is_size = sites->by == GP_SITE_BY_SIZE;
  gp_table_t table = {.output = output, .indent = "", .format = input->request->wide ? "rrrrrrw" : "rrrrrrn"};

  gp_report_heading(output, input);
  print_peaks(view, output);
  if (!sites->count) {
    fprintf(output->stream, "Nothing of what was selected asked for device memory.\n");
    return;
  }
  if (is_size && ((const own_t *)input->own)->by != GP_SITE_BY_SIZE)
    fprintf(output->stream, "No stacks were recorded, so the sites are requested sizes.\n");
  print_heading(view, output);
  bool is_total = counted(sort) == GP_SITE_TOTAL;
  gp_table_row(&table, "flat", "flat%", is_size ? "" : "cum", is_size ? "" : "cum%",
      is_total ? "calls" : "blocks", is_total ? "" : "freed", by_names[sites->by], NULL);
  for (size_t i = 0; i < sites->count; i++) { /* sites without memory come last, so stop there */
    const gp_site_amount_t *cumulative = &sites->sites[i].cumulative[sorts[sort].measure];
    there += (sorts[sort].by_count ? cumulative->count : cumulative->bytes) > 0;
  }
  for (; shown < there && (most == 0 || shown < most); shown++)
    add_site(sites, &sites->sites[shown], sort, gp_holding_knows_frees(input->snapshot), &table);
  gp_table_print(&table);
  if (shown < there)
    fprintf(output->stream, "and %s; -n 0 shows all\n", GP_AS_PLURAL(there - shown, "other"));
  if (sites->lacks_lines) {
    fputc('\n', output->stream);
    gp_output_say(output, "",
        "Code compiled without -g has no line numbers: its functions are followed by offsets in their file.");
  }
}

static void print_next(const view_t *view, gp_output_t *output)
{
  char options[64] = "";
  if (view->moments->kind != GP_MOMENT_NONE)
    snprintf(options, sizeof(options), "--at %s", view->input->request->at.text);
  gp_report_next(output, view->sort == SORT_LIVE ? "timeline" : "leaks", view->input->file,
      view->sort == SORT_LIVE ? options : "");
}

static void add_amount(cJSON *object, const char *name, bool is_known, const gp_site_amount_t *amount)
{
  if (is_known)
    gp_json_add_amount(object, name, amount->bytes, amount->count);
  else
    cJSON_AddNullToObject(object, name);
}

static void add_held(cJSON *object, const char *name, const view_t *view, bool is_known,
    gp_site_measure_t measure, const gp_site_amount_t *amounts)
{
  cJSON *item = gp_json_add_object_or_null(object, name, is_known);
  if (!item)
    return;
  GP_JSON_SHAPE(held);
  GP_PUT_UINT(item, "bytes", amounts[measure].bytes, "bytes requested");
  GP_PUT_UINT(item, "count", amounts[measure].count, "in how many blocks");
  GP_PUT_UINT_OR_NULL(item, "freed", gp_holding_knows_frees(view->input->snapshot), amounts[measure].freed,
      "how many other blocks were freed; null: frees are not recorded");
}

/* Adds the amounts of all measures. If the snapshot has no history, only the memory in use when it was
 * written is known. */
static void add_amounts(cJSON *object, const char *name, const view_t *view, const gp_site_amount_t *amounts)
{
  cJSON *item = cJSON_AddObjectToObject(object, name);
  bool has_history = !view->input->snapshot->lacks_history;
  GP_JSON_SHAPE(measures);
  GP_PUT_BY(add_held, item, "live", held, "allocated at the end, or at the moment of `--at`", view, true,
      GP_SITE_LIVE, amounts);
  GP_PUT_BY(add_held, item, "peak", held_or_null,
      "allocated when the devices together had most; `peak`, `total` and `temporary` are null if the file has no events",
      view, has_history, GP_SITE_PEAK, amounts);
  GP_PUT_BY(
      add_amount, item, "total", amount_or_null, "all allocations", has_history, &amounts[GP_SITE_TOTAL]);
  GP_PUT_BY(add_amount, item, "temporary", amount_or_null,
      "those freed before anything else was allocated on the device, as heaptrack counts them", has_history,
      &amounts[GP_SITE_TEMPORARY]);
}

static void add_peak(cJSON *object, const char *name, const view_t *view, bool has_peak)
{
  if (has_peak)
    gp_json_add_moment(object, name, &view->sites->peak, view->lifetimes);
  else
    cJSON_AddNullToObject(object, name);
}

static void add_json(const view_t *view, uint64_t most, cJSON *object)
{
  const gp_sites_t *sites = view->sites;
  gp_site_peak_t peaks[GP_SNAPSHOT_DEVICES];
  bool has_peak = !view->input->snapshot->lacks_history;
  size_t count = has_peak ? gp_site_peaks(view->lifetimes, view->filter, peaks) : 0;

  GP_JSON_SHAPE(sites_snapshot);
  GP_PUT_SHAPE(snapshot, gp_report_json_file(object, view->input->file, view->input->snapshot));
  GP_PUT_CHOICE(object, "by", "function|line|module|size|component|phase", by_names[sites->by],
      "what makes a site; `size` without stacks, unless it was `component` or `phase`");
  GP_PUT_CHOICE(object, "sort", "live|peak|total|count|temporary", sorts[view->sort].name, "`--sort`");
  GP_PUT_BY(gp_json_add_moment, object, "at", moment, "the moment of `live`: that of `--at`, else the end",
      view->moments, view->lifetimes);
  GP_PUT_BY(add_peak, object, "peak", moment_or_null, "the moment of `peak`; null: the file has no events",
      view, has_peak);
  cJSON *of_devices = GP_PUT_LIST(object, "peaks", site_peak,
      "when most bytes of the selection were allocated, device by device, among the recorded events");
  GP_PUT_BY(add_amounts, object, "sum", measures, "of all sites", view, sites->sums);
  GP_PUT_UINT(object, "site_count", sites->count, "how many sites there are, whatever `-n` says");
  cJSON *list = GP_PUT_LIST(object, "sites", site, "the largest first");
  for (size_t i = 0; i < count; i++) {
    cJSON *peak = gp_json_add_item(of_devices);
    GP_JSON_SHAPE(site_peak);
    GP_PUT_DEVICE(peak, "device", peaks[i].device, "ordinal of the device");
    GP_PUT_UINT(peak, "time_ns", peaks[i].time_ns, "when");
    GP_PUT_UINT(peak, "bytes", peaks[i].bytes, "how many bytes");
  }
  for (size_t i = 0; i < sites->count && (most == 0 || i < most); i++) {
    cJSON *item = gp_json_add_item(list);
    GP_JSON_SHAPE(site);
    GP_PUT_TEXT(item, "name", sites->sites[i].name, "the function, line, module, size, component or phase");
    GP_PUT_BY(add_amounts, item, "flat", measures, "allocated by it, as owner", view, sites->sites[i].flat);
    GP_PUT_BY(add_amounts, item, "cumulative", measures, "allocated by it and by what it calls", view,
        sites->sites[i].cumulative);
  }
}

static int default_sort(const gp_report_input_t *input)
{
  const char *reason = gp_snapshot_text(input->snapshot->root, "reason");
  bool is_live = input->request->at.kind != GP_MOMENT_NONE ||
                 (!is_together(input) && (strcmp(reason, "oom") == 0 || strcmp(reason, "recovered") == 0));
  return is_live ? SORT_LIVE : SORT_PEAK;
}

static int show(const view_t *view, gp_output_t *output, cJSON *object)
{
  const gp_report_input_t *input = view->input;
  const own_t *own = input->own;
  const gp_sites_t *sites = view->sites;
  int sort = view->sort;
  gp_site_measure_t measure = sorts[sort].measure;
  bool is_default = own->most == UINT64_MAX, has_unsited = sites->by == GP_SITE_BY_COMPONENT;
  gp_caller_t *owners = NULL;
  int error = own->tree ? gp_callers_make(sites, input->snapshot, measure, sorts[sort].by_count, &owners) : 0;

  if (input->request->json)
    add_json(view, is_default ? 0 : own->most, object);
  else if (own->tree && sites->stacks)
    print_tree_heading(view, output);
  else
    print_text(view, is_default ? SHOWN_SITES : own->most, output);
  if (own->tree && input->request->json)
    gp_sites_tree_json(owners, object);
  else if (own->tree && sites->stacks)
    gp_sites_tree_print(input, owners, &sites->sums[measure], sorts[sort].by_count,
        is_default ? SHOWN_SITES : own->most, output);
  if (has_unsited && input->request->json)
    gp_unsited_json(view->lifetimes, view->filter, view->moments, &sites->peak, object);
  else if (has_unsited && (sort == SORT_LIVE || sort == SORT_PEAK))
    gp_unsited_print(view->lifetimes, view->filter, view->moments, &sites->peak, sort == SORT_PEAK, output);
  if (!input->request->json)
    print_next(view, output);
  gp_callers_destroy(owners);
  return error;
}

static int add_to_ranks(const view_t *view)
{
  const own_t *own = view->input->own;
  const char *at = view->input->request->at.text;

  if (!own->ranks->file_count) {
    own->ranks->measure = sorts[view->sort].measure;
    own->ranks->by_count = sorts[view->sort].by_count;
    own->ranks->by = by_names[view->sites->by];
    own->ranks->wide = view->input->request->wide;
    (void)snprintf(own->ranks->heading, sizeof(own->ranks->heading), "%s%s%s, by %s", sorts[view->sort].what,
        view->sort == SORT_PEAK   ? " at each one's peak"
        : view->sort != SORT_LIVE ? ""
        : at                      ? " at "
                                  : " at the end",
        view->sort == SORT_LIVE && at ? at : "", own->ranks->by);
  }
  return gp_sites_ranks_add(own->ranks, view->sites, view->input);
}

static int report_sites(const gp_report_input_t *input, const regex_t *focus, const regex_t *ignore,
    gp_output_t *output, cJSON *object)
{
  const own_t *own = input->own;
  int sort = own->sort >= 0 ? own->sort : default_sort(input), status = 0;
  gp_filter_t filter = *input->filter;
  gp_lifetimes_t lifetimes;
  gp_moments_t moments;
  gp_sites_t sites = {0};
  const view_t view = {input, &lifetimes, &filter, &moments, &sites, sort};

  int error = gp_lifetimes_init(&lifetimes, input->snapshot);
  if (!error)
    status = gp_moments_find(&moments, &lifetimes, &filter, input->request, input->file);
  if (!error && !status) {
    filter.device = gp_moments_device(&moments, &filter);
    error = gp_sites_init(&sites, &lifetimes, &filter, &moments, (gp_site_by_t)own->by, focus, ignore);
  }
  if (!error && !status) {
    gp_sites_sort(&sites, sorts[sort].measure, sorts[sort].by_count);
    error = is_together(input) ? add_to_ranks(&view) : show(&view, output, object);
  }
  gp_sites_fini(&sites);
  gp_lifetimes_fini(&lifetimes);
  if (error)
    gp_message("%s: %s", input->file, strerror(error));
  return error ? GP_EXIT_INPUT : status;
}

static int report(const gp_report_input_t *inputs, int count, gp_output_t *output, cJSON *object)
{
  const own_t *own = inputs[0].own;
  regex_t focus, ignore;
  bool has_focus, has_ignore = false;
  (void)count;

  int status = compile("focus", own->focus, &focus, &has_focus);
  if (!status)
    status = compile("ignore", own->ignore, &ignore, &has_ignore);
  if (!status)
    status = report_sites(&inputs[0], has_focus ? &focus : NULL, has_ignore ? &ignore : NULL, output, object);
  if (has_focus)
    regfree(&focus);
  if (has_ignore)
    regfree(&ignore);
  return status;
}

static void end(void *arg, gp_output_t *output)
{
  const own_t *own = arg;
  if (own->ranks->file_count)
    gp_sites_ranks_print(own->ranks, own->most == UINT64_MAX ? SHOWN_SITES : own->most, output);
}

int gp_command_sites(int argc, char **argv)
{
  gp_sites_ranks_t ranks = {.count = 0};
  own_t own = {.sort = -1, .most = UINT64_MAX, .ranks = &ranks};

  int status = gp_report_run_each(&form, argc, argv, &own, GP_LIFETIMES_COLUMNS, report, NULL, end);
  gp_sites_ranks_fini(&ranks);
  return status;
}
