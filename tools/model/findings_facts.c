#include "tools/model/findings_facts.h"

#define FENCES_SINCE 12050 /* cuCtxRecordEvent */

/* The driver's version, as cuDriverGetVersion returns it; 0: unknown. */
static int driver_version(const gp_snapshot_t *snapshot)
{
  const cJSON *process = cJSON_GetObjectItemCaseSensitive(snapshot->root, "process");
  const cJSON *version = cJSON_GetObjectItemCaseSensitive(process, "driver_version");

  return cJSON_IsNumber(version) ? version->valueint : 0;
}

bool gp_findings_advise_facts(
    gp_findings_t *findings, gp_finding_t *finding, const gp_summary_device_t *device)
{
  int version = driver_version(findings->summary->snapshot);

  if (version == 0 || version >= FENCES_SINCE || device->device->stats.fences > 0)
    return false;
  gp_findings_advise(findings, finding,
      "The driver (%d.%d) has no fence over all streams, which it has since %d.%d; without it cudaDeviceSynchronize now and then tells the pool what the device is done with; copies to the host in the default stream do, too.",
      version / 1000, version % 1000 / 10, FENCES_SINCE / 1000, FENCES_SINCE % 1000 / 10);
  gp_findings_act(findings, finding, "synchronize");
  return true;
}
