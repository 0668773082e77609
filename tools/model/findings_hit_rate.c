/*
 * Why allocations of the program went to the driver, and what would have served them from the pool.
 */
#include "tools/model/finding_judges.h"

#include <stdio.h>
#include <string.h>

#include "tools/saturated.h"
#include "tools/model/what_if.h"
#include "tools/output.h"

#define ENOUGH_ALLOCATIONS 100   /* with fewer, a hit rate means nothing */
#define BETTER_RATE        0.1   /* least share of the allocations that a remedy must serve in addition */
#define FENCES_SINCE       12050 /* cuCtxRecordEvent */

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
  else if (gp_findings_kept_budget(findings))
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
  char most[GP_SIZE_TEXT_BYTES];
  const char *name, *value;

  if (gp_summary_detail_count(findings->summary, "trim", "max_cached")) {
    name = "GPUPOOL_MAX_CACHED";
    value = gp_findings_as_setting(kept->idle_peak, most);
  } else if (gp_summary_detail_count(findings->summary, "trim", "idle")) {
    name = "GPUPOOL_IDLE_RELEASE";
    value = "0";
  } else if (gp_findings_kept_budget(findings)) {
    name = "GPUPOOL_SLACK";
    value = "none";
  } else {
    return false;
  }
  if (rate_of(kept) < rate + BETTER_RATE)
    return false;
  gp_findings_advise(findings, finding, GP_ADVICE(hit_rate_kept), name, value, GP_AS_PERCENT(rate_of(kept)));
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
  gp_findings_advise(
      findings, finding, GP_ADVICE(hit_rate_rounded), name, value, GP_AS_PERCENT(rate_of(&served)));
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

/* The driver's version, as cuDriverGetVersion returns it; 0: unknown. */
static int driver_version(const gp_snapshot_t *snapshot)
{
  const cJSON *process = cJSON_GetObjectItemCaseSensitive(snapshot->root, "process");
  const cJSON *version = cJSON_GetObjectItemCaseSensitive(process, "driver_version");

  return cJSON_IsNumber(version) ? version->valueint : 0;
}

/* Advises the call that would have provided the fact that the pool lacked. False: none would have. */
static bool advise_facts(gp_findings_t *findings, gp_finding_t *finding, const gp_summary_device_t *device)
{
  int version = driver_version(findings->summary->snapshot);

  if (version == 0 || version >= FENCES_SINCE || device->device->stats.fences > 0)
    return false;
  gp_findings_advise(findings, finding, GP_ADVICE(hit_rate_facts), version / 1000, version % 1000 / 10,
      FENCES_SINCE / 1000, FENCES_SINCE % 1000 / 10);
  gp_findings_act(findings, finding, "synchronize");
  return true;
}

void gp_findings_judge_hit_rate(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t total = stats->cache_hits + stats->cache_misses;
  double rate = total ? (double)stats->cache_hits / (double)total : 1;
  misses_t misses;
  char reason[256], only[GP_NUMBER_BYTES + 8];

  if (total < ENOUGH_ALLOCATIONS || rate >= GP_GOOD_HIT_RATE ||
      gp_stats_known(findings->summary->snapshot, device->device, offsetof(gp_stats_t, cache_hits)) !=
          GP_KNOWN ||
      strcmp(gp_findings_setting(findings, "type"), "unpooled") == 0)
    return;
  divide_misses(findings, device, &misses);
  why_t why = hit_rate_reason(findings, stats, &misses, reason, sizeof(reason));
  snprintf(only, sizeof(only), "%s%s", stats->cache_hits ? "Only " : "None",
      stats->cache_hits ? GP_AS_PERCENT(rate) : "");
  gp_finding_t *finding = gp_findings_say_as(findings,
      why == WHY_FIRST ? GP_SEVERITY_NOTE : GP_SEVERITY_WARNING, GP_FINDING(hit_rate), device->device->device,
      only, GP_AS_PLURAL(total, "allocation"), device->device->device, reason);
  bool is_told = why == WHY_FACTS && advise_facts(findings, finding, device);
  if (!is_told && stats->allocation.peak < 0.8 * (double)stats->cache_misses)
    advise_hit_rate(findings, finding, device, rate);
}
