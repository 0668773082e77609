/*
 * Finds why the pool could not serve allocations, and which change would have let it serve them.
 */
#include "tools/model/finding_judges.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/saturated.h"
#include "tools/output.h"

#define ENOUGH_ALLOCATIONS 100   /* with fewer, a hit rate means nothing */
#define BETTER_RATE        0.1   /* a setting is advised only if it raises the hit rate by at least this */
#define FENCES_SINCE       12050 /* driver version that has cuCtxRecordEvent */

/* Returns true if most misses allocated memory that was all in use at the same time. No pool could have
 * served them without the driver. */
static bool is_first(const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;

  /* Estimates the misses that no pool avoids. That is the peak number of blocks in use, or of segments if
   * these are divided. If segments grow, it is the number of driver allocations that were never released. */
  bool is_cut = stats->segment.peak && stats->segment.peak < stats->allocation.peak;
  uint64_t first = is_cut ? stats->segment.peak : stats->allocation.peak;
  if (device->device->has_extents)
    first = gp_subtract_saturated(stats->driver_allocs, stats->driver_frees);
  return first >= gp_subtract_saturated(stats->cache_misses, first);
}

/* Replays the run with the change `trial` and returns the hit rate. Returns 0 if the rate is not clearly
 * better than the recorded one and that of an unchanged replay, or if the run cannot be replayed. */
static double try(gp_findings_t *findings, int device, const gp_trial_t *trial, double rate)
{
  static const gp_trial_t as_recorded = {GP_OPTION_COUNT, NULL, false};
  double now = 0, tried = 0;

  if (!findings->try)
    return 0;
  int error = findings->try(findings->summary, device, &as_recorded, &now);
  if (!error)
    error = findings->try(findings->summary, device, trial, &tried);
  findings->out_of_memory |= error == ENOMEM;
  return !error && tried >= BETTER_RATE + (now > rate ? now : rate) ? tried : 0;
}

/* Returns the setting that made the pool release memory to the driver, with the value that prevents releases.
 * The id is GP_OPTION_COUNT if no setting did. */
static gp_trial_t keeping(const gp_findings_t *findings)
{
  if (gp_summary_detail_count(findings->summary, "trim", "max_cached"))
    return (gp_trial_t){GP_OPTION_max_cached, "none", false};
  if (gp_summary_detail_count(findings->summary, "trim", "idle"))
    return (gp_trial_t){GP_OPTION_idle_release, "0", false};
  if (gp_findings_kept_budget(findings))
    return (gp_trial_t){GP_OPTION_slack, "none", false};
  return (gp_trial_t){GP_OPTION_COUNT, NULL, false};
}

/* Returns the driver's version as cuDriverGetVersion returned it, or 0 if unknown. */
static int driver_version(const gp_snapshot_t *snapshot)
{
  const cJSON *process = cJSON_GetObjectItemCaseSensitive(snapshot->root, "process");
  const cJSON *version = cJSON_GetObjectItemCaseSensitive(process, "driver_version");

  return cJSON_IsNumber(version) ? version->valueint : 0;
}

/* Advises a call that proves that work is complete, if the driver is too old for the pool's fences. */
static void advise_facts(gp_findings_t *findings, gp_finding_t *finding, const gp_summary_device_t *device)
{
  int version = driver_version(findings->summary->snapshot);

  if (version == 0 || version >= FENCES_SINCE || device->device->stats.fences > 0)
    return;
  gp_findings_advise(findings, finding, GP_ADVICE(hit_rate_facts), version / 1000, version % 1000 / 10,
      FENCES_SINCE / 1000, FENCES_SINCE % 1000 / 10);
  gp_findings_act(findings, finding, "synchronize");
}

void gp_findings_judge_hit_rate(gp_findings_t *findings, const gp_summary_device_t *device)
{
  static const gp_trial_t at_once = {GP_OPTION_COUNT, NULL, true}, round = {GP_OPTION_type, "round", false};
  const gp_stats_t *stats = &device->device->stats;
  const int ordinal = device->device->device;
  const uint64_t total = stats->cache_hits + stats->cache_misses;
  const double rate = total ? (double)stats->cache_hits / (double)total : 1;
  const gp_trial_t kept = keeping(findings), *remedy = NULL;
  double better = 0;
  bool is_late = false; /* true if the pool learned too late that work was complete */
  char reason[256] = "", only[GP_NUMBER_BYTES + 8];

  if (total < ENOUGH_ALLOCATIONS || rate >= GP_GOOD_HIT_RATE ||
      gp_stats_known(findings->summary->snapshot, device->device, offsetof(gp_stats_t, cache_hits)) !=
          GP_KNOWN ||
      strcmp(gp_findings_setting(findings, "type"), "unpooled") == 0)
    return;
  if (is_first(device)) {
    snprintf(reason, sizeof(reason),
        ": for most of %s it had no idle memory, because the program had not yet freed earlier allocations",
        stats->cache_hits ? "the others" : "them");
  } else if (kept.id != GP_OPTION_COUNT && (better = try(findings, ordinal, &kept, rate)) > 0) {
    remedy = &kept;
    snprintf(reason, sizeof(reason), ": %s released memory that was requested again",
        gp_option_table[kept.id].variable);
  } else if (try(findings, ordinal, &at_once, rate) > 0) {
    is_late = true;
    snprintf(reason, sizeof(reason),
        ": the pool did not know yet that the device had finished with the freed memory");
  } else if (strcmp(gp_findings_setting(findings, "type"), "naive") == 0 &&
             (better = try(findings, ordinal, &round, rate)) > 0) {
    remedy = &round;
    snprintf(reason, sizeof(reason), ": the idle blocks had other sizes");
  } else if (gp_summary_detail_count(findings->summary, "trim", "reserve") ||
             gp_summary_detail_count(findings->summary, "trim", "oom")) {
    snprintf(reason, sizeof(reason), ": memory was tight, so idle blocks were released to the driver");
  }
  snprintf(only, sizeof(only), "%s%s", stats->cache_hits ? "Only " : "None",
      stats->cache_hits ? GP_AS_PERCENT(rate) : "");
  gp_finding_t *finding =
      gp_findings_say_as(findings, is_first(device) ? GP_SEVERITY_NOTE : GP_SEVERITY_WARNING,
          GP_FINDING(hit_rate), ordinal, only, GP_AS_PLURAL(total, "allocation"), ordinal, reason);
  if (remedy) {
    const char *name = gp_option_table[remedy->id].variable;
    gp_findings_advise(findings, finding, GP_ADVICE(hit_rate), name, remedy->value, GP_AS_PERCENT(better));
    gp_findings_set(findings, finding, name, remedy->value);
  }
  if (is_late)
    advise_facts(findings, finding, device);
}
