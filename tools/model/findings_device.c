#include "tools/model/findings_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/size.h"
#include "tools/model/findings_facts.h"
#include "tools/model/findings_history.h"
#include "tools/model/findings_oom.h"
#include "tools/model/findings_returns.h"
#include "tools/model/known_stats.h"
#include "tools/model/saturated.h"
#include "tools/model/what_if.h"
#include "tools/output.h"

#define ENOUGH_ALLOCATIONS 100 /* with fewer, a hit rate means nothing */
#define ROUNDING_SHARE     0.1
#define ROUNDING_BYTES     (32 * GP_MIB)
#define CACHED_SHARE       0.25
#define CACHED_BYTES       (256 * GP_MIB)
#define WAITS_SHARE        0.01
#define FORWARDED_SHARE    0.5
#define BUDGET_SHARE       0.01 /* blocks that went back, of all allocations: then it costs something */
#define BETTER_RATE        0.1  /* least share of the allocations that a remedy must serve in addition */
#define NS_PER_SECOND      UINT64_C(1000000000)

#define knows(findings, of, stat)                                                                            \
  (gp_stats_known((findings)->summary->snapshot, (of)->device, offsetof(gp_stats_t, stat)) == GP_KNOWN)

/* Formats bytes as a setting: rounds up to whole MiB. The buffer has GP_SIZE_TEXT_BYTES. */
static char *as_setting(uint64_t bytes, char *buffer)
{
  snprintf(buffer, GP_SIZE_TEXT_BYTES, "%" PRIu64 "MiB", bytes / GP_MIB + (bytes % GP_MIB != 0));
  return buffer;
}

/* True if another GPUPOOL_STACKS would have recorded stacks. */
static bool lacks_stacks(const gp_findings_t *findings)
{
  const char *stacks = gp_findings_setting(findings, "stacks");
  return findings->summary->sites.by == GP_SITE_BY_SIZE &&
         (strcmp(stacks, "off") == 0 || strcmp(stacks, "auto") == 0);
}

static void judge_refusals(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  char count[GP_NUMBER_BYTES];

  gp_findings_judge_refusals(findings, device);
  if (stats->num_alloc_retries)
    gp_findings_say(findings, GP_SEVERITY_WARNING, "retries", device->device->device,
        "Memory is tight: %s on device %d had to be tried again after the pool had tried to make room.",
        gp_number_plural(stats->num_alloc_retries, "driver allocation", count), device->device->device);
}

static void judge_live(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  char count[GP_NUMBER_BYTES], bytes[GP_SIZE_TEXT_BYTES], of[GP_NUMBER_BYTES], size[GP_SIZE_TEXT_BYTES];
  char biggest[128] = "";

  if (strcmp(gp_findings_reason(findings), "exit") != 0)
    return;
  if (device->size_count == 1 && stats->allocation.current > 1)
    snprintf(biggest, sizeof(biggest), ", each of %s", gp_size_format(device->groups[0].requested, size));
  else if (device->group_count && stats->allocation.current > 1)
    snprintf(biggest, sizeof(biggest), "; most of it in %s of %s",
        gp_number_plural(device->groups[0].count, "block", of),
        gp_size_format(device->groups[0].requested, size));
  gp_finding_t *finding = NULL;
  if (stats->allocation.current)
    finding = gp_findings_say(findings, GP_SEVERITY_NOTE, "live_at_exit", device->device->device,
        "%s (%s) on device %d %s not freed before the exit%s.",
        gp_number_plural(stats->allocation.current, "block", count),
        gp_size_format(stats->requested_bytes.current, bytes), device->device->device,
        stats->allocation.current == 1 ? "was" : "were", biggest);
  if (lacks_stacks(findings)) {
    gp_findings_advise(findings, finding,
        "GPUPOOL_STACKS=native records who asked for them; gpupool leaks then names them.");
    gp_findings_set(findings, finding, "GPUPOOL_STACKS", "native");
  } else
    gp_findings_advise(findings, finding, "gpupool leaks lists them.");
  if (stats->passthrough_bytes.current)
    gp_findings_say(findings, GP_SEVERITY_NOTE, "passthrough_at_exit", device->device->device,
        "%s of memory that is not pooled was not freed on device %d before the exit.",
        gp_size_format(stats->passthrough_bytes.current, bytes), device->device->device);
}

/* Why allocations went to the driver. Even a pool that keeps everything, on a device that is never busy,
 * would ask the driver for some of them. */
typedef struct misses {
  uint64_t first;     /* as much was held at the same time */
  uint64_t of_sizes;  /* idle blocks existed, but of other sizes */
  uint64_t not_there; /* a block of that size had gone back, or was not known to be idle yet */
  size_t size_count;  /* 0: the division between the last two is unknown, and both are 0 */
} misses_t;

static void divide_misses(gp_findings_t *findings, const gp_summary_device_t *device, misses_t *ret_misses)
{
  const gp_summary_t *summary = findings->summary;
  const gp_stats_t *stats = &device->device->stats;
  const cJSON *settings = cJSON_GetObjectItemCaseSensitive(summary->snapshot->root, "settings");
  gp_block_sizes_t sizes;
  gp_served_t kept;

  /* Counts blocks held at the same time; if memory is cut, segments; if segments grow, what never went back.
   */
  bool is_cut = stats->segment.peak && stats->segment.peak < stats->allocation.peak;
  uint64_t first = is_cut ? stats->segment.peak : stats->allocation.peak;
  if (device->device->has_extents)
    first = gp_subtract_saturated(stats->driver_allocs, stats->driver_frees);
  *ret_misses = (misses_t){.first = first < stats->cache_misses ? first : stats->cache_misses};
  if (!gp_block_sizes_init(&sizes, settings))
    return;
  if (gp_served_count(&kept, &summary->lifetimes, device->device->device, &sizes)) {
    findings->out_of_memory = true;
    return;
  }
  if (kept.hits + kept.misses != stats->cache_hits + stats->cache_misses) /* some events are missing */
    return;
  uint64_t needed = kept.misses < stats->cache_misses ? kept.misses : stats->cache_misses;
  uint64_t later = gp_subtract_saturated(needed, ret_misses->first);
  ret_misses->of_sizes = later < kept.beside_idle ? later : kept.beside_idle;
  ret_misses->not_there = stats->cache_misses - ret_misses->first - ret_misses->of_sizes;
  ret_misses->size_count = kept.size_count;
}

/* What went back as spare did so for a budget, GPUPOOL_SLACK. With types that cut it was mostly segments;
 * older libraries have none. */
static bool has_budget(const gp_findings_t *findings)
{
  const char *type = gp_findings_setting(findings, "type");
  const char *slack = gp_findings_setting(findings, "slack");

  return (strcmp(type, "round") == 0 || strcmp(type, "naive") == 0) && slack[0] && strcmp(slack, "none") != 0;
}

/* It gave memory back for that. */
static bool kept_budget(const gp_findings_t *findings)
{
  return has_budget(findings) && gp_summary_detail_count(findings->summary, "segment_free", "spare") > 0;
}

/* Why the pool gave memory back; false: it gave none. */
static bool given_back_reason(const gp_findings_t *findings, char *buffer, size_t capacity)
{
  const gp_summary_t *summary = findings->summary;
  if (gp_summary_detail_count(summary, "trim", "max_cached"))
    snprintf(buffer, capacity, ": GPUPOOL_MAX_CACHED=%s gave back what was wanted again soon",
        gp_findings_setting(findings, "max_cached"));
  else if (gp_summary_detail_count(summary, "trim", "idle"))
    snprintf(buffer, capacity, ": GPUPOOL_IDLE_RELEASE=%s gave back what was wanted again later",
        gp_findings_setting(findings, "idle_release"));
  else if (kept_budget(findings))
    snprintf(buffer, capacity, ": GPUPOOL_SLACK=%s gave back what was wanted again",
        gp_findings_setting(findings, "slack"));
  else if (gp_summary_detail_count(summary, "trim", "reserve") ||
           gp_summary_detail_count(summary, "trim", "oom"))
    snprintf(buffer, capacity, ": memory was tight, so that idle blocks went back to the driver");
  else
    return false;
  return true;
}

/* The main cause of misses: it explains most of them, or more than any other cause. */
typedef enum why {
  WHY_UNKNOWN,
  WHY_FIRST, /* no pool could have served them */
  WHY_SIZES,
  WHY_GIVEN_BACK,
  WHY_FACTS, /* the pool did not know that the device was done */
} why_t;

/* Writes the cause as a clause; "" if unknown. */
static why_t hit_rate_reason(const gp_findings_t *findings, const gp_stats_t *stats, const misses_t *misses,
    char *buffer, size_t capacity)
{
  bool is_divided = misses->size_count > 0;
  bool is_first = misses->first >= stats->cache_misses - misses->first;

  buffer[0] = '\0';
  if (is_first) {
    snprintf(buffer, capacity,
        ": for most of %s it had nothing idle, because the program still held what it had allocated before",
        stats->cache_hits ? "the others" : "them");
    return WHY_FIRST;
  }
  if (is_divided && misses->of_sizes >= misses->not_there) {
    snprintf(
        buffer, capacity, ": the idle blocks were of other sizes (%zu sizes in all)", misses->size_count);
    return WHY_SIZES;
  }
  if (given_back_reason(findings, buffer, capacity))
    return WHY_GIVEN_BACK;
  if (!is_divided && (double)stats->deferred_bytes.peak <= 0.25 * (double)stats->active_bytes.peak)
    return WHY_UNKNOWN;
  snprintf(buffer, capacity, ": the pool did not know yet that the device was done with freed memory");
  return WHY_FACTS;
}

static double rate_of(const gp_served_t *served)
{
  uint64_t total = served->hits + served->misses;
  return total ? (double)served->hits / (double)total : 0;
}

/* Advises the setting that gave memory back, if a pool that keeps everything would have served more. False:
 * there is none. */
static bool advise_keeping(
    gp_findings_t *findings, gp_finding_t *finding, double rate, const gp_served_t *kept)
{
  char most[GP_SIZE_TEXT_BYTES], percent[GP_NUMBER_BYTES];
  const char *name, *value;

  if (gp_summary_detail_count(findings->summary, "trim", "max_cached")) {
    name = "GPUPOOL_MAX_CACHED";
    value = as_setting(kept->idle_peak, most);
  } else if (gp_summary_detail_count(findings->summary, "trim", "idle")) {
    name = "GPUPOOL_IDLE_RELEASE";
    value = "0";
  } else if (kept_budget(findings)) {
    name = "GPUPOOL_SLACK";
    value = "none";
  } else {
    return false;
  }
  if (rate_of(kept) < rate + BETTER_RATE)
    return false;
  gp_findings_advise(findings, finding, "%s=%s would have served up to %s of them, and kept more.", name,
      value, gp_number_percent(rate_of(kept), percent));
  gp_findings_set(findings, finding, name, value);
  return true;
}

/* Tries other size classes with the recorded allocations. */
static void advise_classes(gp_findings_t *findings, gp_finding_t *finding, int device,
    const gp_block_sizes_t *sizes, const gp_served_t *now)
{
  const gp_lifetimes_t *lifetimes = &findings->summary->lifetimes;
  gp_block_sizes_t other = *sizes;
  gp_served_t served;
  char percent[GP_NUMBER_BYTES];

  if (sizes->is_naive)
    other.is_naive = false;
  else if (sizes->divisions > 2)
    other.divisions = 2;
  else
    return;
  if (gp_served_count(&served, lifetimes, device, &other)) {
    findings->out_of_memory = true;
    return;
  }
  if (rate_of(&served) < rate_of(now) + BETTER_RATE)
    return;
  const char *name = sizes->is_naive ? "GPUPOOL_TYPE" : "GPUPOOL_ROUND_DIVISIONS";
  const char *value = sizes->is_naive ? "round" : "2";
  gp_findings_advise(findings, finding, "%s=%s would have served up to %s of them, and rounds up more.", name,
      value, gp_number_percent(rate_of(&served), percent));
  gp_findings_set(findings, finding, name, value);
}

static void advise_hit_rate(
    gp_findings_t *findings, gp_finding_t *finding, const gp_summary_device_t *device, double rate)
{
  const gp_summary_t *summary = findings->summary;
  const cJSON *settings = cJSON_GetObjectItemCaseSensitive(summary->snapshot->root, "settings");
  gp_block_sizes_t sizes;
  gp_served_t kept;

  if (!gp_block_sizes_init(&sizes, settings))
    return;
  if (gp_served_count(&kept, &summary->lifetimes, device->device->device, &sizes))
    findings->out_of_memory = true;
  else if (!advise_keeping(findings, finding, rate, &kept))
    advise_classes(findings, finding, device->device->device, &sizes, &kept);
}

static void judge_hit_rate(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t total = stats->cache_hits + stats->cache_misses;
  double rate = total ? (double)stats->cache_hits / (double)total : 1;
  misses_t misses;
  char reason[256], percent[GP_NUMBER_BYTES], count[GP_NUMBER_BYTES], only[GP_NUMBER_BYTES + 8];

  if (total < ENOUGH_ALLOCATIONS || rate >= GP_GOOD_HIT_RATE || !knows(findings, device, cache_hits) ||
      strcmp(gp_findings_setting(findings, "type"), "unpooled") == 0)
    return;
  divide_misses(findings, device, &misses);
  why_t why = hit_rate_reason(findings, stats, &misses, reason, sizeof(reason));
  snprintf(only, sizeof(only), "%s%s", stats->cache_hits ? "Only " : "None",
      stats->cache_hits ? gp_number_percent(rate, percent) : "");
  gp_finding_t *finding = gp_findings_say(findings, why == WHY_FIRST ? GP_SEVERITY_NOTE : GP_SEVERITY_WARNING,
      "hit_rate", device->device->device, "%s of %s on device %d were served from the pool%s.", only,
      gp_number_plural(total, "allocation", count), device->device->device, reason);
  bool is_told = why == WHY_FACTS && gp_findings_advise_facts(findings, finding, device);
  if (!is_told && stats->allocation.peak < 0.8 * (double)stats->cache_misses)
    advise_hit_rate(findings, finding, device, rate);
}

static void judge_rounding(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_summary_t *summary = findings->summary;
  const cJSON *settings = cJSON_GetObjectItemCaseSensitive(summary->snapshot->root, "settings");
  char percent[GP_NUMBER_BYTES], was[GP_SIZE_TEXT_BYTES], is[GP_SIZE_TEXT_BYTES];
  int ordinal = device->device->device;
  gp_rounded_peak_t peak;
  gp_block_sizes_t sizes, closest;
  const char *name, *value;

  gp_rounded_peak_find(&peak, &summary->lifetimes, ordinal);
  uint64_t cost = peak.rounded > peak.requested ? peak.rounded - peak.requested : 0;
  if (cost < ROUNDING_BYTES || (double)cost < ROUNDING_SHARE * (double)peak.rounded)
    return;
  gp_finding_t *finding = gp_findings_say(findings, GP_SEVERITY_NOTE, "rounding", ordinal,
      "Rounding sizes up costs %s of the memory on device %d: %s %s for %s asked for.",
      gp_number_percent((double)cost / (double)peak.rounded, percent), ordinal,
      gp_size_format(peak.rounded, was), gp_findings_peak(findings), gp_size_format(peak.requested, is));
  if (!gp_block_sizes_init(&sizes, settings) || !gp_block_sizes_closest(&sizes, &closest, &name, &value))
    return;
  uint64_t best = gp_rounded_at(&summary->lifetimes, ordinal, peak.moment, &closest);
  if (best >= peak.rounded || peak.rounded - best < cost / 2)
    return;
  gp_findings_advise(findings, finding, "%s=%s would have taken %s.", name, value, gp_size_format(best, was));
  gp_findings_set(findings, finding, name, value);
}

static void judge_cached(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t reserved = stats->reserved_bytes.peak, active = stats->active_bytes.peak;
  char held[GP_SIZE_TEXT_BYTES], used[GP_SIZE_TEXT_BYTES], value[GP_SIZE_TEXT_BYTES];

  if (!knows(findings, device, reserved_bytes) || reserved <= active || reserved - active < CACHED_BYTES ||
      (double)(reserved - active) < CACHED_SHARE * (double)reserved)
    return;
  gp_finding_t *finding = gp_findings_say(findings, GP_SEVERITY_NOTE, "cached", device->device->device,
      "At its peak the pool held %s on device %d, and never more than %s were in use.",
      gp_size_format(reserved, held), device->device->device, gp_size_format(active, used));
  if (!gp_findings_know_settings(findings))
    return;
  if (stats->inactive_split_bytes.peak > (reserved - active) / 2) {
    gp_findings_advise(findings, finding,
        "most of that was in pieces beside memory in use, and could not go back: gpupool frag --at peak maps them.");
    return;
  }
  /* Advises half: memory that is cached for a short time is useful. */
  as_setting((reserved - active) / 2, value);
  gp_findings_advise(
      findings, finding, "GPUPOOL_MAX_CACHED=%s gives the rest back, for more calls of the driver.", value);
  gp_findings_set(findings, finding, "GPUPOOL_MAX_CACHED", value);
}

/*
 * The settings that should have made idle memory go back, as far as the figures tell: "NAME=VALUE or
 * NAME=VALUE". If none of the others applies, the reserve did; or a request of `gpupool ctl`, if the
 * program accepts those.
 */
static void surplus_settings(
    const gp_findings_t *findings, const gp_snapshot_device_t *device, char *buffer, size_t capacity)
{
  const gp_summary_t *summary = findings->summary;
  const gp_stats_t *stats = &device->stats;
  const char *cached = gp_findings_setting(findings, "max_cached");
  const char *idle = gp_findings_setting(findings, "idle_release");
  uint64_t idle_seconds = strtoull(idle, NULL, 10);
  uint64_t most;
  size_t used = 0;
  char size[GP_SIZE_TEXT_BYTES];

  buffer[0] = '\0';
  if (gp_size_parse(cached, strlen(cached), &most) && stats->cached_bytes.peak > most)
    used += (size_t)snprintf(buffer + used, capacity - used, "GPUPOOL_MAX_CACHED=%.32s", cached);
  /* The budget grows with use, so that the peaks need not show that it was exceeded before. */
  bool has_given = gp_summary_detail_count(summary, "trim", "spare") > 0;
  if (has_budget(findings) &&
      (has_given || (stats->reserved_bytes.peak > stats->active_bytes.peak &&
                        stats->reserved_bytes.peak - stats->active_bytes.peak > GP_SLACK_LEAST)))
    used += (size_t)snprintf(buffer + used, capacity - used, "%sGPUPOOL_SLACK=%.32s", used ? " or " : "",
        gp_findings_setting(findings, "slack"));
  if (device->limit && stats->reserved_bytes.peak > device->limit)
    used += (size_t)snprintf(buffer + used, capacity - used, "%sthe limit of %s", used ? " or " : "",
        gp_size_format(device->limit, size));
  if (idle_seconds && summary->until_ns / NS_PER_SECOND >= idle_seconds)
    used += (size_t)snprintf(
        buffer + used, capacity - used, "%sGPUPOOL_IDLE_RELEASE=%.32s", used ? " or " : "", idle);
  bool may_be_request = strcmp(gp_findings_setting(findings, "control"), "1") == 0;
  if (!used || gp_summary_detail_count(summary, "trim", "reserve"))
    used += (size_t)snprintf(buffer + used, capacity - used, "%sGPUPOOL_RESERVE=%.32s", used ? " or " : "",
        gp_findings_setting(findings, "reserve"));
  snprintf(buffer + used, capacity - used, "%s", may_be_request ? " or a request of gpupool ctl" : "");
}

static void judge_surplus(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_gauge_t *surplus = &device->device->stats.surplus_bytes;
  char settings[256], most[GP_SIZE_TEXT_BYTES], now[GP_SIZE_TEXT_BYTES];

  if (!surplus->peak)
    return;
  surplus_settings(findings, device->device, settings, sizeof(settings));
  gp_finding_t *finding = gp_findings_say(findings, surplus->current ? GP_SEVERITY_WARNING : GP_SEVERITY_NOTE,
      "surplus", device->device->device,
      "Idle memory on device %d that should have gone back to the driver (%s) stayed, %s at most and %s now: the device was busy when the program freed memory or synchronized.",
      device->device->device, settings, gp_size_format(surplus->peak, most),
      gp_size_format(surplus->current, now));
  if (!surplus->current)
    return;
  gp_findings_advise(findings, finding,
      "cudaDeviceSynchronize now and then, while no other thread submits work, lets it go back.");
  gp_findings_act(findings, finding, "synchronize");
}

/* What the budget gave back, and what that took. */
static void judge_budget(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_snapshot_events_t *events = &findings->summary->snapshot->events;
  int ordinal = device->device->device;
  uint64_t count = 0, bytes = 0, lasted_ns = 0;
  char blocks[GP_NUMBER_BYTES], size[GP_SIZE_TEXT_BYTES], lasted[GP_NUMBER_BYTES];

  if (!kept_budget(findings))
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
  gp_finding_t *finding = gp_findings_say(findings, GP_SEVERITY_NOTE, "budget", ordinal,
      "So as to hold no more than GPUPOOL_SLACK=%s allows, the pool gave %s back on device %d: %s in %s of calls of the driver.",
      gp_findings_setting(findings, "slack"), gp_number_plural(count, "idle block", blocks), ordinal,
      gp_size_format(bytes, size), gp_number_duration(lasted_ns, lasted));
  if (count < BUDGET_SHARE * (double)(device->device->stats.cache_hits + device->device->stats.cache_misses))
    return;
  gp_findings_advise(
      findings, finding, "GPUPOOL_SLACK=none keeps them for later allocations, and holds more memory.");
  gp_findings_set(findings, finding, "GPUPOOL_SLACK", "none");
}

static void judge_waits(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t total = stats->cache_hits + stats->cache_misses;
  char count[GP_NUMBER_BYTES], value[GP_SIZE_TEXT_BYTES];
  bool is_strict = strcmp(gp_findings_setting(findings, "reuse"), "strict") == 0;

  if (!stats->host_waits || (double)stats->host_waits < WAITS_SHARE * (double)total)
    return;
  gp_finding_t *finding = gp_findings_say(findings, is_strict ? GP_SEVERITY_NOTE : GP_SEVERITY_WARNING,
      "waits", device->device->device,
      "The host waited %s for device %d until memory could be used again, or go back%s.",
      gp_number_plural(stats->host_waits, "time", count), device->device->device,
      is_strict ? "; that is what GPUPOOL_REUSE=strict does" : "");
  /* Waits without a retry are those of misses beyond that bound. Without them the device would lag further,
   * with more freed memory in use than now. */
  if (!is_strict && stats->host_waits > stats->num_alloc_retries && stats->deferred_bytes.peak) {
    as_setting(2 * stats->deferred_bytes.peak, value);
    gp_findings_advise(findings, finding, "GPUPOOL_MAX_DEFERRED=%s waits less and holds more.", value);
    gp_findings_set(findings, finding, "GPUPOOL_MAX_DEFERRED", value);
  }
}

static void judge_forwarded(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t outside = stats->passthrough_bytes.peak;
  char bytes[GP_SIZE_TEXT_BYTES], pooled[GP_SIZE_TEXT_BYTES];

  if ((double)outside < FORWARDED_SHARE * (double)(outside + stats->reserved_bytes.peak) || !outside)
    return;
  gp_findings_say(findings, GP_SEVERITY_NOTE, "passthrough", device->device->device,
      "Most memory on device %d is not pooled (managed, stream-ordered, arrays ...): at its peak %s, beside %s.",
      device->device->device, gp_size_format(outside, bytes),
      gp_size_format(stats->reserved_bytes.peak, pooled));
}

void gp_findings_judge_device(gp_findings_t *findings, const gp_summary_device_t *device)
{
  judge_refusals(findings, device);
  gp_findings_judge_returns(findings, device);
  judge_hit_rate(findings, device);
  judge_waits(findings, device);
  judge_live(findings, device);
  judge_rounding(findings, device);
  judge_cached(findings, device);
  judge_budget(findings, device);
  judge_surplus(findings, device);
  judge_forwarded(findings, device);
}
