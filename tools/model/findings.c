/*
 * Each function knows one thing to say; it gives advice only where that follows from the figures.
 */
#include "tools/model/findings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/util/size.h"
#include "tools/model/findings_device.h"
#include "tools/model/owners.h"
#include "tools/output.h"
#include "trace/format/oom.h"

/* A snapshot of another tool has no report of it, but the event, and the blocks that could not serve it. */
static void judge_last_oom(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const gp_snapshot_events_t *events = &summary->snapshot->events;
  const gp_column_t *ordinals = events->columns[GP_COLUMN_DEVICE];
  const gp_column_t *sizes = events->columns[GP_COLUMN_SIZE];
  char asked[GP_SIZE_TEXT_BYTES], held[GP_SIZE_TEXT_BYTES], idle[GP_SIZE_TEXT_BYTES],
      largest[GP_SIZE_TEXT_BYTES];
  const gp_summary_device_t *device = NULL;
  size_t last = events->count;

  while (last > 0 && gp_snapshot_event_kind(events, last - 1) != GP_EVENT_OOM)
    last--;
  if (strcmp(gp_findings_reason(findings), "oom") != 0 || last == 0 || !sizes)
    return;
  for (size_t i = 0; i < summary->device_count; i++) {
    if (!ordinals || summary->devices[i].device->device == gp_column_get(ordinals, last - 1))
      device = &summary->devices[i];
  }
  if (!device)
    return;
  uint64_t requested = (uint64_t)gp_column_get(sizes, last - 1);
  gp_size_format(device->idle_bytes, idle);
  gp_size_format(device->largest_idle, largest);
  gp_finding_t *finding = gp_findings_say(findings, GP_SEVERITY_ERROR, "oom", device->device->device,
      "Out of memory on device %d: asked for %s; the program held %s, and of %s that were idle the largest "
      "block had %s%s.",
      device->device->device, gp_size_format(requested, asked),
      gp_size_format(device->device->stats.requested_bytes.current, held), idle, largest,
      device->largest_idle < requested ? ", too small" : "");
  if (device->idle_bytes >= requested && device->largest_idle < requested)
    gp_findings_advise(findings, finding, "the idle memory is in pieces: gpupool frag maps them.");
}

/* The message has every figure, and the advice at its end. */
static void judge_oom_message(gp_findings_t *findings, int device, const char *message)
{
  const char *facts_end = strstr(message, GP_OOM_ADVICE_BREAK);
  int length = facts_end ? (int)(facts_end - message) : (int)strlen(message);
  gp_finding_t *finding = gp_findings_say(findings, GP_SEVERITY_ERROR, "oom", device, "%c%.*s.",
      message[0] == 'o' ? 'O' : message[0], length - 1, message + 1);
  if (facts_end)
    gp_findings_advise(findings, finding, "%s.", facts_end + strlen(GP_OOM_ADVICE_BREAK));
}

static void judge_oom(gp_findings_t *findings)
{
  const cJSON *oom = cJSON_GetObjectItemCaseSensitive(findings->summary->snapshot->root, "oom");
  const char *message = gp_snapshot_text(oom, "message");
  char asked[GP_SIZE_TEXT_BYTES], held[GP_SIZE_TEXT_BYTES];
  uint64_t ordinal = 0, requested = 0, live = 0; /* what the snapshot does not have is 0 */

  if (!oom) {
    judge_last_oom(findings);
    return;
  }
  (void)gp_snapshot_uint(oom, "device", &ordinal);
  (void)gp_snapshot_uint(oom, "requested", &requested);
  (void)gp_snapshot_uint(oom, "live", &live);
  int device = ordinal < GP_SNAPSHOT_DEVICES ? (int)ordinal : GP_FINDING_ALL;
  if (device != GP_FINDING_ALL && !gp_filter_has_device(findings->summary->filter, device))
    return;
  if (message[0])
    judge_oom_message(findings, device, message);
  else
    gp_findings_say(findings, GP_SEVERITY_ERROR, "oom", device,
        "Out of memory on device %d: asked for %s while the program held %s.", device,
        gp_size_format(requested, asked), gp_size_format(live, held));
}

#define OWNER_BYTES   160
#define OWNER_COLUMNS 60

static char *owner_name(const gp_owner_t *owner, char *buffer)
{
  char name[1024], through[1024];
  snprintf(buffer, OWNER_BYTES, "%s%s%s", gp_text_shorten(owner->function, OWNER_COLUMNS, name, sizeof(name)),
      owner->through ? " through " : "",
      owner->through ? gp_text_shorten(owner->through, OWNER_COLUMNS, through, sizeof(through)) : "");
  return buffer;
}

/*
 * The owners of the memory: of what the program holds when memory ran out or it ended suddenly, else of what
 * it held at the peak. Without stacks no owner is known, and the live sizes are said by another finding.
 */
static void judge_owners(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const gp_sites_t *sites = &summary->sites;
  bool is_oom = strcmp(gp_findings_reason(findings), "oom") == 0;
  bool is_end = is_oom || strcmp(gp_findings_reason(findings), "recovered") == 0;
  gp_site_measure_t measure = is_end && sites->sums[GP_SITE_LIVE].bytes ? GP_SITE_LIVE : GP_SITE_PEAK;
  uint64_t sum = sites->sums[measure].bytes;
  char text[GP_OWNERS * (OWNER_BYTES + 64)] = "", name[OWNER_BYTES], size[GP_SIZE_TEXT_BYTES],
                                       percent[GP_NUMBER_BYTES];
  gp_owners_t owners = {.count = 0};
  size_t used = 0;

  if (sites->by == GP_SITE_BY_SIZE || !sum)
    return;
  if (gp_owners_init(&owners, &summary->lifetimes, summary->filter, measure))
    findings->out_of_memory = true;
  for (size_t i = 0; i < owners.count; i++)
    used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %s (%s)", i ? ", " : "",
        owner_name(&owners.owners[i], name), gp_size_format(owners.owners[i].bytes, size),
        gp_number_percent((double)owners.owners[i].bytes / (double)sum, percent));
  if (owners.count) {
    gp_finding_t *finding =
        gp_findings_say(findings, is_oom ? GP_SEVERITY_ERROR : GP_SEVERITY_NOTE, "owners", GP_FINDING_ALL,
            "Of the %s that the program held%s, the biggest owner%s %s.", gp_size_format(sum, size),
            is_oom                    ? ""
            : measure == GP_SITE_LIVE ? " in the end"
                                      : " at its peak",
            owners.count > 1 ? "s are" : " is", text);
    if (is_oom)
      gp_findings_advise(findings, finding, "free or shrink what %s holds, %s of it all.",
          gp_text_shorten(owners.owners[0].function, OWNER_COLUMNS, name, sizeof(name)),
          gp_number_percent((double)owners.owners[0].bytes / (double)sum, percent));
  }
  gp_owners_fini(&owners);
}

/* A record tells where it ends and not why. */
static void judge_end(gp_findings_t *findings)
{
  char duration[GP_NUMBER_BYTES];
  if (strcmp(gp_findings_reason(findings), "recovered") != 0)
    return;
  gp_finding_t *finding = gp_findings_say(findings, GP_SEVERITY_WARNING, "sudden_end", GP_FINDING_ALL,
      "The program did not come to its end: it was killed, crashed, or left by _exit. Its record ends at %s.",
      gp_number_duration(findings->summary->until_ns, duration));
  gp_findings_advise(findings, finding,
      "where it was killed without a word, the host may have been out of memory: the kernel's log (dmesg) "
      "names whom it "
      "killed, and the job scheduler says which limit was reached.");
}

static void judge_modes(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  if (gp_summary_detail_count(summary, "mode", "dead"))
    gp_findings_say(findings, GP_SEVERITY_ERROR, "dead", GP_FINDING_ALL,
        "The device reported an error that stays, and from then on every call went to the driver unpooled.");
  if (gp_summary_detail_count(summary, "mode", "aside"))
    gp_findings_say(findings, GP_SEVERITY_WARNING, "aside", GP_FINDING_ALL,
        "The pool stood aside for a reason that it told on stderr or in GPUPOOL_LOG, and from then on every "
        "call went to "
        "the driver unpooled.");
  uint64_t lost = gp_summary_detail_count(summary, "free_requested", "context_lost");
  char count[GP_NUMBER_BYTES];
  if (lost)
    gp_findings_say(findings, GP_SEVERITY_NOTE, "context_lost", GP_FINDING_ALL,
        "%s that the program had not freed went with a context that was destroyed or reset.",
        gp_number_plural(lost, "allocation", count));
}

static void judge_recording(gp_findings_t *findings)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  const char *trace = gp_findings_setting(findings, "trace");
  char count[GP_NUMBER_BYTES], since[GP_NUMBER_BYTES];

  if (strcmp(trace, "off") == 0 || strcmp(trace, "state") == 0)
    gp_findings_say(findings, GP_SEVERITY_NOTE, "no_events", GP_FINDING_ALL,
        "No events were recorded (GPUPOOL_TRACE=%s).", trace);
  if (snapshot->dropped_events)
    gp_findings_say(findings, GP_SEVERITY_NOTE, "dropped_events", GP_FINDING_ALL,
        "The events begin at %s: %s older ones were dropped (GPUPOOL_TRACE_EVENTS=%s). Statistics and live "
        "blocks are "
        "complete.",
        gp_number_duration(snapshot->recorded_since_ns, since),
        gp_number_count(snapshot->dropped_events, count), gp_findings_setting(findings, "trace_events"));
  else if (snapshot->recorded_since_ns)
    gp_findings_say(findings, GP_SEVERITY_NOTE, "late_events", GP_FINDING_ALL,
        "The events begin at %s: recording was off before.",
        gp_number_duration(snapshot->recorded_since_ns, since));
  for (size_t i = 0; i < snapshot->note_count; i++)
    gp_findings_say(findings, GP_SEVERITY_WARNING, "incomplete", GP_FINDING_ALL,
        "The file is incomplete: %s.", snapshot->notes[i]);
}

/* One sentence on the whole, said first if nothing worse was found. */
static void judge_whole(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  uint64_t hits = 0, total = 0;
  bool has_problem = findings->count > 0 && findings->items[0].severity >= GP_SEVERITY_WARNING;
  char percent[GP_NUMBER_BYTES], count[GP_NUMBER_BYTES];
  const char *begin = has_problem ? "" : "No problem found: ";

  for (size_t i = 0; i < summary->device_count; i++) {
    hits += summary->devices[i].device->stats.cache_hits;
    total += summary->devices[i].device->stats.cache_hits + summary->devices[i].device->stats.cache_misses;
  }
  if (!total) {
    gp_findings_say(findings, has_problem ? GP_SEVERITY_NOTE : GP_SEVERITY_GOOD, "nothing", GP_FINDING_ALL,
        "The program asked for no memory that could be pooled.");
  } else if (strcmp(gp_findings_setting(findings, "type"), "unpooled") == 0) {
    gp_findings_say(findings, GP_SEVERITY_NOTE, "unpooled", GP_FINDING_ALL,
        "%s, each of them a driver call (GPUPOOL_TYPE=unpooled).",
        gp_number_plural(total, "allocation", count));
  } else if (!has_problem || (double)hits >= GP_GOOD_HIT_RATE * (double)total) {
    gp_number_percent((double)hits / (double)total, percent);
    gp_findings_say(findings, has_problem ? GP_SEVERITY_NOTE : GP_SEVERITY_GOOD, "served", GP_FINDING_ALL,
        "%s%s of %s %s served from the pool.", begin, percent, gp_number_plural(total, "allocation", count),
        total == 1 ? "was" : "were");
  }
}

int gp_findings_init(gp_findings_t *findings, const gp_summary_t *summary)
{
  *findings = (gp_findings_t){.summary = summary};
  judge_oom(findings);
  judge_end(findings);
  judge_owners(findings);
  judge_modes(findings);
  for (size_t i = 0; i < summary->device_count; i++)
    gp_findings_judge_device(findings, &summary->devices[i]);
  judge_recording(findings);
  judge_whole(findings);
  /* The good news goes first. */
  size_t last = findings->count;
  if (last > 1 && findings->items[last - 1].severity == GP_SEVERITY_GOOD) {
    gp_finding_t good = findings->items[last - 1];
    memmove(&findings->items[1], &findings->items[0], (last - 1) * sizeof(good));
    findings->items[0] = good;
  }
  return findings->out_of_memory ? ENOMEM : 0;
}
