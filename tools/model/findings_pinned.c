/*
 * Judges page-locked host memory, which the library does not pool. Each allocation is a driver call that
 * locks pages, which takes about a millisecond (github.com/pmodels/mpich#5171).
 */
#include "tools/model/finding_judges.h"

#include <stdlib.h>
#include <string.h>

#include "tools/hash_index.h"
#include "tools/saturated.h"
#include "tools/output.h"

#define LEAST_CALLS   100
#define NOTE_SHARE    0.01 /* share of the time between the first and the last event */
#define WARNING_SHARE 0.1
#define PAGE          UINT64_C(4096)
#define ROUNDED       1.25   /* rounding is reported if pages have this many times the requested bytes, ... */
#define ROUNDED_BYTES GP_MIB /* ... and at least this many bytes more */
#define HELD_BYTES    (64 * GP_MIB) /* memory that was not freed is reported from this many bytes, ... */
#define HELD_BLOCKS   32            /* ... or this many blocks on */

/* The buffers of one size that the program has freed and not requested again. */
typedef struct idle {
  uint64_t size;
  uint64_t count;
} idle_t;

typedef struct use {
  idle_t *idle;
  size_t idle_count;
  gp_hash_index_t by_size;
  uint64_t calls; /* number of calls that allocated or registered memory */
  uint64_t again; /* number of `calls` for a size of which a buffer was idle */
  uint64_t took_ns;
  uint64_t held, held_pages; /* bytes in use, and bytes of the pages that contain them */
  uint64_t most, most_pages; /* peak of `held`, and held_pages at that moment */
} use_t;

static uint64_t pages_of(uint64_t size)
{
  return gp_add_saturated(size, PAGE - 1) / PAGE * PAGE;
}

static int count_use(const gp_lifetimes_t *lifetimes, use_t *use)
{
  const gp_snapshot_events_t *events = &lifetimes->snapshot->events;

  for (size_t i = 0; i < events->count; i++) {
    const gp_life_t *life = gp_lifetimes_life(lifetimes, i);
    if (!life || life->kind != GP_LIFE_HOST)
      continue;
    idle_t *idle = GP_HASH_NUMBER(&use->by_size, use->idle, use->idle_count, life->requested);
    if (!idle)
      return -1;
    use->took_ns = gp_add_saturated(use->took_ns, gp_snapshot_event_uint(events, GP_COLUMN_DURATION_NS, i));
    if (life->begin == i + 1) {
      use->calls++;
      use->again += idle->count > 0;
      idle->count -= idle->count > 0;
      use->held = gp_add_saturated(use->held, life->requested);
      use->held_pages = gp_add_saturated(use->held_pages, pages_of(life->requested));
    } else {
      idle->count++;
      use->held = gp_subtract_saturated(use->held, life->requested);
      use->held_pages = gp_subtract_saturated(use->held_pages, pages_of(life->requested));
    }
    if (use->held > use->most) {
      use->most = use->held;
      use->most_pages = use->held_pages;
    }
  }
  return 0;
}

static void say(gp_findings_t *findings, const use_t *use, double share)
{
  gp_sentence_t rounded = {.used = 0};

  if ((double)use->most_pages > ROUNDED * (double)use->most && use->most_pages - use->most > ROUNDED_BYTES)
    gp_sentence_add(&rounded,
        " Small blocks take a page each: at most %s were in use, which is %s in pages of 4 KiB.",
        GP_AS_SIZE(use->most), GP_AS_SIZE(use->most_pages));
  gp_finding_t *finding =
      gp_findings_say_as(findings, share > WARNING_SHARE ? GP_SEVERITY_WARNING : GP_SEVERITY_NOTE,
          GP_FINDING(pinned), GP_FINDING_ALL, GP_AS_PLURAL(use->calls, "time"), GP_AS_DURATION(use->took_ns),
          GP_AS_PERCENT(share), GP_AS_COUNT(use->again), rounded.text);
  gp_findings_advise(findings, finding, GP_ADVICE(pinned));
}

void gp_findings_judge_pinned(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  uint64_t span_ns = gp_subtract_saturated(summary->last_ns, summary->first_ns);
  use_t use = {.idle = NULL};

  if (count_use(&summary->lifetimes, &use))
    findings->out_of_memory = true;
  double share = span_ns ? (double)use.took_ns / (double)span_ns : 0;
  if (use.calls >= LEAST_CALLS && use.again >= use.calls / 2 && share >= NOTE_SHARE)
    say(findings, &use, share < 1 ? share : 1);
  free(use.idle);
  gp_hash_index_fini(&use.by_size);
}

/* Reports the owners of the page-locked memory in use at the end, or when the limit refused a request. */
void gp_findings_judge_pinned_held(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const char *reason = gp_findings_reason(findings);
  bool is_refused = strcmp(reason, "host_oom") == 0;
  gp_owners_t owners = {.count = 0};
  gp_sentence_t list = {.used = 0};
  gp_moments_t end;
  gp_memory_t memory;

  if (!is_refused && strcmp(reason, "exit") != 0 && strcmp(reason, "recovered") != 0)
    return;
  gp_moments_end(&end, &summary->lifetimes);
  if (gp_owners_init(&owners, &summary->lifetimes, summary->filter, &end, GP_OWNED_HOST))
    findings->out_of_memory = true;
  gp_moments_memory(&end, &summary->lifetimes, summary->filter, GP_REQUEST_ALL_DEVICES, &memory);
  if (owners.bytes > 0 && (is_refused || owners.bytes >= HELD_BYTES || memory.host_count >= HELD_BLOCKS)) {
    gp_findings_add_owners(&list, &owners, owners.bytes, summary->snapshot);
    gp_finding_t *finding = gp_findings_say_as(findings, is_refused ? GP_SEVERITY_ERROR : GP_SEVERITY_NOTE,
        GP_FINDING(pinned_held), GP_FINDING_ALL, GP_AS_SIZE(owners.bytes),
        GP_AS_PLURAL(memory.host_count, "block"), is_refused ? " then" : " that it had not freed at the end",
        owners.count ? ": " : "", list.text);
    gp_findings_advise(findings, finding, GP_ADVICE(pinned_held));
  }
  gp_owners_fini(&owners);
}
