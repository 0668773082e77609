/*
 * Each function knows one thing to say; it gives advice only where that follows from the figures.
 */
#include "tools/model/findings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/util/options.h"
#include "pool/util/size.h"
#include "tools/model/owners.h"
#include "tools/output.h"
#include "trace/format/oom.h"

#define ENOUGH_ALLOCATIONS 100 /* below, a hit rate says nothing */
#define GOOD_HIT_RATE      0.8
#define ROUNDING_SHARE     0.1
#define ROUNDING_BYTES     (32 * GP_MIB)
#define CACHED_SHARE       0.25
#define CACHED_BYTES       (256 * GP_MIB)
#define WAITS_SHARE        0.01
#define FORWARDED_SHARE    0.5

const char *gp_severity_name(gp_severity_t severity)
{
  static const char *const names[] = {
      [GP_SEVERITY_GOOD] = "good",
      [GP_SEVERITY_NOTE] = "note",
      [GP_SEVERITY_WARNING] = "warning",
      [GP_SEVERITY_ERROR] = "error",
  };
  return names[severity];
}

/* Returns the finding, which is valid until the next one; NULL if there is none. */
static gp_finding_t *__attribute__((format(printf, 5, 6)))
say(gp_findings_t *findings, gp_severity_t severity, const char *code, int device, const char *format, ...)
{
  char *text;
  va_list arguments;

  if (findings->count == GP_FINDINGS_MOST)
    return NULL;
  va_start(arguments, format);
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0) {
    findings->out_of_memory = true;
    return NULL;
  }
  /* Worst first, otherwise as they were said. */
  size_t at = findings->count++;
  for (; at > 0 && findings->items[at - 1].severity < severity; at--)
    findings->items[at] = findings->items[at - 1];
  findings->items[at] = (gp_finding_t){severity, code, device, text, NULL};
  return &findings->items[at];
}

/* What to try about a finding (NULL: there is none). */
static void __attribute__((format(printf, 3, 4)))
advise(gp_findings_t *findings, gp_finding_t *finding, const char *format, ...)
{
  va_list arguments;
  if (!finding)
    return;
  va_start(arguments, format);
  if (vasprintf(&finding->advice, format, arguments) < 0) {
    finding->advice = NULL;
    findings->out_of_memory = true;
  }
  va_end(arguments);
}

static const char *setting(const gp_findings_t *findings, const char *name)
{
  return gp_snapshot_text(
      cJSON_GetObjectItemCaseSensitive(findings->summary->snapshot->root, "settings"), name);
}

static const char *reason(const gp_findings_t *findings)
{
  return gp_snapshot_text(findings->summary->snapshot->root, "reason");
}

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
  if (strcmp(reason(findings), "oom") != 0 || last == 0 || !sizes)
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
  gp_finding_t *finding = say(findings, GP_SEVERITY_ERROR, "oom", device->device->device,
      "Out of memory on device %d: asked for %s; the program held %s, and of %s that were idle the largest "
      "block had %s%s.",
      device->device->device, gp_size_format(requested, asked),
      gp_size_format(device->device->stats.requested_bytes.current, held), idle, largest,
      device->largest_idle < requested ? ", too small" : "");
  if (device->idle_bytes >= requested && device->largest_idle < requested)
    advise(findings, finding, "the idle memory is in pieces: gpupool frag maps them.");
}

/* The message has every figure, and the advice at its end. */
static void judge_oom_message(gp_findings_t *findings, int device, const char *message)
{
  const char *facts_end = strstr(message, GP_OOM_ADVICE_BREAK);
  int length = facts_end ? (int)(facts_end - message) : (int)strlen(message);
  gp_finding_t *finding = say(findings, GP_SEVERITY_ERROR, "oom", device, "%c%.*s.",
      message[0] == 'o' ? 'O' : message[0], length - 1, message + 1);
  if (facts_end)
    advise(findings, finding, "%s.", facts_end + strlen(GP_OOM_ADVICE_BREAK));
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
    say(findings, GP_SEVERITY_ERROR, "oom", device,
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
 * Who has the memory: what is held when memory ran out, or at a sudden end, else what was held at the peak.
 * Without stacks nobody is known, and the sizes are elsewhere.
 */
static void judge_owners(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const gp_sites_t *sites = &summary->sites;
  bool is_oom = strcmp(reason(findings), "oom") == 0;
  bool is_end = is_oom || strcmp(reason(findings), "recovered") == 0;
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
        say(findings, is_oom ? GP_SEVERITY_ERROR : GP_SEVERITY_NOTE, "owners", GP_FINDING_ALL,
            "Of the %s that the program held%s, the biggest owner%s %s.", gp_size_format(sum, size),
            is_oom                    ? ""
            : measure == GP_SITE_LIVE ? " in the end"
                                      : " at its peak",
            owners.count > 1 ? "s are" : " is", text);
    if (is_oom)
      advise(findings, finding, "free or shrink what %s holds, %s of it all.",
          gp_text_shorten(owners.owners[0].function, OWNER_COLUMNS, name, sizeof(name)),
          gp_number_percent((double)owners.owners[0].bytes / (double)sum, percent));
  }
  gp_owners_fini(&owners);
}

/* A record tells where it ends and not why. */
static void judge_end(gp_findings_t *findings)
{
  char duration[GP_NUMBER_BYTES];
  if (strcmp(reason(findings), "recovered") != 0)
    return;
  gp_finding_t *finding = say(findings, GP_SEVERITY_WARNING, "sudden_end", GP_FINDING_ALL,
      "The program did not come to its end: it was killed, crashed, or left by _exit. Its record ends at %s.",
      gp_number_duration(findings->summary->until_ns, duration));
  advise(findings, finding,
      "where it was killed without a word, the host may have been out of memory: the kernel's log (dmesg) "
      "names whom it "
      "killed, and the job scheduler says which limit was reached.");
}

/* GPUPOOL_STACKS, where it is an option and was not used. */
static bool lacks_stacks(const gp_findings_t *findings)
{
  return findings->summary->sites.by == GP_SITE_BY_SIZE && gp_option_find("stacks") != GP_OPTION_COUNT;
}

static void judge_refusals(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  char count[GP_NUMBER_BYTES];
  bool is_told =
      strcmp(reason(findings), "oom") == 0 && gp_findings_have(findings, "oom") && stats->num_ooms <= 1;

  if (stats->num_ooms && !is_told)
    say(findings, GP_SEVERITY_ERROR, "ooms", device->device->device,
        "The program was told %s that memory is out on device %d.",
        gp_number_plural(stats->num_ooms, "time", count), device->device->device);
  if (stats->num_alloc_retries)
    say(findings, GP_SEVERITY_WARNING, "retries", device->device->device,
        "Memory is tight: %s on device %d had to be tried again after idle memory was given back.",
        gp_number_plural(stats->num_alloc_retries, "driver allocation", count), device->device->device);
}

static void judge_live(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  char count[GP_NUMBER_BYTES], bytes[GP_SIZE_TEXT_BYTES], of[GP_NUMBER_BYTES], size[GP_SIZE_TEXT_BYTES];
  char biggest[128] = "";

  if (strcmp(reason(findings), "exit") != 0)
    return;
  if (device->group_count && stats->allocation.current > 1)
    snprintf(biggest, sizeof(biggest), "; most of it in %s of %s",
        gp_number_plural(device->groups[0].count, "block", of),
        gp_size_format(device->groups[0].requested, size));
  gp_finding_t *finding = NULL;
  if (stats->allocation.current)
    finding = say(findings, GP_SEVERITY_NOTE, "live_at_exit", device->device->device,
        "%s (%s) on device %d %s not freed before the exit%s.",
        gp_number_plural(stats->allocation.current, "block", count),
        gp_size_format(stats->requested_bytes.current, bytes), device->device->device,
        stats->allocation.current == 1 ? "was" : "were", biggest);
  if (lacks_stacks(findings))
    advise(findings, finding,
        "GPUPOOL_STACKS=native records who asked for them; gpupool leaks then names them.");
  else
    advise(findings, finding, "gpupool leaks lists them.");
  if (stats->passthrough_bytes.current)
    say(findings, GP_SEVERITY_NOTE, "passthrough_at_exit", device->device->device,
        "%s of memory that is not pooled was not freed on device %d before the exit.",
        gp_size_format(stats->passthrough_bytes.current, bytes), device->device->device);
}

/* Why so many allocations went to the driver; what the figures show best comes first. */
static void hit_rate_hint(
    const gp_findings_t *findings, const gp_stats_t *stats, char *buffer, size_t capacity)
{
  const gp_summary_t *summary = findings->summary;
  const char *type = setting(findings, "type");
  if (stats->allocation.peak >= 0.8 * (double)stats->cache_misses)
    snprintf(buffer, capacity, "most were first ones: that much was held at the same time");
  else if (gp_summary_detail_count(summary, "trim", "max_cached"))
    snprintf(buffer, capacity, "GPUPOOL_MAX_CACHED=%s gave back what was wanted again soon",
        setting(findings, "max_cached"));
  else if (gp_summary_detail_count(summary, "trim", "idle"))
    snprintf(buffer, capacity, "GPUPOOL_IDLE_RELEASE=%s gave back what was wanted again later",
        setting(findings, "idle_release"));
  else if (gp_summary_detail_count(summary, "trim", "reserve") ||
           gp_summary_detail_count(summary, "trim", "oom"))
    snprintf(buffer, capacity, "memory was tight, so that idle blocks went back to the driver");
  else if ((double)stats->deferred_bytes.peak > 0.25 * (double)stats->active_bytes.peak)
    snprintf(buffer, capacity,
        "freed memory was often still in use by the device when it was needed (up to a synchronization)");
  else if (strcmp(type, "naive") == 0)
    snprintf(buffer, capacity, "the sizes vary; GPUPOOL_TYPE=round finds more blocks that fit");
  else if (strcmp(type, "round") == 0 && strtoul(setting(findings, "round_divisions"), NULL, 10) > 2)
    snprintf(buffer, capacity,
        "the sizes vary; GPUPOOL_ROUND_DIVISIONS=2 finds more blocks that fit, and rounds up more");
  else
    snprintf(buffer, capacity, "the sizes vary");
}

static void judge_hit_rate(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t total = stats->cache_hits + stats->cache_misses;
  double rate = total ? (double)stats->cache_hits / (double)total : 1;
  char hint[256], percent[GP_NUMBER_BYTES], count[GP_NUMBER_BYTES], only[GP_NUMBER_BYTES + 8];

  if (total < ENOUGH_ALLOCATIONS || rate >= GOOD_HIT_RATE ||
      strcmp(setting(findings, "type"), "unpooled") == 0)
    return;
  hit_rate_hint(findings, stats, hint, sizeof(hint));
  snprintf(only, sizeof(only), "%s%s", stats->cache_hits ? "Only " : "None",
      stats->cache_hits ? gp_number_percent(rate, percent) : "");
  say(findings,
      stats->allocation.peak >= 0.8 * (double)stats->cache_misses ? GP_SEVERITY_NOTE : GP_SEVERITY_WARNING,
      "hit_rate", device->device->device, "%s of %s on device %d were served from the pool: %s.", only,
      gp_number_plural(total, "allocation", count), device->device->device, hint);
}

static void judge_rounding(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t asked = stats->requested_bytes.peak, rounded = stats->allocated_bytes.peak;
  char percent[GP_NUMBER_BYTES], was[GP_SIZE_TEXT_BYTES], is[GP_SIZE_TEXT_BYTES];
  bool is_naive = strcmp(setting(findings, "type"), "naive") == 0;

  if (rounded <= asked || rounded - asked < ROUNDING_BYTES ||
      (double)(rounded - asked) < ROUNDING_SHARE * (double)rounded)
    return;
  gp_finding_t *finding = say(findings, GP_SEVERITY_NOTE, "rounding", device->device->device,
      "Rounding sizes up costs %s of the memory on device %d: %s at the peak for %s asked for.",
      gp_number_percent((double)(rounded - asked) / (double)rounded, percent), device->device->device,
      gp_size_format(rounded, was), gp_size_format(asked, is));
  advise(findings, finding,
      is_naive ? "a smaller GPUPOOL_LARGE_ROUND wastes less." : "GPUPOOL_TYPE=naive wastes least.");
}

static void judge_cached(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t reserved = stats->reserved_bytes.peak, active = stats->active_bytes.peak;
  char held[GP_SIZE_TEXT_BYTES], used[GP_SIZE_TEXT_BYTES];

  if (reserved <= active || reserved - active < CACHED_BYTES ||
      (double)(reserved - active) < CACHED_SHARE * (double)reserved)
    return;
  gp_finding_t *finding = say(findings, GP_SEVERITY_NOTE, "cached", device->device->device,
      "At its peak the pool held %s on device %d, and never more than %s were in use.",
      gp_size_format(reserved, held), device->device->device, gp_size_format(active, used));
  advise(findings, finding, "GPUPOOL_MAX_CACHED bounds what is idle.");
}

static void judge_waits(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t total = stats->cache_hits + stats->cache_misses;
  char count[GP_NUMBER_BYTES];
  bool is_strict = strcmp(setting(findings, "reuse"), "strict") == 0;

  if (!stats->host_waits || (double)stats->host_waits < WAITS_SHARE * (double)total)
    return;
  gp_finding_t *finding = say(findings, is_strict ? GP_SEVERITY_NOTE : GP_SEVERITY_WARNING, "waits",
      device->device->device, "The host waited %s for device %d until freed memory could be used again%s.",
      gp_number_plural(stats->host_waits, "time", count), device->device->device,
      is_strict ? "; that is what GPUPOOL_REUSE=strict does" : "");
  if (!is_strict)
    advise(findings, finding, "a larger GPUPOOL_MAX_DEFERRED waits less and holds more.");
}

static void judge_forwarded(gp_findings_t *findings, const gp_summary_device_t *device)
{
  const gp_stats_t *stats = &device->device->stats;
  uint64_t outside = stats->passthrough_bytes.peak;
  char bytes[GP_SIZE_TEXT_BYTES], pooled[GP_SIZE_TEXT_BYTES];

  if ((double)outside < FORWARDED_SHARE * (double)(outside + stats->reserved_bytes.peak) || !outside)
    return;
  say(findings, GP_SEVERITY_NOTE, "passthrough", device->device->device,
      "Most memory on device %d is not pooled (managed, pitched, stream-ordered ...): at its peak %s, beside "
      "%s.",
      device->device->device, gp_size_format(outside, bytes),
      gp_size_format(stats->reserved_bytes.peak, pooled));
}

static void judge_modes(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  if (gp_summary_detail_count(summary, "mode", "dead"))
    say(findings, GP_SEVERITY_ERROR, "dead", GP_FINDING_ALL,
        "The device reported an error that stays, and from then on every call went to the driver unpooled.");
  if (gp_summary_detail_count(summary, "mode", "aside"))
    say(findings, GP_SEVERITY_WARNING, "aside", GP_FINDING_ALL,
        "The pool stood aside for a reason that it told on stderr or in GPUPOOL_LOG, and from then on every "
        "call went to "
        "the driver unpooled.");
  uint64_t lost = gp_summary_detail_count(summary, "free_requested", "context_lost");
  char count[GP_NUMBER_BYTES];
  if (lost)
    say(findings, GP_SEVERITY_NOTE, "context_lost", GP_FINDING_ALL,
        "%s that the program had not freed went with a context that was destroyed or reset.",
        gp_number_plural(lost, "allocation", count));
}

static void judge_recording(gp_findings_t *findings)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  const char *trace = setting(findings, "trace");
  char count[GP_NUMBER_BYTES], since[GP_NUMBER_BYTES];

  if (strcmp(trace, "off") == 0 || strcmp(trace, "state") == 0)
    say(findings, GP_SEVERITY_NOTE, "no_events", GP_FINDING_ALL,
        "No events were recorded (GPUPOOL_TRACE=%s).", trace);
  if (snapshot->dropped_events)
    say(findings, GP_SEVERITY_NOTE, "dropped_events", GP_FINDING_ALL,
        "The events begin at %s: %s older ones were dropped (GPUPOOL_TRACE_EVENTS=%s). Statistics and live "
        "blocks are "
        "complete.",
        gp_number_duration(snapshot->recorded_since_ns, since),
        gp_number_count(snapshot->dropped_events, count), setting(findings, "trace_events"));
  else if (snapshot->recorded_since_ns)
    say(findings, GP_SEVERITY_NOTE, "late_events", GP_FINDING_ALL,
        "The events begin at %s: recording was off before.",
        gp_number_duration(snapshot->recorded_since_ns, since));
  for (size_t i = 0; i < snapshot->note_count; i++)
    say(findings, GP_SEVERITY_WARNING, "incomplete", GP_FINDING_ALL, "The file is incomplete: %s.",
        snapshot->notes[i]);
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
    say(findings, has_problem ? GP_SEVERITY_NOTE : GP_SEVERITY_GOOD, "nothing", GP_FINDING_ALL,
        "The program asked for no memory that could be pooled.");
  } else if (strcmp(setting(findings, "type"), "unpooled") == 0) {
    say(findings, GP_SEVERITY_NOTE, "unpooled", GP_FINDING_ALL,
        "%s, each of them a driver call (GPUPOOL_TYPE=unpooled).",
        gp_number_plural(total, "allocation", count));
  } else if (!has_problem || (double)hits >= GOOD_HIT_RATE * (double)total) {
    gp_number_percent((double)hits / (double)total, percent);
    say(findings, has_problem ? GP_SEVERITY_NOTE : GP_SEVERITY_GOOD, "served", GP_FINDING_ALL,
        "%s%s of %s %s served from the pool.", begin, percent, gp_number_plural(total, "allocation", count),
        total == 1 ? "was" : "were");
  }
}

bool gp_findings_have(const gp_findings_t *findings, const char *code)
{
  for (size_t i = 0; i < findings->count; i++) {
    if (strcmp(findings->items[i].code, code) == 0)
      return true;
  }
  return false;
}

int gp_findings_init(gp_findings_t *findings, const gp_summary_t *summary)
{
  *findings = (gp_findings_t){.summary = summary};
  judge_oom(findings);
  judge_end(findings);
  judge_owners(findings);
  judge_modes(findings);
  for (size_t i = 0; i < summary->device_count; i++) {
    const gp_summary_device_t *device = &summary->devices[i];
    judge_refusals(findings, device);
    judge_hit_rate(findings, device);
    judge_waits(findings, device);
    judge_live(findings, device);
    judge_rounding(findings, device);
    judge_cached(findings, device);
    judge_forwarded(findings, device);
  }
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

void gp_findings_fini(gp_findings_t *findings)
{
  for (size_t i = 0; i < findings->count; i++) {
    free(findings->items[i].text);
    free(findings->items[i].advice);
  }
  *findings = (gp_findings_t){.count = 0};
}
