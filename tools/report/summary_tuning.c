/*
 * What other settings would have done with the recorded requests of a summary.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/log.h"
#include "tools/saturated.h"
#include "tools/replay/workload_parts.h"
#include "tools/report/report.h"
#include "tools/report/summary_report.h"
#include "tools/report/tune_report.h"

/* Fills a zeroed workload, which the caller ends with gp_workload_fini whatever this returns. */
static int make_workload(gp_workload_t *workload, const gp_snapshot_t *snapshot, int device)
{
  static const gp_ready_t recorded = {GP_READY_RECORDED, 0};

  gp_log_init(0, open("/dev/null", O_WRONLY | O_CLOEXEC)); /* drops the pool's messages, which are for a
                                                              program's user */
  int error = gp_workload_of_snapshot(workload, snapshot, device, true);
  return error ? error : gp_workload_settle(workload, &recorded);
}

/* Another type is tried where it may matter, and where that takes a moment only. */
#define LIVES_MOST   100000 /* each an allocation and a free */
#define EXCESS_SHARE 0.1
#define EXCESS_BYTES (64 * GP_MIB)

static bool is_worth_trying(const gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;

  if (summary->lifetimes.life_count > LIVES_MOST || !gp_findings_know_settings(findings) ||
      strcmp(gp_findings_setting(findings, "type"), "unpooled") == 0)
    return false;
  for (size_t i = 0; i < summary->device_count; i++) {
    const gp_stats_t *stats = &summary->devices[i].device->stats;
    uint64_t excess = gp_subtract_saturated(stats->reserved_bytes.peak, stats->requested_bytes.peak);
    if (excess >= EXCESS_BYTES && (double)excess >= EXCESS_SHARE * (double)stats->reserved_bytes.peak)
      return true;
  }
  return summary->has_oom;
}

static gp_type_figures_t figures_of(const char *type, const gp_score_t *score)
{
  return (gp_type_figures_t){.type = type,
      .held = score->held,
      .calls = score->calls,
      .refused = score->refused,
      .busy_ns = (uint64_t)score->busy_ns};
}

int gp_summary_findings(gp_findings_t *findings, const gp_summary_t *summary)
{
  static gp_tuning_t tuning; /* too large for a stack */
  static gp_tried_types_t tried;
  gp_workload_t workload = {.step_count = 0};
  int error = 0;

  *findings = (gp_findings_t){.summary = summary};
  tried.count = 0;
  if (is_worth_trying(findings)) {
    error = make_workload(&workload, summary->snapshot, summary->filter->device);
    tuning = (gp_tuning_t){.workloads = &workload, .workload_count = 1};
    if (!error)
      error = gp_tune_types(&tuning);
    for (int type = 0; type < gp_candidate_types() && !error; type++)
      if (tuning.is_scored[type])
        tried.types[tried.count++] = figures_of(gp_candidate_type_name(type), &tuning.types[type]);
    tried.now = figures_of("", &tuning.now);
    tried.live = tuning.now.live;
    tried.is_complete = !workload.is_partial;
    gp_workload_fini(&workload);
  }
  if (error == ENODATA || error == EOVERFLOW) /* nothing to try, or too much to count */
    error = 0;
  return error ? error : gp_findings_init(findings, summary, tried.count ? &tried : NULL);
}

int gp_summary_tune(gp_tuning_t *tuning, const gp_snapshot_t *snapshot, int device)
{
  gp_workload_t workload = {.step_count = 0};

  *tuning = (gp_tuning_t){.workloads = &workload, .workload_count = 1};
  int error = make_workload(&workload, snapshot, device);
  if (!error)
    error = gp_tune(tuning);
  tuning->workloads = NULL;
  gp_workload_fini(&workload);
  return error;
}

void gp_summary_tuning_print(const gp_tuning_t *tuning, const char *file, gp_output_t *output)
{
  const gp_score_t *now = &tuning->now, *best = &tuning->score;

  gp_output_heading(output, "Other settings");
  if (!tuning->workload_count) {
    fputs("  No request is recorded that settings could be tried on.\n", output->stream);
    return;
  }
  fputs("  ", output->stream);
  gp_tune_print_settings(tuning, " ", output->stream);
  fprintf(output->stream,
      "\n  would have held at most %s instead of %s, and spent %s in the driver instead of %s:\n"
      "  so say the recorded requests, served again on an H100 that exists on paper.\n",
      GP_AS_SIZE(best->held), GP_AS_SIZE(now->held), GP_AS_DURATION((uint64_t)best->cost_ns),
      GP_AS_DURATION((uint64_t)now->cost_ns));
  gp_report_next(output, "tune", file, "");
}
