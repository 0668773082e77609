#include "tools/model/finding_judges.h"

#include <ctype.h>
#include <string.h>

#include "tools/saturated.h"
#include "tools/output.h"

#define LATE_SHARE  0.5 /* of the peak; if more was in use before the first event, recording began late */
#define SHOWN_NOTES 2

void gp_findings_judge_history(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  uint64_t most = 0, current = 0, blocks = 0, reserved = 0;
  gp_memory_t before; /* state before the first event */
  gp_finding_t *finding;

  if (!summary->snapshot->lacks_counters)
    return;
  for (size_t i = 0; i < summary->device_count; i++) {
    const gp_stats_t *stats = &summary->devices[i].device->stats;
    most = gp_add_saturated(most, stats->requested_bytes.peak);
    current = gp_add_saturated(current, stats->requested_bytes.current);
    blocks = gp_add_saturated(blocks, stats->allocation.current);
    reserved = gp_add_saturated(reserved, stats->reserved_bytes.current);
  }
  if (summary->snapshot->lacks_history) {
    finding = gp_findings_say(findings, GP_FINDING(no_history), GP_FINDING_ALL, GP_AS_SIZE(current),
        GP_AS_PLURAL(blocks, "block"), GP_AS_SIZE(reserved));
    gp_findings_advise(findings, finding, GP_ADVICE(history));
    return;
  }
  gp_memory_held(&summary->lifetimes, summary->filter, GP_REQUEST_ALL_DEVICES, 0, false, &before);
  uint64_t early = gp_memory_requested(&before);
  if (most == 0 || (double)early < LATE_SHARE * (double)most)
    return;
  finding = gp_findings_say(findings, GP_FINDING(late_history), GP_FINDING_ALL, GP_AS_SIZE(early),
      GP_AS_PERCENT((double)early / (double)most));
  if (summary->snapshot->is_pytorch && summary->snapshot->lacks_segments)
    gp_findings_advise(findings, finding, GP_ADVICE(history_of_profile));
  else if (summary->snapshot->is_pytorch)
    gp_findings_advise(findings, finding, GP_ADVICE(history));
}

static void judge_notes(gp_findings_t *findings)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  size_t damages = 0;

  for (size_t i = 0; i < snapshot->note_count; i++) {
    const char *note = snapshot->notes[i];
    if (snapshot->note_is_usual[i])
      gp_findings_say(findings, GP_FINDING(incomplete_as_usual), GP_FINDING_ALL,
          toupper((unsigned char)note[0]), note + 1);
    else if (damages++ < SHOWN_NOTES)
      gp_findings_say(findings, GP_FINDING(incomplete), GP_FINDING_ALL, note);
  }
  if (damages > SHOWN_NOTES)
    gp_findings_say(findings, GP_FINDING(incomplete_elsewhere), GP_FINDING_ALL,
        GP_AS_PLURAL(damages - SHOWN_NOTES, "more place"));
}

void gp_findings_judge_recording(gp_findings_t *findings)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  const char *trace = gp_findings_setting(findings, "trace");

  if (strcmp(trace, "off") == 0 || strcmp(trace, "state") == 0)
    gp_findings_say(findings, GP_FINDING(no_events), GP_FINDING_ALL, trace);
  if (snapshot->dropped_events)
    gp_findings_say(findings, GP_FINDING(dropped_events), GP_FINDING_ALL,
        GP_AS_MOMENT(snapshot, snapshot->recorded_since_ns), GP_AS_COUNT(snapshot->dropped_events),
        gp_findings_setting(findings, "trace_events"));
  else if (snapshot->recorded_since_ns)
    gp_findings_say(findings, GP_FINDING(late_events), GP_FINDING_ALL,
        GP_AS_MOMENT(snapshot, snapshot->recorded_since_ns));
  judge_notes(findings);
}

const char *gp_findings_peak(const gp_findings_t *findings)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  return snapshot->lacks_history                               ? "when the file was written"
         : snapshot->recorded_since_ns > 0                     ? "at the peak of what is recorded"
         : gp_findings_have(findings, GP_FINDING_late_history) ? "at the peak of what is recorded"
                                                               : "at its peak";
}
