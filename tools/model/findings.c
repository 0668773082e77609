/*
 * The order of all judges, and the judges that fit in no other file. A judge gives advice only if the figures
 * support it.
 */
#include "tools/model/findings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/size.h"
#include "tools/model/finding_judges.h"
#include "tools/model/oom_events.h"
#include "tools/model/owners.h"
#include "tools/model/remedies.h"
#include "tools/output.h"
#include "tools/symbols/symbols.h"

#define UNKNOWN_SHARE 0.9 /* of memory in use; if more has no stack, the known owners mean little */
#define UNEVEN_TIMES  2
#define UNEVEN_BYTES  (256 * GP_MIB)

/* Writes when the owners had the memory in use: " on device 1 then", " at its peak". Returns buffer. */
static char *owners_when(
    const gp_findings_t *findings, gp_site_measure_t measure, char *buffer, size_t capacity)
{
  const gp_summary_t *summary = findings->summary;
  char when[128];
  snprintf(when, sizeof(when), "%s",
      measure == GP_SITE_PEAK || summary->snapshot->lacks_history ? gp_findings_peak(findings)
                                                                  : "at the end");
  buffer[0] = '\0';
  if (summary->moments.kind == GP_MOMENT_NONE && summary->ooms.is_written_then)
    return buffer;
  if (summary->moments.kind == GP_MOMENT_OOM && summary->moments.is_of_one)
    snprintf(when, sizeof(when), "on device %d then", summary->moments.device);
  else if (summary->moments.kind != GP_MOMENT_NONE)
    gp_moments_describe(&summary->moments, &summary->lifetimes, when, sizeof(when));
  snprintf(buffer, capacity, " %s", when);
  return buffer;
}

/*
 * Reports the owners of the memory in use. The moment is the summary's, or when memory ran out or the program
 * ended abruptly, otherwise the peak. Without stacks there are no owners, and another finding reports the
 * sizes in use.
 */
void gp_findings_judge_owners(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const gp_sites_t *sites = &summary->sites;
  bool is_at = summary->moments.kind != GP_MOMENT_NONE;
  /* If memory ran out on another device, freeing memory on this one does not help. */
  bool is_here = summary->has_oom || summary->filter->device == GP_REQUEST_ALL_DEVICES;
  bool is_oom =
      summary->moments.kind == GP_MOMENT_OOM || (!is_at && summary->ooms.is_written_then && is_here);
  bool could_fit = !summary->has_oom || gp_oom_could_fit(&summary->oom);
  bool is_end = !is_at && (is_oom || summary->snapshot->lacks_history ||
                              strcmp(gp_findings_reason(findings), "recovered") == 0);
  gp_site_measure_t measure =
      is_at || (is_end && sites->sums[GP_SITE_LIVE].bytes) ? GP_SITE_LIVE : GP_SITE_PEAK;
  uint64_t sum = sites->sums[measure].bytes;
  char unknown[128] = "", size[GP_SIZE_TEXT_BYTES], percent[GP_NUMBER_BYTES];
  gp_sentence_t list = {.used = 0};
  gp_owners_t *owners = &findings->owners;
  gp_moments_t moments = summary->moments;
  char when[160], first[GP_OWNER_BYTES];

  if (sites->by == GP_SITE_BY_SIZE || !sum)
    return;
  if (measure == GP_SITE_PEAK)
    gp_moments_peak(&moments, &summary->lifetimes, summary->filter);
  if (gp_owners_init(owners, &summary->lifetimes, summary->filter, &moments, GP_OWNED_DEVICE))
    findings->out_of_memory = true;
  gp_findings_add_owners(&list, owners, sum, summary->snapshot);
  if (owners->unknown_bytes)
    snprintf(unknown, sizeof(unknown), " %s (%s) have no call stack, and of the rest",
        gp_size_format(owners->unknown_bytes, size),
        gp_number_percent((double)owners->unknown_bytes / (double)sum, percent));
  if (owners->count && (double)owners->unknown_bytes > UNKNOWN_SHARE * (double)sum) {
    gp_findings_say(findings, GP_FINDING(owners_unknown), GP_FINDING_ALL, gp_size_format(sum, size),
        owners_when(findings, measure, when, sizeof(when)),
        gp_number_percent((double)owners->unknown_bytes / (double)sum, percent));
  } else if (owners->count) {
    gp_finding_t *finding = gp_findings_say_as(findings,
        !is_oom                          ? GP_SEVERITY_NOTE
        : summary->oom.event.got_as_much ? GP_SEVERITY_WARNING
                                         : GP_SEVERITY_ERROR,
        GP_FINDING(owners), is_oom && moments.is_of_one ? moments.device : GP_FINDING_ALL,
        gp_size_format(sum, size), owners_when(findings, measure, when, sizeof(when)), unknown,
        owners->count > 1 ? "s are" : " is", list.text);
    bool is_code =
        strcmp(owners->owners[0].function ? owners->owners[0].function : "", GP_SNAPSHOT_BEFORE) != 0;
    if (is_oom && is_code && could_fit && owners->unknown_bytes <= owners->owners[0].bytes &&
        !gp_findings_blame_growth(findings, finding ? finding->device : GP_FINDING_ALL))
      gp_findings_advise(findings, finding, GP_ADVICE(owners), gp_findings_name_owner(owners, 0, first),
          gp_number_percent((double)owners->owners[0].bytes / (double)sum, percent));
  }
}

/* Reports that the lines of a script are missing because the recorded stacks have only C frames. If a
 * framework caches memory, even those lines would not show who owns all of it. */
void gp_findings_judge_script(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const gp_snapshot_t *snapshot = summary->snapshot;
  const char *language = NULL;
  gp_oom_asker_t asker;
  bool has_pytorch = false;

  if (summary->has_oom) {
    gp_oom_asker_find(snapshot, &summary->oom.event, &asker);
    language = asker.language;
  }
  for (size_t i = 0; i < findings->owners.count && !language; i++)
    language = findings->owners.owners[i].language;
  if (!language)
    return;
  for (size_t m = 0; m < snapshot->module_count; m++)
    has_pytorch |= strstr(snapshot->modules[m].path, "/libc10_cuda.so") != NULL;
  gp_finding_t *finding = gp_findings_say(findings, GP_FINDING(script), GP_FINDING_ALL, language,
      has_pytorch
          ? " Unless PyTorch's cache is off, an owner is the code that made that cache grow, not the code that uses it now."
          : "");
  if (has_pytorch)
    gp_findings_advise(findings, finding, GP_ADVICE(script));
}

/* Reports a large difference in memory use between devices. It may be intended. */
void gp_findings_judge_uneven(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const gp_summary_device_t *least = NULL, *most = NULL;

  for (size_t i = 0; i < summary->device_count; i++) {
    const gp_summary_device_t *device = &summary->devices[i];
    uint64_t used = device->device->stats.requested_bytes.peak;
    least = !least || used < least->device->stats.requested_bytes.peak ? device : least;
    most = !most || used > most->device->stats.requested_bytes.peak ? device : most;
  }
  if (!most || most->device->stats.requested_bytes.peak < UNEVEN_BYTES ||
      most->device->stats.requested_bytes.peak / UNEVEN_TIMES < least->device->stats.requested_bytes.peak)
    return;
  gp_findings_say(findings, GP_FINDING(uneven), GP_FINDING_ALL,
      GP_AS_SIZE(most->device->stats.requested_bytes.peak), most->device->device, gp_findings_peak(findings),
      GP_AS_SIZE(least->device->stats.requested_bytes.peak), least->device->device);
}

/* Reports that the recording was recovered after the program ended abruptly. The recording shows where the
 * program ended, but not why. */
void gp_findings_judge_end(gp_findings_t *findings)
{
  if (strcmp(gp_findings_reason(findings), "recovered") != 0)
    return;
  gp_finding_t *finding = gp_findings_say(
      findings, GP_FINDING(sudden_end), GP_FINDING_ALL, GP_AS_DURATION(findings->summary->until_ns));
  gp_findings_advise(findings, finding, GP_ADVICE(sudden_end));
}

void gp_findings_judge_modes(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  if (gp_summary_detail_count(summary, "mode", "dead"))
    gp_findings_say(findings, GP_FINDING(dead), GP_FINDING_ALL);
  if (gp_summary_detail_count(summary, "mode", "aside"))
    gp_findings_say(findings, GP_FINDING(aside), GP_FINDING_ALL);
  uint64_t lost = gp_summary_detail_count(summary, "free_requested", "context_lost");
  if (lost)
    gp_findings_say(findings, GP_FINDING(context_lost), GP_FINDING_ALL, GP_AS_PLURAL(lost, "allocation"));
}

/* Reports modules whose files are from another build. The finding concerns the report, not the program, so
 * has_shortcoming ignores it. */
void gp_findings_judge_names(gp_findings_t *findings)
{
  char text[512];
  if (gp_symbols_describe_rebuilt(findings->summary->snapshot, text, sizeof(text)))
    gp_findings_say(findings, GP_FINDING(rebuilt), GP_FINDING_ALL, text);
}

/* Returns true if a finding describes a problem: it has advice, or it reports memory that was not freed. */
static bool has_shortcoming(const gp_findings_t *findings)
{
  for (size_t i = 0; i < findings->count; i++) {
    if (findings->items[i].advice)
      return true;
  }
  return gp_findings_have(findings, GP_FINDING_live_at_exit) ||
         gp_findings_have(findings, GP_FINDING_passthrough_at_exit) ||
         gp_findings_have(findings, GP_FINDING_pinned_held) ||
         gp_findings_have(findings, GP_FINDING_context_lost);
}

/* Adds one sentence about the whole run, which comes first unless a finding is worse. Adds none if the
 * finding hit_rate reports a low rate, or if there are too few allocations to judge the rate. */
void gp_findings_judge_whole(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  uint64_t hits = 0, total = 0, allocations = 0;
  bool has_problem = findings->count > 0 && findings->items[0].severity >= GP_SEVERITY_WARNING;
  char percent[GP_NUMBER_BYTES];
  bool is_good = !has_problem && !has_shortcoming(findings);

  for (size_t i = 0; i < summary->device_count; i++) {
    allocations += summary->devices[i].device->stats.allocation.allocated;
    if (gp_stats_known(summary->snapshot, summary->devices[i].device, offsetof(gp_stats_t, cache_hits)) !=
        GP_KNOWN)
      continue;
    hits += summary->devices[i].device->stats.cache_hits;
    total += summary->devices[i].device->stats.cache_hits + summary->devices[i].device->stats.cache_misses;
  }
  if (!total && (allocations || gp_findings_have(findings, GP_FINDING_oom)))
    return; /* PyTorch's snapshot: allocations precede the events, and hits are unknown */
  if (!total) {
    gp_findings_say_as(
        findings, is_good ? GP_SEVERITY_GOOD : GP_SEVERITY_NOTE, GP_FINDING(nothing), GP_FINDING_ALL);
  } else if (strcmp(gp_findings_setting(findings, "type"), "unpooled") == 0) {
    gp_findings_say(findings, GP_FINDING(unpooled), GP_FINDING_ALL, GP_AS_PLURAL(total, "allocation"));
  } else if ((double)hits >= GP_GOOD_HIT_RATE * (double)total) {
    if (gp_findings_have(findings, GP_FINDING_hit_rate))
      return;
    gp_number_percent((double)hits / (double)total, percent);
    gp_findings_say_as(findings, is_good ? GP_SEVERITY_GOOD : GP_SEVERITY_NOTE, GP_FINDING(served),
        GP_FINDING_ALL,
        !is_good                                    ? ""
        : gp_snapshot_is_partial(summary->snapshot) ? "No problem found in what was recorded: "
                                                    : "No problem found: ",
        percent, GP_AS_PLURAL(total, "allocation"), total == 1 ? "was" : "were",
        summary->snapshot->lacks_counters ? "PyTorch's cache" : "the pool");
  } else if (is_good && !gp_findings_have(findings, GP_FINDING_hit_rate)) {
    gp_findings_say(findings, GP_FINDING(served_few), GP_FINDING_ALL, GP_AS_PLURAL(total, "allocation"));
  }
}

void gp_findings_judge_each_device(gp_findings_t *findings)
{
  for (size_t i = 0; i < findings->summary->device_count; i++) {
#define DEVICE_JUDGE(function) function(findings, &findings->summary->devices[i]);
#include "tools/model/findings.def"
  }
}

int gp_findings_init(
    gp_findings_t *findings, const gp_summary_t *summary, const gp_tried_types_t *tried, gp_trial_fn try)
{
  *findings = (gp_findings_t){.summary = summary, .tried = tried, .try = try};
#define JUDGE(function) function(findings);
#include "tools/model/findings.def"
  gp_remedies_settle(findings);
  /* Moves the good finding, if there is one, to the top. */
  size_t last = findings->count;
  gp_assert(
      last < 2 || findings->items[last - 2].severity > GP_SEVERITY_GOOD); /* at most one finding is good */
  if (last > 1 && findings->items[last - 1].severity == GP_SEVERITY_GOOD) {
    gp_finding_t good = findings->items[last - 1];
    memmove(&findings->items[1], &findings->items[0], (last - 1) * sizeof(good));
    findings->items[0] = good;
  }
  return findings->out_of_memory ? ENOMEM : 0;
}
