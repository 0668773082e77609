#include "tools/model/remedies.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/model/owners.h"
#include "tools/saturated.h"
#include "tools/output.h"
#include "tools/symbols/stack_owners.h"

#define MOST_TRACE_EVENTS 16777216 /* largest value of GPUPOOL_TRACE_EVENTS */

bool gp_remedy_sets(const gp_remedy_t *remedy, const char *name)
{
  for (size_t i = 0; i < remedy->setting_count; i++) {
    if (remedy->settings[i].name && strcmp(remedy->settings[i].name, name) == 0)
      return true;
  }
  return false;
}

/* Replaces the advice to raise the limit if memory grows. A higher limit would only postpone the failure. */
static void refuse_limit(gp_findings_t *findings, gp_finding_t *oom)
{
  if (!gp_remedy_sets(&oom->remedy, "GPUPOOL_LIMIT"))
    return;
  gp_findings_retract(oom);
  gp_findings_advise(findings, oom, GP_ADVICE(oom_of_growth));
}

/* Returns true if the summary describes the event for which the snapshot was written. Then the snapshot's
 * final state is the state at that event. */
static bool is_of_report(const gp_findings_t *findings)
{
  return strcmp(gp_findings_reason(findings), "oom") == 0 && findings->summary->has_oom &&
         findings->summary->oom.event.is_reported;
}

/* Returns the bytes that were missing when memory ran out, according to the report. Returns 0 if unknown. */
static uint64_t missing_bytes(const gp_oom_t *oom)
{
  uint64_t held = oom->live + oom->deferred + oom->passthrough + oom->in_pieces; /* each below 2^53 */

  if (!oom->by_limit)
    return gp_oom_missing_on_device(oom);
  return oom->limit ? gp_subtract_saturated(held + oom->requested, oom->limit) : 0;
}

/* Returns true if a segment of the device is divided into several blocks. */
static bool is_cut(const gp_snapshot_t *snapshot, int device)
{
  for (size_t i = 0; i < snapshot->segment_count; i++) {
    if (snapshot->segments[i].device == device && snapshot->segments[i].block_count > 1)
      return true;
  }
  return false;
}

static bool is_same(const char *known, const char *text)
{
  return strcmp(known ? known : "", text ? text : "") == 0;
}

/* Returns true if the stack belongs to the owner. Owners in the same function differ in their line, or in the
 * function that they called. */
static bool is_of_owner(const gp_snapshot_t *snapshot, int stack, const gp_owner_t *owner)
{
  gp_owner_text_t text;
  return gp_stack_owner_text(snapshot, stack, &text) && is_same(owner->function, text.function) &&
         is_same(owner->file, text.file) && (owner->line_count > 1 || owner->line == text.line) &&
         (!text.language ||
             (is_same(owner->operation, text.operation) && is_same(owner->through, text.through)));
}

static bool would_be_idle(
    const gp_snapshot_t *snapshot, const gp_snapshot_block_t *block, const gp_owner_t *owner)
{
  return block->state == GP_SNAPSHOT_IDLE ||
         (block->state == GP_SNAPSHOT_ALLOCATED && is_of_owner(snapshot, block->stack, owner));
}

/* Memory that would be idle if all memory of an owner were freed. In a divided segment, freed memory helps
 * only if it forms a large enough piece, or if the whole segment becomes idle. */
typedef struct freed_room {
  uint64_t largest;   /* largest idle piece */
  uint64_t in_wholes; /* bytes in segments that would be entirely idle */
} freed_room_t;

/* Computes the idle memory at the end of the snapshot if all memory of the owner were freed. Blocks that may
 * belong to another owner stay in use. */
static void find_freed_room(
    const gp_snapshot_t *snapshot, int device, const gp_owner_t *owner, freed_room_t *ret_room)
{
  freed_room_t room = {0};

  for (size_t i = 0; i < snapshot->segment_count; i++) {
    const gp_snapshot_segment_t *segment = &snapshot->segments[i];
    uint64_t run = 0;
    bool is_whole = segment->block_count > 0;
    if (segment->device != device)
      continue;
    for (size_t k = segment->first_block; k < segment->first_block + segment->block_count; k++) {
      const gp_snapshot_block_t *block = &snapshot->blocks[k];
      bool is_idle = would_be_idle(snapshot, block, owner);
      run = is_idle ? gp_add_saturated(run, block->size) : 0;
      is_whole &= is_idle;
      if (run > room.largest)
        room.largest = run;
    }
    if (is_whole)
      room.in_wholes = gp_add_saturated(room.in_wholes, segment->size);
  }
  *ret_room = room;
}

/* Advises freeing the memory of the largest owner on a device with divided segments. Gives the advice only if
 * the result would contain a large enough idle piece. */
static void settle_cut_owner(
    gp_findings_t *findings, gp_finding_t *finding, const gp_oom_t *oom, const gp_owners_t *owners)
{
  const gp_owner_t *owner = &owners->owners[0];
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  char name[GP_OWNER_BYTES];
  freed_room_t room;

  find_freed_room(snapshot, oom->device, owner, &room);
  if (room.largest < oom->requested && room.in_wholes < missing_bytes(oom))
    return;
  gp_findings_retract(finding);
  gp_findings_advise(
      findings, finding, GP_ADVICE(owners_of_segments), gp_findings_name_owner(owners, 0, name), oom->device);
  gp_findings_act_on(findings, finding, "free", owner->function);
}

/* Returns the index of the owner that made the failed request, if it has many blocks in use and never freed
 * one. No setting would help such a program for long. Otherwise returns the number of owners. */
static size_t find_never_freeing(const gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const gp_owners_t *owners = &findings->owners;
  gp_oom_asker_t asker;
  size_t i = 0;

  gp_oom_asker_find(summary->snapshot, &summary->oom.event, &asker);
  while (i < owners->count && !is_of_owner(summary->snapshot, asker.stack, &owners->owners[i]))
    i++;
  bool frees =
      i < owners->count && (owners->owners[i].holding.blocks < GP_OOM_MANY_BLOCKS ||
                               owners->owners[i].holding.freed || !gp_holding_knows_frees(summary->snapshot));
  return frees ? owners->count : i;
}

/* Returns true if the device simply lacks memory. Returns false if the report has a better cause: too large a
 * request, fragmentation, other processes, or pending work. */
static bool only_lacks_memory(const gp_oom_t *oom, const gp_finding_t *finding)
{
  uint64_t missing = missing_bytes(oom);

  if (!missing || gp_oom_is_too_large(oom->requested, oom->device_total))
    return false;
  if (gp_remedy_sets(&finding->remedy, "GPUPOOL_LIMIT"))
    return true;
  return gp_remedy_is_empty(&finding->remedy) && !gp_oom_is_of_others(oom, missing) &&
         oom->in_pieces < missing;
}

static bool settle_never_freed(gp_findings_t *findings, gp_finding_t *oom, gp_finding_t *owners)
{
  const gp_summary_t *summary = findings->summary;
  const size_t owner = find_never_freeing(findings);
  bool is_said = owners && (owners->advice || gp_findings_blame_growth(findings, oom->device));
  char name[GP_OWNER_BYTES];
  gp_oom_t report = {.requested = 0};

  (void)gp_oom_report_read(summary->snapshot, "oom", &report);
  if (!is_said || owner == findings->owners.count || !summary->oom.event.is_reported ||
      !only_lacks_memory(&report, oom))
    return false;
  gp_findings_retract(oom);
  gp_findings_advise(findings, oom, GP_ADVICE(oom_never_freed), GP_AS_SIZE(missing_bytes(&report)));
  if (!owners->advice) /* the finding "growth" contains the advice */
    return true;
  gp_findings_retract(owners);
  gp_findings_advise(findings, owners, GP_ADVICE(owners_never_freed),
      gp_findings_name_owner(&findings->owners, owner, name));
  gp_findings_act_on(findings, owners, "free", findings->owners.owners[owner].function);
  return true;
}

/* Advises reducing the memory of the largest owner, if it has at least the bytes missing on the device. */
static void settle_owners(gp_findings_t *findings, gp_finding_t *finding)
{
  const gp_summary_t *summary = findings->summary;
  gp_filter_t filter = *summary->filter;
  gp_owners_t owners = {.count = 0};
  gp_moments_t moments;
  char name[GP_OWNER_BYTES];
  gp_oom_t oom = {.requested = 0};
  bool is_there = gp_oom_report_read(summary->snapshot, "oom", &oom);
  uint64_t missing = missing_bytes(&oom);

  /* If other processes use more memory than this one, the finding "others" contains the remedy. */
  if (is_of_report(findings) && gp_findings_have(findings, GP_FINDING_others) &&
      oom.unaccounted > oom.live + oom.passthrough) {
    gp_findings_retract(finding);
    return;
  }
  if (!missing || !is_of_report(findings) || !is_there)
    return;
  filter.device = oom.device;
  gp_moments_end(&moments, &summary->lifetimes);
  if (gp_owners_init(&owners, &summary->lifetimes, &filter, &moments, GP_OWNED_DEVICE))
    findings->out_of_memory = true;
  if (owners.count && is_cut(summary->snapshot, oom.device)) {
    settle_cut_owner(findings, finding, &oom, &owners);
  } else if (owners.count && owners.owners[0].bytes >= missing) {
    gp_findings_retract(finding);
    gp_findings_advise(findings, finding, GP_ADVICE(owners_enough), gp_findings_name_owner(&owners, 0, name),
        GP_AS_SIZE(missing), oom.device);
    gp_findings_act_on(findings, finding, "free", owners.owners[0].function);
  }
  gp_owners_fini(&owners);
}

/* Sets the remedy of growth on each device: to free the memory of the first grower that has an owner. */
static void settle_growth(gp_findings_t *findings)
{
  const gp_growth_t *growth = &findings->summary->growth;
  for (size_t i = 0; i < growth->count; i++) {
    const gp_grower_t *grower = &growth->growers[i];
    gp_finding_t *finding = gp_findings_find(findings, GP_FINDING_growth, grower->device);
    gp_owner_text_t text;
    if (finding && finding->advice && !finding->remedy.action &&
        gp_stack_owner_text(findings->summary->snapshot, grower->stack, &text))
      gp_findings_act_on(findings, finding, "free", text.function);
  }
}

/* Advises how to record more if events are missing. Unlike other advice, it does not concern the program. */
static void advise_recording(gp_findings_t *findings)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  gp_finding_t *dropped = gp_findings_find(findings, GP_FINDING_dropped_events, GP_FINDING_ALL),
               *none = gp_findings_find(findings, GP_FINDING_no_events, GP_FINDING_ALL);
  uint64_t all = gp_add_saturated(snapshot->dropped_events, snapshot->events.count), room = 1024;
  char value[32];

  if (!gp_findings_know_settings(findings))
    return;
  if (none && !none->advice) {
    gp_findings_advise(findings, none, GP_ADVICE(no_events));
    gp_findings_set(findings, none, "GPUPOOL_TRACE", "all");
  }
  while (room < all && room < MOST_TRACE_EVENTS)
    room *= 2;
  room = room < MOST_TRACE_EVENTS ? room * 2 : room; /* each thread has a buffer and does not fill it */
  if (dropped && !dropped->advice && all <= room) {
    snprintf(value, sizeof(value), "%" PRIu64, room);
    gp_findings_advise(findings, dropped, GP_ADVICE(dropped_events), value);
    gp_findings_set(findings, dropped, "GPUPOOL_TRACE_EVENTS", value);
  }
}

void gp_remedies_settle(gp_findings_t *findings)
{
  gp_finding_t *oom = gp_findings_find(findings, GP_FINDING_oom, GP_FINDING_ALL),
               *owners = gp_findings_find(findings, GP_FINDING_owners, GP_FINDING_ALL);

  bool is_settled = oom && settle_never_freed(findings, oom, owners);
  if (oom && !is_settled)
    gp_remedies_settle_type(findings, oom);
  if (oom && !is_settled && gp_findings_blame_growth(findings, oom->device))
    refuse_limit(findings, oom);
  if (owners && owners->advice && !is_settled)
    settle_owners(findings, owners);
  settle_growth(findings);
  advise_recording(findings);
  gp_remedies_settle_pytorch(findings);
}
