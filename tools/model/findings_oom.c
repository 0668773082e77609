#include "tools/model/finding_judges.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "tools/model/oom_events.h"
#include "tools/saturated.h"
#include "tools/output.h"
#include "tools/shorten.h"

#define NS_PER_MS UINT64_C(1000000)

static void add_size(gp_sentence_t *text, const char *before, uint64_t bytes, const char *after)
{
  gp_sentence_add(text, "%s%s%s", before, GP_AS_SIZE(bytes), after);
}

static void add_time(gp_sentence_t *text, const char *before, uint64_t ns, const char *after)
{
  gp_sentence_add(text, "%s%s%s", before, GP_AS_DURATION(ns), after);
}

/* Adds the sizes of the blocks in use. Without stacks, only the sizes suggest whose memory it was. */
static void add_sizes(gp_sentence_t *text, const gp_oom_moment_t *oom)
{
  for (int i = 0; i < GP_OOM_OWNERS && oom->figures.owners[i].count; i++) {
    gp_sentence_add(text, "%s%s x ",
        i ? ", " : " Most of the allocated memory: ", GP_AS_COUNT(oom->figures.owners[i].count));
    add_size(text, "", oom->figures.owners[i].size, "");
  }
  gp_sentence_add(text, oom->figures.owners[0].count ? "." : "");
}

#define NAME_COLUMNS 120
#define NAME_BYTES   384

/* Adds the line that made the failed request, and the function that called it. */
static void add_asker(gp_sentence_t *text, const gp_summary_t *summary)
{
  gp_oom_asker_t asker;
  char name[NAME_BYTES];

  gp_oom_asker_find(summary->snapshot, &summary->oom.event, &asker);
  if (asker.by[0])
    gp_sentence_add(text, " in %s", gp_text_shorten(asker.by, NAME_COLUMNS, name, sizeof(name)));
  if (asker.from[0])
    gp_sentence_add(text, ", from %s", gp_text_shorten(asker.from, NAME_COLUMNS, name, sizeof(name)));
  gp_sentence_add(text, asker.by[0] ? "," : "");
}

static void add_amounts(gp_sentence_t *text, const gp_oom_moment_t *oom)
{
  char requested[GP_SIZE_TEXT_BYTES];

  add_size(text, " and had ", oom->figures.live, " allocated");
  if (oom->live_requested &&
      strcmp(GP_AS_SIZE(oom->figures.live), gp_size_format(oom->live_requested, requested)) != 0)
    gp_sentence_add(text, " (%s before rounding)", requested);
  if (oom->figures.passthrough)
    add_size(text, " and ", oom->figures.passthrough, " forwarded");
  if (oom->figures.deferred)
    add_size(text, "; ", oom->figures.deferred, " were freed but may still be in use");
  if (oom->knows_cached)
    add_size(text, "; ", oom->figures.cached, " were cached");
  else
    gp_sentence_add(text, "; the amount cached is unknown");
  if (oom->figures.in_pieces)
    add_size(text, ", ", oom->figures.in_pieces, " of that in segments partly in use");
  if (oom->usable < oom->event.requested && oom->event.requested <= oom->figures.cached)
    add_size(text, ", ", oom->usable,
        " of that where PyTorch looks for such a request: same stream, pool and size class");
  if (oom->figures.largest_free && oom->figures.cached)
    add_size(text, ", the largest idle block ", oom->figures.largest_free,
        oom->figures.largest_free < oom->event.requested ? ", too small" : "");
  if (oom->figures.limit)
    add_size(text, "; the limit is ", oom->figures.limit, "");
  if (oom->knows_free)
    add_size(text, "; ", oom->figures.device_free,
        oom->figures.device_total ? " of the device's " : " of the device were free");
  if (oom->knows_free && oom->figures.device_total)
    add_size(text, "", oom->figures.device_total, " were free");
  gp_sentence_add(text, ".");
}

/* Adds the amount of memory that pending work blocked. Such work keeps freed memory from being reused, and
 * idle memory from being released to the driver. */
static void add_busy(gp_sentence_t *text, const gp_oom_moment_t *oom)
{
  if (oom->figures.busy_context) {
    gp_sentence_add(
        text, " The device was busy: work submitted to context %" PRIu64, oom->figures.busy_context);
    if (oom->figures.busy_ns >= NS_PER_MS)
      add_time(text, " at least ", oom->figures.busy_ns, " before");
    gp_sentence_add(text, " had not completed; until it does, freed memory stays in use%s",
        oom->figures.cached > oom->figures.in_pieces ? " and cached memory cannot be released" : "");
    gp_sentence_add(text, oom->figures.waited_ns >= NS_PER_MS ? "" : "; the allocation did not wait");
    gp_sentence_add(text, ".");
  }
  if (oom->figures.waited_ns >= NS_PER_MS)
    add_time(text, " The allocation waited ", oom->figures.waited_ns, " for the device.");
}

/* Adds what happened after the failed request, if the snapshot was written later. */
static void add_sequel(gp_sentence_t *text, const gp_findings_t *findings, const gp_oom_moment_t *oom)
{
  const gp_lifetimes_t *lifetimes = &findings->summary->lifetimes;
  gp_moments_t end;
  gp_memory_t memory;

  if (oom->event.got_as_much)
    gp_sentence_add(text, " The program survived: it later got as much on that device.");
  else if (oom->event.allocated_later)
    gp_sentence_add(text, " The program went on: it later got smaller blocks on that device.");
  else if (oom->event.has_moment && oom->event.moment < lifetimes->end) {
    gp_moments_end(&end, lifetimes);
    gp_moments_memory(&end, lifetimes, NULL, oom->event.device, &memory);
    add_size(text, " It got nothing more on that device, and had ",
        gp_add_saturated(memory.allocated, memory.forwarded), " allocated there at the end.");
  }
}

static void add_others(gp_sentence_t *text, const gp_findings_t *findings, const gp_oom_moment_t *oom)
{
  const gp_oom_events_t *ooms = &findings->summary->ooms;

  if (!oom->event.has_moment)
    gp_sentence_add(
        text, " That was before the first recorded event, so the owners of the memory are unknown.");
  if (ooms->count > 1)
    gp_sentence_add(text, " Memory ran out %s in all; this is --at oom=%zu.",
        GP_AS_PLURAL(ooms->count, "time"), oom->number);
}

/* Adds the advice that the library wrote in the report. Older files have it at the end of the message, not in
 * a member of its own. */
static void advise_reported(gp_findings_t *findings, gp_finding_t *finding, const char *key)
{
  const cJSON *oom = cJSON_GetObjectItemCaseSensitive(findings->summary->snapshot->root, key), *setting;
  const cJSON *remedy = cJSON_GetObjectItemCaseSensitive(oom, "remedy");
  const char *advice = gp_snapshot_text(oom, "advice"), *action = gp_snapshot_text(remedy, "action");

  if (!advice[0] || gp_outside_explains(findings->summary->snapshot, key))
    return;
  gp_findings_advise(findings, finding, GP_ADVICE(oom_of_the_library), advice);
  cJSON_ArrayForEach(setting, cJSON_GetObjectItemCaseSensitive(remedy, "settings"))
  {
    if (cJSON_IsString(setting))
      gp_findings_set(findings, finding, setting->string, setting->valuestring);
  }
  if (action[0])
    gp_findings_act(findings, finding, action);
}

void gp_findings_judge_oom(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const gp_oom_moment_t *oom = &summary->oom;
  char event[48] = "";
  bool has_stacks = summary->sites.by != GP_SITE_BY_SIZE;
  gp_sentence_t text = {.used = 0};

  if (!summary->has_oom)
    return;
  if (oom->event.has_event && !summary->snapshot->times_are_numbers)
    snprintf(event, sizeof(event), ", event %" PRIu32, oom->event.moment - 1);
  add_size(&text, "", oom->event.requested, "");
  add_asker(&text, summary);
  add_amounts(&text, oom);
  add_busy(&text, oom);
  if (!has_stacks || !oom->event.has_moment)
    add_sizes(&text, oom);
  add_sequel(&text, findings, oom);
  add_others(&text, findings, oom);
  gp_finding_t *finding = gp_findings_say_as(findings,
      oom->event.got_as_much ? GP_SEVERITY_WARNING : GP_SEVERITY_ERROR, GP_FINDING(oom), oom->event.device,
      oom->event.device, GP_AS_MOMENT(summary->snapshot, oom->event.time_ns), event, text.text);
  if (oom->event.is_reported)
    advise_reported(findings, finding, "oom");
  else if (!gp_oom_could_fit(oom))
    gp_findings_advise(findings, finding, GP_ADVICE(oom_too_large),
        gp_oom_is_too_large(oom->event.requested, oom->figures.limit) ? "the limit" : "the device's memory");
  else if (oom->usable >= oom->event.requested && oom->figures.largest_free < oom->event.requested)
    gp_findings_advise(findings, finding, GP_ADVICE(oom_in_pieces), oom->number);
}

static uint64_t count_action(const gp_summary_t *summary, const char *name)
{
  uint64_t count = 0;
  for (size_t i = 0; i < summary->action_count; i++)
    count += strcmp(summary->actions[i].name, name) == 0 ? summary->actions[i].count : 0;
  return count;
}

/* Reports requests that the limit on page-locked memory refused. If the snapshot has a report about such a
 * request, the report describes the moment at which the snapshot was written. */
void gp_findings_judge_host_oom(gp_findings_t *findings)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  const cJSON *report = cJSON_GetObjectItemCaseSensitive(snapshot->root, "host_oom");
  uint64_t count = count_action(findings->summary, "host_oom"), requested, held, limit;
  gp_sentence_t text = {.used = 0};

  if (!report && !count)
    return;
  if (gp_snapshot_uint(report, "requested", &requested) == 1 &&
      gp_snapshot_uint(report, "live", &held) == 1) {
    add_size(&text, ": the program requested ", requested, "");
    add_size(&text, " while using ", held, "");
    if (gp_snapshot_uint(report, "limit", &limit) == 1)
      add_size(&text, " of ", limit, "");
  }
  bool is_then = strcmp(gp_findings_reason(findings), "host_oom") == 0;
  gp_finding_t *finding = gp_findings_say_as(findings, is_then ? GP_SEVERITY_ERROR : GP_SEVERITY_WARNING,
      GP_FINDING(host_oom), GP_FINDING_ALL, GP_AS_PLURAL(count ? count : 1, "time"), text.text);
  if (report)
    advise_reported(findings, finding, "host_oom");
}

void gp_findings_judge_refusals(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_summary_t *summary = findings->summary;
  uint64_t told = device->device->stats.num_ooms, recorded = 0;
  char not_recorded[GP_NUMBER_BYTES + 64] = "";

  for (size_t i = 0; i < summary->ooms.count; i++)
    recorded += summary->ooms.events[i].device == device->device->device;
  bool is_said =
      gp_findings_have(findings, GP_FINDING_oom) && summary->oom.event.device == device->device->device;
  if (!told || (is_said && told <= recorded))
    return;
  if (told > recorded)
    snprintf(not_recorded, sizeof(not_recorded), "; the recorded events have %s of these",
        recorded ? GP_AS_COUNT(recorded) : "none");
  gp_findings_say(findings, GP_FINDING(ooms), device->device->device, GP_AS_PLURAL(told, "time"),
      device->device->device, not_recorded);
}
