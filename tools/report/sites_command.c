/*
 * gpupool sites: who asks for memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pool/util/size.h"
#include "tools/report/report.h"
#include "tools/model/sites.h"
#include "tools/tool.h"

#define SHOWN_SITES 20
#define SORTS       "live|peak|total|count|temporary"

enum { SORT_LIVE, SORT_PEAK, SORT_TOTAL, SORT_COUNT, SORT_TEMPORARY };

typedef struct own {
  int sort; /* -1: by what the snapshot is of */
  int by;
  uint64_t most; /* 0: all */
  const char *focus;
  const char *ignore;
} own_t;

static const gp_parameter_t parameters[] = {
    {"sort", 0, NULL, GP_PARAMETER_CHOICE, offsetof(own_t, sort), SORTS, 0, 0,
        "live: what is held at the end; peak: what was held when the device held most; total: all that was "
        "ever asked for; count: allocations; temporary: those freed before anything else was allocated on "
        "the device. Default: live if memory had run out or the program came to no end, else peak"},
    {"by", 0, NULL, GP_PARAMETER_CHOICE, offsetof(own_t, by), "function|line|module|size", 0, 0,
        "what makes a site: function (default), line, module, or the size asked for. Without stacks it is "
        "the size"},
    {"top", 'n', "N", GP_PARAMETER_COUNT, offsetof(own_t, most), NULL, 0, 1000000000,
        "only the first N; 0: all (default: 20, with --json all)"},
    {"focus", 0, "REGEX", GP_PARAMETER_TEXT, offsetof(own_t, focus), NULL, 0, 0,
        "only stacks with a function, file or module that matches (extended regular expression)"},
    {"ignore", 0, "REGEX", GP_PARAMETER_TEXT, offsetof(own_t, ignore), NULL, 0, 0, "none of those"},
};

static const gp_request_form_t form = {
    .command = "sites",
    .files = "FILE...",
    .least_files = 1,
    .about = "Says who asks for device memory: each function alone (flat: it asked itself) and\n"
             "with all that it calls (cum). Libraries that only hand memory on are not\n"
             "counted as askers. Sizes are those asked for, before rounding.\n",
    .parameters = parameters,
    .parameter_count = sizeof(parameters) / sizeof(parameters[0]),
};

void gp_command_sites_help(void)
{
  gp_request_help(&form);
}

static const struct {
  const char *name;
  gp_site_measure_t measure;
  bool by_count;
  const char *what;
} sorts[] = {
    [SORT_LIVE] = {"live", GP_SITE_LIVE, false, "held at the end"},
    [SORT_PEAK] = {"peak", GP_SITE_PEAK, false, "held at the peak"},
    [SORT_TOTAL] = {"total", GP_SITE_TOTAL, false, "ever asked for"},
    [SORT_COUNT] = {"count", GP_SITE_TOTAL, true, "allocations"},
    [SORT_TEMPORARY] = {"temporary", GP_SITE_TEMPORARY, true, "temporary allocations"},
};

static const char *const by_names[] = {"function", "line", "module", "size"};
static const char *const measure_names[] = {"live", "peak", "total", "temporary"};

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

/* The peak that the statistics know of, if it was before the events. */
static uint64_t earlier_peak(const gp_snapshot_t *snapshot, const gp_site_peak_t *peak)
{
  for (size_t i = 0; snapshot->recorded_since_ns && i < snapshot->device_count; i++) {
    uint64_t bytes = snapshot->devices[i].stats.requested_bytes.peak;
    if (snapshot->devices[i].device == peak->device && bytes > peak->bytes)
      return bytes;
  }
  return 0;
}

static void print_peaks(const gp_snapshot_t *snapshot, const gp_sites_t *sites, gp_output_t *output)
{
  char bytes[GP_SIZE_TEXT_BYTES], when[GP_NUMBER_BYTES], text[256];
  for (size_t i = 0; i < sites->peak_count; i++) {
    uint64_t earlier = earlier_peak(snapshot, &sites->peaks[i]);
    int used = snprintf(text, sizeof(text), "Device %d held most, %s, at %s", sites->peaks[i].device,
        gp_size_format(sites->peaks[i].bytes, bytes), gp_number_duration(sites->peaks[i].time_ns, when));
    if (earlier)
      snprintf(text + used, sizeof(text) - (size_t)used,
          "; its peak of %s was before the recorded events, and whose it was is not known.",
          gp_size_format(earlier, bytes));
    else
      snprintf(text + used, sizeof(text) - (size_t)used, ".");
    gp_output_wrap(output->stream, "", "", text);
  }
}

static void print_site(
    const gp_sites_t *sites, const gp_site_t *site, int sort, bool wide, gp_output_t *output)
{
  gp_site_measure_t measure = sorts[sort].measure;
  bool by_count = sorts[sort].by_count;
  const gp_site_amount_t *flat = &site->flat[measure], *cumulative = &site->cumulative[measure];
  const gp_site_amount_t *sum = &sites->sums[measure];
  char bytes[GP_NUMBER_BYTES], percent[GP_NUMBER_BYTES], name[1024];
  size_t left = output->columns > 58 ? output->columns - 49 : 9;

  fprintf(output->stream, "%10s %6s", amount_text(flat, by_count, bytes),
      gp_number_percent(share(flat, sum, by_count), percent));
  if (sites->by != GP_SITE_BY_SIZE)
    fprintf(output->stream, " %10s %6s", amount_text(cumulative, by_count, bytes),
        gp_number_percent(share(cumulative, sum, by_count), percent));
  fprintf(output->stream, " %9s", gp_number_count(site->flat[GP_SITE_TOTAL].count, bytes));
  fprintf(output->stream, "  %s\n",
      wide ? gp_printable(site->name, name, sizeof(name))
           : gp_text_shorten(site->name, left, name, sizeof(name)));
}

static void print_text(
    const gp_report_input_t *input, const gp_sites_t *sites, int sort, uint64_t most, gp_output_t *output)
{
  char rest[GP_NUMBER_BYTES], sum[GP_NUMBER_BYTES];
  size_t shown = 0, there = 0;
  bool is_size = sites->by == GP_SITE_BY_SIZE;

  gp_report_heading(output, input);
  print_peaks(input->snapshot, sites, output);
  if (!sites->count) {
    fprintf(output->stream, "Nothing of what was selected asked for device memory.\n");
    return;
  }
  if (is_size && ((const own_t *)input->own)->by != GP_SITE_BY_SIZE)
    fprintf(output->stream, "No stacks were recorded, so the sites are the sizes asked for.\n");
  fprintf(output->stream, "\n%s%s, by %s: %s in all%s\n", gp_output_style(output, GP_STYLE_HEADING),
      sorts[sort].what, by_names[sites->by],
      amount_text(&sites->sums[sorts[sort].measure], sorts[sort].by_count, sum),
      gp_output_style(output, GP_STYLE_PLAIN));
  fprintf(output->stream, "%10s %6s", "flat", "flat%");
  if (!is_size)
    fprintf(output->stream, " %10s %6s", "cum", "cum%");
  fprintf(output->stream, " %9s  %s\n", "calls", by_names[sites->by]);
  for (size_t i = 0; i < sites->count; i++) { /* those with nothing come last */
    const gp_site_amount_t *cumulative = &sites->sites[i].cumulative[sorts[sort].measure];
    there += (sorts[sort].by_count ? cumulative->count : cumulative->bytes) > 0;
  }
  for (; shown < there && (most == 0 || shown < most); shown++)
    print_site(sites, &sites->sites[shown], sort, input->request->wide, output);
  if (shown < there)
    fprintf(
        output->stream, "and %s with less; -n 0 shows all\n", gp_number_plural(there - shown, "other", rest));
}

static void add_amounts(cJSON *object, const char *name, const gp_site_amount_t *amounts)
{
  cJSON *item = cJSON_AddObjectToObject(object, name);
  for (int measure = 0; measure < GP_SITE_MEASURES; measure++) {
    cJSON *amount = cJSON_AddObjectToObject(item, measure_names[measure]);
    gp_json_add_uint(amount, "bytes", amounts[measure].bytes);
    gp_json_add_uint(amount, "count", amounts[measure].count);
  }
}

static void add_json(
    const gp_report_input_t *input, const gp_sites_t *sites, int sort, uint64_t most, cJSON *object)
{
  cJSON_AddStringToObject(object, "file", input->file);
  cJSON_AddStringToObject(object, "by", by_names[sites->by]);
  cJSON_AddStringToObject(object, "sort", sorts[sort].name);
  cJSON *peaks = cJSON_AddArrayToObject(object, "peaks");
  for (size_t i = 0; i < sites->peak_count; i++) {
    cJSON *peak = cJSON_CreateObject();
    gp_json_add_int(peak, "device", sites->peaks[i].device);
    gp_json_add_uint(peak, "time_ns", sites->peaks[i].time_ns);
    gp_json_add_uint(peak, "bytes", sites->peaks[i].bytes);
    cJSON_AddItemToArray(peaks, peak);
  }
  add_amounts(object, "sum", sites->sums);
  gp_json_add_uint(object, "site_count", sites->count);
  cJSON *list = cJSON_AddArrayToObject(object, "sites");
  for (size_t i = 0; i < sites->count && (most == 0 || i < most); i++) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "name", sites->sites[i].name);
    add_amounts(item, "flat", sites->sites[i].flat);
    add_amounts(item, "cumulative", sites->sites[i].cumulative);
    cJSON_AddItemToArray(list, item);
  }
}

static int report_sites(const gp_report_input_t *input, const regex_t *focus, const regex_t *ignore,
    gp_output_t *output, cJSON *object)
{
  const own_t *own = input->own;
  const char *reason = gp_snapshot_text(input->snapshot->root, "reason");
  int sort = own->sort >= 0                                                   ? own->sort
             : strcmp(reason, "oom") == 0 || strcmp(reason, "recovered") == 0 ? SORT_LIVE
                                                                              : SORT_PEAK;
  bool is_default = own->most == UINT64_MAX;
  gp_lifetimes_t lifetimes;
  gp_sites_t sites = {0};

  int error = gp_lifetimes_init(&lifetimes, input->snapshot);
  if (!error)
    error = gp_sites_init(&sites, &lifetimes, input->filter, (gp_site_by_t)own->by, focus, ignore);
  if (!error) {
    gp_sites_sort(&sites, sorts[sort].measure, sorts[sort].by_count);
    if (input->request->json)
      add_json(input, &sites, sort, is_default ? 0 : own->most, object);
    else
      print_text(input, &sites, sort, is_default ? SHOWN_SITES : own->most, output);
    if (!input->request->json)
      gp_report_next(output, sort == SORT_LIVE ? "timeline" : "leaks", input->file, "");
  }
  gp_sites_fini(&sites);
  gp_lifetimes_fini(&lifetimes);
  if (error)
    gp_message("%s: %s", input->file, strerror(error));
  return error ? GP_EXIT_INPUT : GP_EXIT_DONE;
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

int gp_command_sites(int argc, char **argv)
{
  own_t own = {.sort = -1, .most = UINT64_MAX};
  return gp_report_run(&form, argc, argv, &own, GP_LIFETIMES_COLUMNS, true, report);
}
