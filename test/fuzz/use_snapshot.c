#include "use_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tools/export/export.h"
#include "tools/report/summary_report.h"

static void summarize(const gp_snapshot_t *snapshot)
{
  static gp_summary_t summary; /* too large for a stack */
  static gp_findings_t findings;
  static const gp_filter_t everything = {.device = GP_REQUEST_ALL_DEVICES, .until_ns = UINT64_MAX};
  gp_output_t output;
  FUZZ_CHECK(gp_summary_init(&summary, snapshot, "fuzz", &everything) == 0);
  FUZZ_CHECK(gp_findings_init(&findings, &summary, NULL, NULL) == 0);
  FUZZ_CHECK(gp_output_open(&output, NULL, false, true) == 0);
  gp_summary_print(&findings, true, &output);
  gp_output_discard(&output);
  cJSON *json = cJSON_CreateObject();
  gp_summary_json(&findings, json);
  cJSON_Delete(json);
  gp_findings_fini(&findings);
  gp_summary_fini(&summary);
}

static void export_all(const gp_snapshot_t *snapshot)
{
  static int (*const formats[])(gp_export_t * export) = {gp_export_pytorch, gp_export_pytorch_json,
      gp_export_perfetto, gp_export_speedscope, gp_export_folded, gp_export_csv};
  static FILE *nowhere;
  gp_export_t export;

  if (!nowhere)
    nowhere = fopen("/dev/null", "w");
  FUZZ_CHECK(nowhere != NULL);
  for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
    FUZZ_CHECK(gp_export_init(&export, snapshot, "fuzz", GP_EXPORT_ALL) == 0);
    export.stream = nowhere;
    int error = formats[i](&export);
    FUZZ_CHECK(error == 0 || error == EOVERFLOW); /* what is shared is not written any number of times */
    gp_export_fini(&export);
  }
}

void fuzz_use_snapshot(gp_snapshot_t *snapshot, const gp_snapshot_error_t *error, size_t size)
{
  if (!snapshot) {
    FUZZ_CHECK(error->offset <= size && error->text[0] && strlen(error->text) < sizeof(error->text));
    return;
  }
  summarize(snapshot);
  export_all(snapshot);
  gp_snapshot_destroy(snapshot);
}
