#include "tools/model/findings_frees.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/model/finding_judges.h"
#include "tools/saturated.h"
#include "tools/output.h"

#define PLACE_BYTES 512

static int stack_of(const gp_snapshot_events_t *events, size_t event)
{
  return (int)gp_snapshot_event(events, GP_COLUMN_STACK, event, -1);
}

static bool is_of(const gp_snapshot_events_t *events, size_t event, int device, uint64_t block)
{
  return gp_snapshot_event_uint(events, GP_COLUMN_BLOCK, event) == block &&
         gp_snapshot_event(events, GP_COLUMN_DEVICE, event, 0) == device;
}

/* Returns the number of the block that was last freed at the address, or 0 if no event shows it. The event of
 * the refused free has no block number if the pool merged idle blocks of a segment in between. */
static uint64_t last_freed(const gp_snapshot_events_t *events, size_t event, gp_double_free_t *found)
{
  for (size_t i = event; i-- > 0;) {
    if (gp_snapshot_event_kind(events, i) != GP_EVENT_FREE_REQUESTED ||
        gp_snapshot_event_uint(events, GP_COLUMN_ADDRESS, i) != found->address ||
        gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0) != found->device)
      continue;
    found->requested = gp_snapshot_event_uint(events, GP_COLUMN_SIZE, i);
    return gp_snapshot_event_uint(events, GP_COLUMN_BLOCK, i);
  }
  return 0;
}

/* Finds the successful free that the refused free at `event` repeats, and the allocation before it, if the
 * recorded events reach back far enough. */
static void find_first(
    const gp_snapshot_events_t *events, size_t event, bool has_free_stacks, gp_double_free_t *found)
{
  uint64_t block = gp_snapshot_event_uint(events, GP_COLUMN_BLOCK, event);
  if (!block)
    block = last_freed(events, event, found);
  for (size_t i = event; i-- > 0 && block;) {
    gp_event_kind_t kind = gp_snapshot_event_kind(events, i);
    if ((kind != GP_EVENT_FREE_REQUESTED && kind != GP_EVENT_ALLOC) ||
        !is_of(events, i, found->device, block))
      continue;
    if (kind == GP_EVENT_ALLOC || !has_free_stacks)
      found->alloc_stack = stack_of(events, i);
    if (kind == GP_EVENT_ALLOC)
      return;
    found->has_first = true;
    found->first_ns = gp_snapshot_event_uint(events, GP_COLUMN_TIME_NS, i);
    found->first_stack = has_free_stacks ? stack_of(events, i) : -1;
  }
}

void gp_double_frees_find(
    const gp_snapshot_t *snapshot, const gp_filter_t *filter, gp_double_frees_t *ret_frees)
{
  const gp_snapshot_events_t *events = &snapshot->events;
  const cJSON *settings = cJSON_GetObjectItemCaseSensitive(snapshot->root, "settings");

  *ret_frees =
      (gp_double_frees_t){.has_free_stacks = strcmp(gp_snapshot_text(settings, "stacks_free"), "1") == 0};
  for (size_t i = 0; i < events->count; i++) {
    if (gp_snapshot_event_kind(events, i) != GP_EVENT_FREE_REFUSED)
      continue;
    int device = (int)gp_snapshot_event(events, GP_COLUMN_DEVICE, i, 0);
    if (!gp_filter_has_device(filter, device))
      continue;
    ret_frees->total++;
    if (ret_frees->count == GP_DOUBLE_FREES_MOST)
      continue;
    gp_double_free_t *found = &ret_frees->frees[ret_frees->count++];
    *found = (gp_double_free_t){.device = device,
        .address = gp_snapshot_event_uint(events, GP_COLUMN_ADDRESS, i),
        .requested = gp_snapshot_event_uint(events, GP_COLUMN_SIZE, i),
        .second_ns = gp_snapshot_event_uint(events, GP_COLUMN_TIME_NS, i),
        .alloc_stack = -1,
        .first_stack = -1,
        .second_stack = stack_of(events, i)};
    find_first(events, i, ret_frees->has_free_stacks, found);
  }
}

/* Writes " by FUNCTION FILE:LINE", or "" if the code is unknown. Returns buffer. */
static char *by_code(const gp_snapshot_t *snapshot, int stack, const char *word, char *buffer)
{
  char name[GP_STACK_NAME_BYTES];
  buffer[0] = '\0';
  if (stack >= 0)
    snprintf(buffer, PLACE_BYTES, " %s %s", word, gp_findings_name_stack(snapshot, stack, name));
  return buffer;
}

/* Describes a refused free of an address inside the pool's memory at which no recorded block began. */
static void describe_unknown(
    const gp_snapshot_t *snapshot, const gp_double_free_t *found, gp_sentence_t *sentence)
{
  char code[PLACE_BYTES];
  gp_sentence_add(sentence,
      "0x%" PRIx64 " on device %d, which is not the start of any recorded block, at %s%s", found->address,
      found->device, GP_AS_DURATION(found->second_ns), by_code(snapshot, found->second_stack, "by", code));
}

/* Describes both frees with their times, if the recorded events reach back far enough. */
static void describe(const gp_snapshot_t *snapshot, const gp_double_free_t *found, gp_sentence_t *sentence)
{
  char when[GP_NUMBER_BYTES], again[GP_NUMBER_BYTES], first[PLACE_BYTES], second[PLACE_BYTES],
      asked[PLACE_BYTES];
  by_code(snapshot, found->alloc_stack, "allocated by", asked);
  gp_sentence_add(sentence, "%s at 0x%" PRIx64 " on device %d%s%s%s", GP_AS_SIZE(found->requested),
      found->address, found->device, asked[0] ? "," : "", asked, asked[0] ? "," : "");
  if (found->has_first)
    gp_sentence_add(sentence, " was freed at %s%s,", gp_number_duration(found->first_ns, when),
        by_code(snapshot, found->first_stack, "by", first));
  else
    gp_sentence_add(sentence, " was freed before the first recorded event,");
  gp_number_duration(found->second_ns, again);
  bool is_alike = found->has_first && strcmp(when, again) == 0; /* both times look the same when printed */
  if (is_alike)
    gp_number_duration(gp_subtract_saturated(found->second_ns, found->first_ns), again);
  gp_sentence_add(sentence, " and again %s%s%s%s", is_alike ? "" : "at ", again, is_alike ? " later" : "",
      by_code(snapshot, found->second_stack, "by", second));
}

void gp_findings_judge_frees(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  gp_double_frees_t frees;
  gp_sentence_t text = {.used = 0};
  bool has_stacks = false;

  gp_double_frees_find(summary->snapshot, summary->filter, &frees);
  if (!frees.total)
    return;
  for (size_t i = 0; i < frees.count; i++)
    has_stacks = has_stacks || frees.frees[i].second_stack >= 0;
  bool is_known = frees.frees[0].requested > 0;
  (is_known ? describe : describe_unknown)(summary->snapshot, &frees.frees[0], &text);
  gp_finding_t *finding = gp_findings_say(findings, GP_FINDING(double_free), frees.frees[0].device,
      is_known ? "had freed before" : "had not allocated", frees.total > 1 ? ", " : "",
      frees.total > 1 ? GP_AS_PLURAL(frees.total, "time") : "", frees.total > 1 ? "; first" : "", text.text);
  if (!has_stacks) {
    gp_findings_advise(findings, finding, GP_ADVICE(double_free_without_stacks));
    gp_findings_set(findings, finding, "GPUPOOL_STACKS", "native");
    gp_findings_set(findings, finding, "GPUPOOL_STACKS_FREE", "1");
  } else if (!frees.has_free_stacks) {
    gp_findings_advise(findings, finding, GP_ADVICE(double_free_once));
    gp_findings_set(findings, finding, "GPUPOOL_STACKS_FREE", "1");
  } else {
    gp_findings_advise(findings, finding, GP_ADVICE(double_free_stacks));
  }
}
