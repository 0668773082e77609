#include <errno.h>
#include <fcntl.h>

#include "base/log.h"
#include "tools/replay/workload_parts.h"
#include "tools/report/report.h"
#include "tools/report/summary_report.h"
#include "tools/report/tune_report.h"

int gp_summary_workload(gp_workload_t *workload, const gp_snapshot_t *snapshot, int device)
{
  static const gp_ready_t recorded = {GP_READY_RECORDED, 0};

  gp_log_init(0, open("/dev/null", O_WRONLY | O_CLOEXEC)); /* drops the pool's messages, which are for a
                                                              program's user */
  int error = gp_workload_of_snapshot(workload, snapshot, device, true);
  return error ? error : gp_workload_settle(workload, &recorded);
}

int gp_summary_tune(gp_tuning_t *tuning, const gp_snapshot_t *snapshot, int device)
{
  gp_workload_t workload = {.step_count = 0};

  *tuning = (gp_tuning_t){.workloads = &workload, .workload_count = 1};
  int error = gp_summary_workload(&workload, snapshot, device);
  if (!error)
    error = gp_tune(tuning);
  tuning->workloads = NULL;
  gp_workload_fini(&workload);
  return error;
}

void gp_summary_tuning_print(const gp_tuning_t *tuning, const char *file, gp_output_t *output)
{
  const gp_score_t *now = &tuning->now, *best = &tuning->score;
  char held[2][GP_SIZE_TEXT_BYTES], cost[2][GP_NUMBER_BYTES];

  fprintf(output->stream, "\n%sOther settings%s\n", gp_output_style(output, GP_STYLE_HEADING),
      gp_output_style(output, GP_STYLE_PLAIN));
  if (!tuning->workload_count) {
    fputs("  No request is recorded that settings could be tried on.\n", output->stream);
    return;
  }
  fputs("  ", output->stream);
  gp_tune_print_settings(tuning, " ", output->stream);
  fprintf(output->stream,
      "\n  would have held at most %s instead of %s, and spent %s in the driver instead of %s:\n"
      "  so say the recorded requests, served again on an H100 that exists on paper.\n",
      gp_size_format(best->held, held[0]), gp_size_format(now->held, held[1]),
      gp_number_duration((uint64_t)best->cost_ns, cost[0]),
      gp_number_duration((uint64_t)now->cost_ns, cost[1]));
  gp_report_next(output, "tune", file, "");
}
