#include "tools/model/finding_judges.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/size.h"
#include "tools/model/remedies.h"
#include "tools/saturated.h"
#include "tools/model/memory.h"
#include "tools/output.h"

#define ROUNDING_SHARE  0.1
#define ROUNDING_BYTES  (32 * GP_MIB)
#define CACHED_SHARE    0.25
#define CACHED_BYTES    (256 * GP_MIB)
#define WAITS_SHARE     0.01
#define FORWARDED_SHARE 0.5
/* Blocks returned to the driver per allocation. A higher share costs time. */
#define BUDGET_SHARE  0.01
#define NS_PER_SECOND UINT64_C(1000000000)

/* Formats `bytes` as a setting's value in MiB, rounded up. */
static void print_setting(uint64_t bytes, char buffer[static GP_SIZE_TEXT_BYTES])
{
  snprintf(buffer, GP_SIZE_TEXT_BYTES, "%" PRIu64 "MiB", bytes / GP_MIB + (bytes % GP_MIB != 0));
}

void gp_findings_judge_retries(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;

  if (stats->num_alloc_retries)
    gp_findings_say(findings, GP_FINDING(retries), device->device->device,
        GP_AS_PLURAL(stats->num_alloc_retries, "driver allocation"), device->device->device);
}

void gp_findings_judge_live(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  char biggest[128] = "";

  if (strcmp(gp_findings_reason(findings), "exit") != 0)
    return;
  if (device->size_count == 1 && stats->allocation.current > 1)
    snprintf(biggest, sizeof(biggest), ", each of %s", GP_AS_SIZE(device->groups[0].requested));
  else if (device->group_count && stats->allocation.current > 1)
    snprintf(biggest, sizeof(biggest), "; most of it in %s of %s",
        GP_AS_PLURAL(device->groups[0].count, "block"), GP_AS_SIZE(device->groups[0].requested));
  gp_finding_t *finding = NULL;
  if (stats->allocation.current)
    finding = gp_findings_say(findings, GP_FINDING(live_at_exit), device->device->device,
        GP_AS_PLURAL(stats->allocation.current, "block"), GP_AS_SIZE(stats->requested_bytes.current),
        device->device->device, stats->allocation.current == 1 ? "was" : "were", biggest);
  if (findings->summary->sites.by == GP_SITE_BY_SIZE && gp_findings_could_have_stacks(findings)) {
    gp_findings_advise(findings, finding, GP_ADVICE(live_without_stacks));
    gp_findings_set(findings, finding, "GPUPOOL_STACKS", "native");
  } else
    gp_findings_advise(findings, finding, GP_ADVICE(live_at_exit));
  if (stats->passthrough_bytes.current)
    gp_findings_say(findings, GP_FINDING(passthrough_at_exit), device->device->device,
        GP_AS_SIZE(stats->passthrough_bytes.current), device->device->device);
}

/* Returns true if the release reason "spare" means that the pool exceeded its budget, GPUPOOL_SLACK. With
 * types that divide segments, "spare" mostly means a whole idle segment. Older libraries have no budget. */
static bool has_budget(const gp_findings_t *findings)
{
  const char *type = gp_findings_setting(findings, "type");
  const char *slack = gp_findings_setting(findings, "slack");

  return (strcmp(type, "round") == 0 || strcmp(type, "naive") == 0) && slack[0] && strcmp(slack, "none") != 0;
}

bool gp_findings_kept_budget(const gp_findings_t *findings)
{
  return has_budget(findings) && gp_summary_detail_count(findings->summary, "segment_free", "spare") > 0;
}

void gp_findings_judge_rounding(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_lifetimes_t *lifetimes = &findings->summary->lifetimes;
  const int ordinal = device->device->device;
  gp_memory_walk_t walk;

  gp_memory_walk_begin(&walk, lifetimes, NULL, NULL, ordinal);
  gp_memory_t peak = walk.memory; /* state with the most rounded bytes in use */
  while (gp_memory_walk_next(&walk)) {
    if (walk.memory.allocated > peak.allocated)
      peak = walk.memory;
  }
  uint64_t cost = gp_subtract_saturated(peak.allocated, peak.requested);
  if (cost >= ROUNDING_BYTES && (double)cost >= ROUNDING_SHARE * (double)peak.allocated)
    gp_findings_say(findings, GP_FINDING(rounding), ordinal,
        GP_AS_PERCENT((double)cost / (double)peak.allocated), ordinal, GP_AS_SIZE(peak.allocated),
        gp_findings_peak(findings), GP_AS_SIZE(peak.requested));
}

/* Advises PyTorch's expandable segments if pool type vmm would have reserved less memory, because both map
 * memory on demand. */
static void advise_expandable(
    gp_findings_t *findings, gp_finding_t *finding, uint64_t reserved, uint64_t active)
{
  const gp_tried_types_t *tried = findings->tried;
  char conf[GP_CONF_BYTES];

  if (!tried || !tried->is_complete || findings->summary->snapshot->device_count > 1)
    return;
  for (size_t i = 0; i < tried->count; i++) {
    const gp_type_figures_t *type = &tried->types[i];
    if (strcmp(type->type, "vmm") == 0 && !type->refused &&
        type->held + (reserved - active) / 2 <= reserved && gp_remedies_expand(findings, finding, conf))
      gp_findings_advise(findings, finding, GP_ADVICE(cached_expandable), conf, GP_AS_SIZE(type->held));
  }
}

void gp_findings_judge_cached(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t reserved = stats->reserved_bytes.peak, active = stats->active_bytes.peak;
  char value[GP_SIZE_TEXT_BYTES];

  if (gp_stats_known(findings->summary->snapshot, device->device, offsetof(gp_stats_t, reserved_bytes)) !=
          GP_KNOWN ||
      reserved <= active || reserved - active < CACHED_BYTES ||
      (double)(reserved - active) < CACHED_SHARE * (double)reserved)
    return;
  gp_finding_t *finding = gp_findings_say(findings, GP_FINDING(cached), device->device->device,
      GP_AS_SIZE(reserved), device->device->device, GP_AS_SIZE(active));
  if (!gp_findings_know_settings(findings)) {
    advise_expandable(findings, finding, reserved, active);
    return;
  }
  if (stats->inactive_split_bytes.peak > (reserved - active) / 2) {
    gp_findings_advise(findings, finding, GP_ADVICE(cached_in_pieces));
    return;
  }
  /* The advised limit is half of the cached memory, because caching memory for a short time is useful. */
  print_setting((reserved - active) / 2, value);
  gp_findings_advise(findings, finding, GP_ADVICE(cached), value);
  gp_findings_set(findings, finding, "GPUPOOL_MAX_CACHED", value);
}

/*
 * Adds the settings that made the pool release idle memory, as far as the figures show: "NAME=VALUE or
 * NAME=VALUE". If no other setting applies, adds the setting of the reserve. Adds a request of `gpupool ctl`
 * if the program accepts such requests.
 */
static void add_surplus_settings(
    gp_sentence_t *list, const gp_findings_t *findings, const gp_snapshot_device_t *device)
{
  const gp_summary_t *summary = findings->summary;
  const gp_stats_t *stats = &device->stats;
  const char *cached = gp_findings_setting(findings, "max_cached");
  const char *idle = gp_findings_setting(findings, "idle_release");
  uint64_t idle_seconds = strtoull(idle, NULL, 10);
  uint64_t most;

  if (gp_size_parse(cached, strlen(cached), &most) && stats->cached_bytes.peak > most)
    gp_sentence_add(list, "GPUPOOL_MAX_CACHED=%.32s", cached);
  /* The budget grows with memory use, so the peaks may not show that the pool exceeded it earlier. */
  bool has_given = gp_summary_detail_count(summary, "trim", "spare") > 0;
  if (has_budget(findings) &&
      (has_given || (stats->reserved_bytes.peak > stats->active_bytes.peak &&
                        stats->reserved_bytes.peak - stats->active_bytes.peak > GP_SLACK_LEAST)))
    gp_sentence_add(
        list, "%sGPUPOOL_SLACK=%.32s", list->used ? " or " : "", gp_findings_setting(findings, "slack"));
  if (device->limit && stats->reserved_bytes.peak > device->limit)
    gp_sentence_add(list, "%sthe limit of %s", list->used ? " or " : "", GP_AS_SIZE(device->limit));
  if (idle_seconds && summary->until_ns / NS_PER_SECOND >= idle_seconds)
    gp_sentence_add(list, "%sGPUPOOL_IDLE_RELEASE=%.32s", list->used ? " or " : "", idle);
  bool may_be_request = strcmp(gp_findings_setting(findings, "control"), "1") == 0;
  if (!list->used || gp_summary_detail_count(summary, "trim", "reserve"))
    gp_sentence_add(
        list, "%sGPUPOOL_RESERVE=%.32s", list->used ? " or " : "", gp_findings_setting(findings, "reserve"));
  gp_sentence_add(list, "%s", may_be_request ? " or a request of gpupool ctl" : "");
}

void gp_findings_judge_surplus(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_gauge_t *surplus = &device->device->stats.surplus_bytes;
  gp_sentence_t settings = {.used = 0};

  if (!surplus->peak)
    return;
  add_surplus_settings(&settings, findings, device->device);
  gp_finding_t *finding = gp_findings_say_as(findings,
      surplus->current ? GP_SEVERITY_WARNING : GP_SEVERITY_NOTE, GP_FINDING(surplus), device->device->device,
      device->device->device, settings.text, GP_AS_SIZE(surplus->peak), GP_AS_SIZE(surplus->current));
  if (!surplus->current)
    return;
  gp_findings_advise(findings, finding, GP_ADVICE(surplus));
  gp_findings_act(findings, finding, "synchronize");
}

/* Reports how much memory the pool released to stay within its budget, and how long the releases took. */
void gp_findings_judge_budget(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_snapshot_events_t *events = &findings->summary->snapshot->events;
  int ordinal = device->device->device;
  uint64_t count = 0, bytes = 0, lasted_ns = 0;

  if (!gp_findings_kept_budget(findings))
    return;
  for (size_t i = 0; i < events->count; i++) {
    int64_t detail = gp_snapshot_event(events, GP_COLUMN_DETAIL, i, -1);
    if (gp_snapshot_event_kind(events, i) != GP_EVENT_SEGMENT_FREE || detail < 0 ||
        strcmp(events->details.names[detail], "spare") != 0 ||
        (int)gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0) != ordinal)
      continue;
    count++;
    bytes = gp_add_saturated(bytes, gp_snapshot_event_uint(events, GP_COLUMN_ROUNDED_SIZE, i));
    lasted_ns = gp_add_saturated(lasted_ns, gp_snapshot_event_uint(events, GP_COLUMN_DURATION_NS, i));
  }
  if (count == 0)
    return;
  gp_finding_t *finding =
      gp_findings_say(findings, GP_FINDING(budget), ordinal, gp_findings_setting(findings, "slack"),
          GP_AS_PLURAL(count, "idle block"), ordinal, GP_AS_SIZE(bytes), GP_AS_DURATION(lasted_ns));
  if (count < BUDGET_SHARE * (double)(device->device->stats.cache_hits + device->device->stats.cache_misses))
    return;
  gp_findings_advise(findings, finding, GP_ADVICE(budget));
  gp_findings_set(findings, finding, "GPUPOOL_SLACK", "none");
}

void gp_findings_judge_waits(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t total = stats->cache_hits + stats->cache_misses;
  bool is_strict = strcmp(gp_findings_setting(findings, "reuse"), "strict") == 0;

  if (!stats->host_waits || (double)stats->host_waits < WAITS_SHARE * (double)total)
    return;
  /* Frees made the waits that are not retries of allocations. */
  bool is_of_frees = !is_strict && stats->host_waits > stats->num_alloc_retries && stats->deferred_bytes.peak;
  gp_finding_t *finding = gp_findings_say_as(findings,
      is_strict || is_of_frees ? GP_SEVERITY_NOTE : GP_SEVERITY_WARNING, GP_FINDING(waits),
      device->device->device, GP_AS_PLURAL(stats->host_waits, "time"), device->device->device,
      is_strict     ? "; that is what GPUPOOL_REUSE=strict does"
      : is_of_frees ? "; without the pool each cudaFree may wait"
                    : "");
  if (is_of_frees) {
    gp_findings_advise(findings, finding, GP_ADVICE(waits));
    gp_findings_set(findings, finding, "GPUPOOL_MAX_DEFERRED", "none");
  }
}

void gp_findings_judge_forwarded(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t outside = stats->passthrough_bytes.peak;

  if ((double)outside < FORWARDED_SHARE * (double)(outside + stats->reserved_bytes.peak) || !outside)
    return;
  gp_findings_say(findings, GP_FINDING(passthrough), device->device->device, device->device->device,
      GP_AS_SIZE(outside), GP_AS_SIZE(stats->reserved_bytes.peak));
}
