#include "tools/model/findings_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/util/options.h"
#include "pool/util/size.h"
#include "tools/output.h"

#define ENOUGH_ALLOCATIONS 100 /* below, a hit rate says nothing */
#define ROUNDING_SHARE     0.1
#define ROUNDING_BYTES     (32 * GP_MIB)
#define CACHED_SHARE       0.25
#define CACHED_BYTES       (256 * GP_MIB)
#define WAITS_SHARE        0.01
#define FORWARDED_SHARE    0.5

/* GPUPOOL_STACKS, where it is an option and was not used. */
static bool lacks_stacks(const gp_findings_t *findings)
{
  return findings->summary->sites.by == GP_SITE_BY_SIZE && gp_option_find("stacks") != GP_OPTION_COUNT;
}

static void judge_refusals(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  char count[GP_NUMBER_BYTES];
  bool is_told = strcmp(gp_findings_reason(findings), "oom") == 0 && gp_findings_have(findings, "oom") &&
                 stats->num_ooms <= 1;

  if (stats->num_ooms && !is_told)
    gp_findings_say(findings, GP_SEVERITY_ERROR, "ooms", device->device->device,
        "The program was told %s that memory is out on device %d.",
        gp_number_plural(stats->num_ooms, "time", count), device->device->device);
  if (stats->num_alloc_retries)
    gp_findings_say(findings, GP_SEVERITY_WARNING, "retries", device->device->device,
        "Memory is tight: %s on device %d had to be tried again after idle memory was given back.",
        gp_number_plural(stats->num_alloc_retries, "driver allocation", count), device->device->device);
}

static void judge_live(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  char count[GP_NUMBER_BYTES], bytes[GP_SIZE_TEXT_BYTES], of[GP_NUMBER_BYTES], size[GP_SIZE_TEXT_BYTES];
  char biggest[128] = "";

  if (strcmp(gp_findings_reason(findings), "exit") != 0)
    return;
  if (device->group_count && stats->allocation.current > 1)
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
  if (lacks_stacks(findings))
    gp_findings_advise(findings, finding,
        "GPUPOOL_STACKS=native records who asked for them; gpupool leaks then names them.");
  else
    gp_findings_advise(findings, finding, "gpupool leaks lists them.");
  if (stats->passthrough_bytes.current)
    gp_findings_say(findings, GP_SEVERITY_NOTE, "passthrough_at_exit", device->device->device,
        "%s of memory that is not pooled was not freed on device %d before the exit.",
        gp_size_format(stats->passthrough_bytes.current, bytes), device->device->device);
}

/* Why so many allocations went to the driver; what the figures show best comes first. */
static void hit_rate_hint(
    const gp_findings_t *findings, const gp_stats_t *stats, char *buffer, size_t capacity)
{
  const gp_summary_t *summary = findings->summary;
  const char *type = gp_findings_setting(findings, "type");
  if (stats->allocation.peak >= 0.8 * (double)stats->cache_misses)
    snprintf(buffer, capacity, "most were first ones: that much was held at the same time");
  else if (gp_summary_detail_count(summary, "trim", "max_cached"))
    snprintf(buffer, capacity, "GPUPOOL_MAX_CACHED=%s gave back what was wanted again soon",
        gp_findings_setting(findings, "max_cached"));
  else if (gp_summary_detail_count(summary, "trim", "idle"))
    snprintf(buffer, capacity, "GPUPOOL_IDLE_RELEASE=%s gave back what was wanted again later",
        gp_findings_setting(findings, "idle_release"));
  else if (gp_summary_detail_count(summary, "trim", "reserve") ||
           gp_summary_detail_count(summary, "trim", "oom"))
    snprintf(buffer, capacity, "memory was tight, so that idle blocks went back to the driver");
  else if ((double)stats->deferred_bytes.peak > 0.25 * (double)stats->active_bytes.peak)
    snprintf(buffer, capacity,
        "freed memory was often still in use by the device when it was needed (up to a synchronization)");
  else if (strcmp(type, "naive") == 0)
    snprintf(buffer, capacity, "the sizes vary; GPUPOOL_TYPE=round finds more blocks that fit");
  else if (strcmp(type, "round") == 0 &&
           strtoul(gp_findings_setting(findings, "round_divisions"), NULL, 10) > 2)
    snprintf(buffer, capacity,
        "the sizes vary; GPUPOOL_ROUND_DIVISIONS=2 finds more blocks that fit, and rounds up more");
  else
    snprintf(buffer, capacity, "the sizes vary");
}

static void judge_hit_rate(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t total = stats->cache_hits + stats->cache_misses;
  double rate = total ? (double)stats->cache_hits / (double)total : 1;
  char hint[256], percent[GP_NUMBER_BYTES], count[GP_NUMBER_BYTES], only[GP_NUMBER_BYTES + 8];

  if (total < ENOUGH_ALLOCATIONS || rate >= GP_GOOD_HIT_RATE ||
      strcmp(gp_findings_setting(findings, "type"), "unpooled") == 0)
    return;
  hit_rate_hint(findings, stats, hint, sizeof(hint));
  snprintf(only, sizeof(only), "%s%s", stats->cache_hits ? "Only " : "None",
      stats->cache_hits ? gp_number_percent(rate, percent) : "");
  gp_findings_say(findings,
      stats->allocation.peak >= 0.8 * (double)stats->cache_misses ? GP_SEVERITY_NOTE : GP_SEVERITY_WARNING,
      "hit_rate", device->device->device, "%s of %s on device %d were served from the pool: %s.", only,
      gp_number_plural(total, "allocation", count), device->device->device, hint);
}

static void judge_rounding(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t asked = stats->requested_bytes.peak, rounded = stats->allocated_bytes.peak;
  char percent[GP_NUMBER_BYTES], was[GP_SIZE_TEXT_BYTES], is[GP_SIZE_TEXT_BYTES];
  bool is_naive = strcmp(gp_findings_setting(findings, "type"), "naive") == 0;

  if (rounded <= asked || rounded - asked < ROUNDING_BYTES ||
      (double)(rounded - asked) < ROUNDING_SHARE * (double)rounded)
    return;
  gp_finding_t *finding = gp_findings_say(findings, GP_SEVERITY_NOTE, "rounding", device->device->device,
      "Rounding sizes up costs %s of the memory on device %d: %s at the peak for %s asked for.",
      gp_number_percent((double)(rounded - asked) / (double)rounded, percent), device->device->device,
      gp_size_format(rounded, was), gp_size_format(asked, is));
  gp_findings_advise(findings, finding,
      is_naive ? "a smaller GPUPOOL_LARGE_ROUND wastes less." : "GPUPOOL_TYPE=naive wastes least.");
}

static void judge_cached(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t reserved = stats->reserved_bytes.peak, active = stats->active_bytes.peak;
  char held[GP_SIZE_TEXT_BYTES], used[GP_SIZE_TEXT_BYTES];

  if (reserved <= active || reserved - active < CACHED_BYTES ||
      (double)(reserved - active) < CACHED_SHARE * (double)reserved)
    return;
  gp_finding_t *finding = gp_findings_say(findings, GP_SEVERITY_NOTE, "cached", device->device->device,
      "At its peak the pool held %s on device %d, and never more than %s were in use.",
      gp_size_format(reserved, held), device->device->device, gp_size_format(active, used));
  gp_findings_advise(findings, finding, "GPUPOOL_MAX_CACHED bounds what is idle.");
}

static void judge_waits(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t total = stats->cache_hits + stats->cache_misses;
  char count[GP_NUMBER_BYTES];
  bool is_strict = strcmp(gp_findings_setting(findings, "reuse"), "strict") == 0;

  if (!stats->host_waits || (double)stats->host_waits < WAITS_SHARE * (double)total)
    return;
  gp_finding_t *finding = gp_findings_say(findings, is_strict ? GP_SEVERITY_NOTE : GP_SEVERITY_WARNING,
      "waits", device->device->device,
      "The host waited %s for device %d until freed memory could be used again%s.",
      gp_number_plural(stats->host_waits, "time", count), device->device->device,
      is_strict ? "; that is what GPUPOOL_REUSE=strict does" : "");
  if (!is_strict)
    gp_findings_advise(findings, finding, "a larger GPUPOOL_MAX_DEFERRED waits less and holds more.");
}

static void judge_forwarded(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t outside = stats->passthrough_bytes.peak;
  char bytes[GP_SIZE_TEXT_BYTES], pooled[GP_SIZE_TEXT_BYTES];

  if ((double)outside < FORWARDED_SHARE * (double)(outside + stats->reserved_bytes.peak) || !outside)
    return;
  gp_findings_say(findings, GP_SEVERITY_NOTE, "passthrough", device->device->device,
      "Most memory on device %d is not pooled (managed, pitched, stream-ordered ...): at its peak %s, beside "
      "%s.",
      device->device->device, gp_size_format(outside, bytes),
      gp_size_format(stats->reserved_bytes.peak, pooled));
}

void gp_findings_judge_device(gp_findings_t *findings, const gp_summary_device_t *device)
{
  judge_refusals(findings, device);
  judge_hit_rate(findings, device);
  judge_waits(findings, device);
  judge_live(findings, device);
  judge_rounding(findings, device);
  judge_cached(findings, device);
  judge_forwarded(findings, device);
}
