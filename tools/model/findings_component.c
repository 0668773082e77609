#include "tools/model/finding_judges.h"

#include <string.h>

#include "base/size.h"
#include "tools/model/component.h"
#include "tools/model/oom_events.h"
#include "tools/saturated.h"
#include "tools/output.h"

#define OTHERS_SHARE 0.1
#define OTHERS_BYTES (32 * GP_MIB)
#define SHOWN        4

static bool is_of_others(const gp_site_t *site)
{
  return !site->is_unknown && strcmp(site->name, gp_component_name(GP_COMPONENT_PROGRAM)) != 0;
}

/* Reports the components that use a device's memory. `use` is sorted by `measure`. */
static void judge_use(gp_findings_t *findings, const gp_component_use_t *use, gp_site_measure_t measure)
{
  uint64_t others = 0, whole = use->sites.sums[measure].bytes;
  gp_sentence_t list = {.used = 0};
  size_t shown = 0;

  for (size_t i = 0; i < use->sites.count; i++)
    others = gp_add_saturated(
        others, is_of_others(&use->sites.sites[i]) ? use->sites.sites[i].flat[measure].bytes : 0);
  if (others < OTHERS_BYTES || (double)others < OTHERS_SHARE * (double)whole)
    return;
  for (size_t i = 0; i < use->sites.count && shown < SHOWN; i++) {
    const gp_site_t *site = &use->sites.sites[i];
    if (!is_of_others(site) || !site->flat[measure].bytes)
      continue;
    gp_sentence_add(
        &list, "%s by %s %s", shown ? "," : "", site->name, GP_AS_SIZE(site->flat[measure].bytes));
    shown++;
  }
  gp_findings_say(findings, GP_FINDING(components), use->device, GP_AS_SIZE(whole), use->device,
      measure == GP_SITE_LIVE ? "when memory ran out" : gp_findings_peak(findings),
      GP_AS_PERCENT((double)others / (double)whole), list.text);
}

/* Reports the components whose memory was in use on the device when memory ran out. */
static void judge_oom(gp_findings_t *findings, int device, uint32_t moment)
{
  const gp_summary_t *summary = findings->summary;
  gp_moments_t moments = {.is_of_one = true, .device = device, .at = moment};
  gp_component_use_t use;

  if (gp_component_use_init(&use, &summary->lifetimes, summary->filter, &moments, device)) {
    findings->out_of_memory = true;
  } else {
    gp_sites_sort(&use.sites, GP_SITE_LIVE, false);
    judge_use(findings, &use, GP_SITE_LIVE);
  }
  gp_component_use_fini(&use);
}

void gp_findings_judge_components(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const gp_oom_events_t *ooms = &summary->ooms;

  for (size_t i = 0; i < summary->device_count && !findings->out_of_memory; i++) {
    int device = summary->devices[i].device->device;
    size_t main = gp_oom_events_main(ooms, device);
    if (main != SIZE_MAX && ooms->events[main].device == device && ooms->events[main].has_moment)
      judge_oom(findings, device, ooms->events[main].moment);
    else
      judge_use(findings, &summary->devices[i].components, GP_SITE_PEAK);
  }
}
