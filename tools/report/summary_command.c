/*
 * gpupool summary: shows what happened, from snapshots.
 */
#include <errno.h>
#include <string.h>

#include "tools/report/report.h"
#include "tools/report/summary_report.h"
#include "tools/report/tune_report.h"
#include "tools/tool.h"

typedef struct own {
  bool tune;
} own_t;

static const gp_parameter_t parameters[] = {
    {"tune", 0, NULL, GP_PARAMETER_FLAG, offsetof(own_t, tune), NULL, 0, 0,
        "try other types and settings on the recorded requests, and say what they would gain (as gpupool tune)"},
};

static const gp_request_form_t form = {
    .command = "summary",
    .files = "FILE...",
    .least_files = 1,
    .about = "Says what a program did with GPU memory, from the snapshot that it left (FILE,\n"
             "or - for stdin): what went wrong and what to try, then the figures of each\n"
             "device and the events. Statistics are of whole devices, whatever is selected.\n"
             "Where memory ran out earlier, or with --at, a column shows the figures of then.\n",
    .takes_moment = true,
    .parameters = parameters,
    .parameter_count = sizeof(parameters) / sizeof(parameters[0]),
};

void gp_command_summary_help(void)
{
  gp_request_help(&form);
}

static int report(const gp_report_input_t *inputs, int count, gp_output_t *output, cJSON *object)
{
  static gp_summary_t summary; /* too large for a stack */
  static gp_findings_t findings;
  const gp_report_input_t *input = &inputs[0];
  static gp_tuning_t tuning;
  const own_t *own = input->own;
  int status = GP_EXIT_DONE;
  (void)count;

  int error =
      gp_summary_init_at(&summary, input->snapshot, input->file, input->filter, input->request, &status);
  if (!error && !status)
    error = gp_summary_findings(&findings, &summary);
  if (!error && !status && own->tune) {
    error = gp_summary_tune(&tuning, input->snapshot, input->request->device);
    if (error == ENODATA) { /* the tuning section says so */
      tuning.workload_count = 0;
      error = 0;
    }
  }
  if (error) {
    gp_message("%s: %s", input->file, strerror(error));
    status = GP_EXIT_INPUT;
  } else if (!status && input->request->json) {
    gp_summary_json(&findings, own->tune ? &tuning : NULL, object);
  } else if (!status) {
    gp_summary_print(&findings, own->tune ? &tuning : NULL, output);
  }
  gp_findings_fini(&findings);
  gp_summary_fini(&summary);
  return status;
}

int gp_command_summary(int argc, char **argv)
{
  own_t own = {false};
  return gp_report_run(&form, argc, argv, &own, GP_SUMMARY_COLUMNS, true, report);
}
