/*
 * Replays the requests of a summary's recording with other pool types.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/log.h"
#include "tools/saturated.h"
#include "tools/replay/workload_parts.h"
#include "tools/model/findings.h"
#include "tools/replay/trial.h"
#include "tools/tune/tune.h"

/* Makes a workload from the snapshot. If `oom` is not NULL, ends the workload at the request that failed, and
 * appends a repetition of the last requests. Fills a zeroed workload. The caller calls gp_workload_fini in
 * any case. Returns 0 or an errno. */
static int make_workload(gp_workload_t *workload, const gp_snapshot_t *snapshot, int device,
    gp_ready_kind_t kind, const gp_oom_event_t *oom)
{
  const gp_ready_t ready = {kind, 0};

  /* Drops the pool's messages, which are meant for the user of a program. */
  gp_log_init(0, open("/dev/null", O_WRONLY | O_CLOEXEC));
  int error = gp_workload_of_snapshot(workload, snapshot, device, kind == GP_READY_RECORDED);
  if (!error && oom)
    error = gp_workload_cut(workload, oom->time_ns) ? gp_workload_repeat_end(workload) : ENODATA;
  return error ? error : gp_workload_settle(workload, &ready);
}

/* Other types are tried only if the result may matter, and if the replay is short enough. */
#define LIVES_MOST   100000 /* each life is an allocation and a free */
#define EXCESS_SHARE 0.1
#define EXCESS_BYTES (64 * GP_MIB)

static bool can_try(const gp_findings_t *findings)
{
  return findings->summary->lifetimes.life_count <= LIVES_MOST && gp_findings_know_settings(findings) &&
         strcmp(gp_findings_setting(findings, "type"), "unpooled") != 0;
}

static bool is_worth_trying(const gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;

  if (!can_try(findings) && !(summary->snapshot->is_pytorch && summary->lifetimes.life_count <= LIVES_MOST))
    return false;
  for (size_t i = 0; i < summary->device_count; i++) {
    const gp_stats_t *stats = &summary->devices[i].device->stats;
    uint64_t excess = gp_subtract_saturated(stats->reserved_bytes.peak, stats->requested_bytes.peak);
    if (excess >= EXCESS_BYTES && (double)excess >= EXCESS_SHARE * (double)stats->reserved_bytes.peak)
      return true;
  }
  return summary->has_oom && can_try(findings);
}

static gp_type_figures_t figures_of(const gp_score_t *score)
{
  return (gp_type_figures_t){.type = score->name,
      .held = score->held,
      .calls = score->calls,
      .refused = score->refused,
      .refused_on = UINT64_MAX,
      .busy_ns = (uint64_t)score->busy_ns};
}

static int try(const gp_summary_t *summary, int device, const gp_trial_t *trial, double *ret_hit_rate)
{
  gp_workload_t workload = {.step_count = 0};
  gp_settings_t settings = {.texts = {NULL}};

  if (trial->id < GP_OPTION_COUNT)
    settings.texts[trial->id] = trial->value;
  int error = make_workload(&workload, summary->snapshot, device,
      trial->is_ready_at_once ? GP_READY_AT_ONCE : GP_READY_RECORDED, NULL);
  if (!error)
    error = workload.is_partial ? ENODATA : gp_trial_hit_rate(&workload, &settings, device, ret_hit_rate);
  gp_workload_fini(&workload);
  return error == EOVERFLOW ? ENODATA : error;
}

/* Returns the limit that the library advised, with which it would have served the last request, or NULL. */
static const char *advised_limit(const gp_snapshot_t *snapshot)
{
  const cJSON *oom = cJSON_GetObjectItemCaseSensitive(snapshot->root, "oom");
  const cJSON *remedy = cJSON_GetObjectItemCaseSensitive(oom, "remedy");
  const char *limit = gp_snapshot_text(cJSON_GetObjectItemCaseSensitive(remedy, "settings"), "GPUPOOL_LIMIT");
  return limit[0] ? limit : NULL;
}

/* Scores the recorded pool type with another limit; NULL keeps the recorded one. */
static int try_limit(
    const gp_findings_t *findings, const gp_workload_t *workload, const char *limit, gp_score_t *ret_score)
{
  gp_tuning_t tuning = {.workload = workload};
  gp_settings_t given = {.texts = {NULL}};

  given.texts[GP_OPTION_limit] = limit;
  given.texts[GP_OPTION_type] = gp_findings_setting(findings, "type");
  int error = gp_tune(&tuning, &given, false);
  *ret_score = tuning.scores[0];
  return error;
}

/* Replays the request for which memory ran out, and requests that may follow on that device. Finds out
 * whether another pool type, or the advised limit, would serve them. */
static int try_going_on(gp_tried_types_t *tried, const gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const char *limit = advised_limit(summary->snapshot);
  const gp_settings_t nothing_given = {.texts = {NULL}};
  gp_workload_t workload = {.step_count = 0};
  gp_tuning_t types = {.workload = &workload};
  gp_score_t limited = {.refused = 0}, unlimited = {.held = 0};

  int error = make_workload(
      &workload, summary->snapshot, summary->oom.event.device, GP_READY_RECORDED, &summary->oom.event);
  if (!error)
    error = gp_tune(&types, &nothing_given, false);
  for (size_t i = 0; i < tried->count && !error; i++)
    tried->types[i].refused_on = types.scores[i + 1].refused;
  if (!error && limit)
    error = try_limit(findings, &workload, limit, &limited);
  if (!error && limited.refused > 0)
    error = try_limit(findings, &workload, "none", &unlimited);
  tried->limit_is_short = limited.refused > 0;
  tried->held_on = unlimited.held;
  gp_workload_fini(&workload);
  return error;
}

int gp_summary_findings(gp_findings_t *findings, const gp_summary_t *summary)
{
  static gp_tried_types_t tried;
  const gp_settings_t nothing_given = {.texts = {NULL}};
  gp_workload_t workload = {.step_count = 0};
  gp_tuning_t tuning = {.workload = &workload};
  int error = 0;

  *findings = (gp_findings_t){.summary = summary};
  tried = (gp_tried_types_t){.count = 0};
  if (is_worth_trying(findings)) {
    error = make_workload(&workload, summary->snapshot, summary->filter->device, GP_READY_RECORDED, NULL);
    if (!error)
      error = gp_tune(&tuning, &nothing_given, false);
    for (int i = 1; i < tuning.count && !error; i++)
      tried.types[tried.count++] = figures_of(&tuning.scores[i]);
    tried.now = figures_of(&tuning.scores[0]);
    tried.live = tuning.scores[0].live;
    tried.is_complete = !workload.is_partial;
    gp_workload_fini(&workload);
    if (!error && summary->has_oom && can_try(findings))
      error = try_going_on(&tried, findings);
  }
  if (error == ENODATA || error == EOVERFLOW) /* no requests, or too many */
    error = 0;
  return error ? error
               : gp_findings_init(
                     findings, summary, tried.count ? &tried : NULL, can_try(findings) ? try : NULL);
}
