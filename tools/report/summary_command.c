/*
 * gpupool summary: reports what happened in programs, from their snapshots.
 */
#include <errno.h>
#include <string.h>

#include "tools/report/report.h"
#include "tools/report/summary_overview.h"
#include "tools/report/summary_report.h"
#include "tools/tool.h"
#include "tools/tune/tune.h"

typedef struct own {
  bool full;
  uint64_t most;
  gp_overview_t *overview; /* table of all files, if there are many */
} own_t;

static const gp_parameter_t parameters[] = {
    {"full", 0, NULL, GP_PARAMETER_FLAG, offsetof(own_t, full), NULL, 0, 0,
        "everything of each file, and of each device, however many there are"},
    {"top", 'n', "N", GP_PARAMETER_COUNT, offsetof(own_t, most), NULL, 0, 1000000000,
        "of many files only the first N; 0: all (default: 20)"},
};

static bool is_overview(const gp_request_t *request, const void *own)
{
  return request->file_count >= GP_REPORT_MANY && !request->json && !((const own_t *)own)->full;
}

static int check(const gp_request_t *request, void *own)
{
  if (is_overview(request, own) && gp_overview_init(((own_t *)own)->overview, (size_t)request->file_count))
    return gp_report_out_of_memory(request->command);
  return 0;
}

static const gp_request_form_t form = {
    .command = "summary",
    .files = "FILE...",
    .least_files = 1,
    .about = "Shows what a program did with GPU memory, from the snapshot that it left (FILE,\n"
             "or - for stdin): what went wrong and what to try, then the figures of each\n"
             "device and the events. Statistics are of whole devices, whatever is selected.\n"
             "If memory ran out earlier, or with --at, a column shows the figures of then.\n"
             "Four files or more become one table, and what stands out comes first.\n",
    .takes_moment = true,
    .check = check,
    .parameters = parameters,
    .parameter_count = sizeof(parameters) / sizeof(parameters[0]),
};

static int report(const gp_report_input_t *inputs, int count, gp_output_t *output, cJSON *object)
{
  static gp_summary_t summary; /* too large for a stack */
  static gp_findings_t findings;
  const gp_report_input_t *input = &inputs[0];
  const own_t *own = input->own;
  int status = GP_EXIT_DONE;
  (void)count;

  int error =
      gp_summary_init_at(&summary, input->snapshot, input->file, input->filter, input->request, &status);
  if (!error && !status)
    error = gp_summary_findings(&findings, &summary);
  if (error) {
    gp_message("%s: %s", input->file, strerror(error));
    status = GP_EXIT_INPUT;
  } else if (!status && input->request->json) {
    gp_summary_json(&findings, object);
  } else if (!status && is_overview(input->request, own)) {
    gp_overview_set(&own->overview->rows[input->number], &findings);
  } else if (!status) {
    gp_summary_print(&findings, own->full, output);
  }
  gp_findings_fini(&findings);
  gp_summary_fini(&summary);
  return status;
}

static void end(void *arg, gp_output_t *output)
{
  const own_t *own = arg;
  if (own->overview->count)
    gp_overview_print(own->overview, own->most, output);
}

int gp_command_summary(int argc, char **argv)
{
  gp_overview_t overview = {.count = 0};
  own_t own = {.most = 20, .overview = &overview};

  int status = gp_report_run_each(&form, argc, argv, &own, GP_SUMMARY_COLUMNS, report, is_overview, end);
  gp_overview_fini(&overview);
  return status;
}
