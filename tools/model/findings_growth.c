#include "tools/model/finding_judges.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "tools/saturated.h"

#define WARNING_SHARE  0.05 /* share of the device's memory in use; less growth is only a note */
#define WARNING_BLOCKS 32   /* growing lines with fewer blocks in use are only a note */
#define OOM_SHARE      0.1
#define NS_PER_SECOND  1e9
#define RATE_NS        UINT64_C(1000000000) /* shorter histories give no rate and no projection */
#define FAR_NS         (UINT64_C(30) * 24 * 3600 * 1000000000) /* longest projection: 30 days */

static void add_rate(const gp_grower_t *grower, gp_sentence_t *text)
{
  double rate = grower->bytes_per_ns * NS_PER_SECOND;
  if (rate >= 1 && rate < 9e18 && grower->until_ns - grower->since_ns >= RATE_NS)
    gp_sentence_add(text, ", %s a second", GP_AS_SIZE((uint64_t)rate));
}

/* Adds one grower to the text: "Cache::grow() cache.cu:33 keeps 800 MiB in 200 blocks of 4 MiB, none freed,
 * since 1.2 s, 3 MiB a second". */
static void add_grower(const gp_findings_t *findings, const gp_grower_t *grower, gp_sentence_t *text)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  char name[GP_STACK_NAME_BYTES], held[GP_HOLDING_BYTES];

  gp_sentence_add(text, "%s keeps %s %s", gp_findings_name_stack(snapshot, grower->stack, name),
      GP_AS_SIZE(grower->bytes), gp_holding_text(&grower->holding, snapshot, held));
  if (grower->bytes_before)
    gp_sentence_add(text, ", %s of it from before the first event", GP_AS_SIZE(grower->bytes_before));
  else
    gp_sentence_add(text, ", since %s", GP_AS_MOMENT(snapshot, grower->since_ns));
  add_rate(grower, text);
}

/* Adds the time until the device is full, if it is known. */
static void add_room(const gp_growth_room_t *room, gp_sentence_t *text)
{
  if (room->exhausted_ns < RATE_NS || room->exhausted_ns > FAR_NS)
    return;
  gp_sentence_add(text, " At this rate the %s (%s) would be full in another %s.",
      room->is_limit ? "limit" : "device", GP_AS_SIZE(room->capacity), GP_AS_DURATION(room->exhausted_ns));
}

/* Common properties of all growers of a device. */
typedef struct common {
  size_t count;
  size_t freeing;       /* number of growers that freed most of what they allocated */
  uint64_t most_blocks; /* largest number of blocks of a single grower */
  bool lacks_stacks;    /* true if the largest grower has no stack */
} common_t;

static common_t add_growers(
    const gp_findings_t *findings, const gp_growth_t *growth, int device, gp_sentence_t *text)
{
  common_t common = {.count = 0};

  for (size_t i = 0; i < growth->count; i++) {
    const gp_grower_t *grower = &growth->growers[i];
    if (grower->device != device)
      continue;
    common.lacks_stacks |= grower->stack < 0 && !common.count;
    gp_sentence_add(text, "%s", common.count++ ? "; " : "");
    add_grower(findings, grower, text);
    common.freeing += grower->accumulates && grower->holding.freed > grower->holding.blocks;
    if (grower->holding.blocks > common.most_blocks)
      common.most_blocks = grower->holding.blocks;
  }
  return common;
}

/* Returns true if memory ran out on the device, and the request would have fitted without the growth. */
static bool explains_oom(const gp_findings_t *findings, const gp_growth_room_t *room, uint64_t held)
{
  const cJSON *oom = cJSON_GetObjectItemCaseSensitive(findings->summary->snapshot->root, "oom");
  const gp_finding_t *finding = gp_findings_find(findings, GP_FINDING_oom, GP_FINDING_ALL);
  uint64_t requested;

  return finding && (double)room->grown >= OOM_SHARE * (double)held &&
         (finding->device == room->device || finding->device == GP_FINDING_ALL) &&
         (gp_snapshot_uint(oom, "requested", &requested) != 1 || room->grown >= requested);
}

/* Returns true if the history extends to the end of the program. Otherwise memory may have been freed
 * later. */
static bool has_ended(const gp_findings_t *findings)
{
  const char *reason = gp_findings_reason(findings);
  return strcmp(reason, "exit") == 0 || strcmp(reason, "recovered") == 0;
}

static gp_severity_t severity_of(
    const gp_findings_t *findings, const gp_growth_room_t *room, const common_t *common)
{
  uint64_t held = gp_add_saturated(room->held, room->others);

  if (common->most_blocks < WARNING_BLOCKS)
    return GP_SEVERITY_NOTE;
  if (explains_oom(findings, room, held))
    return GP_SEVERITY_ERROR;
  return has_ended(findings) && (double)room->grown >= WARNING_SHARE * (double)held ? GP_SEVERITY_WARNING
                                                                                    : GP_SEVERITY_NOTE;
}

static void advise(
    gp_findings_t *findings, gp_finding_t *finding, const gp_growth_room_t *room, const common_t *common)
{
  char rest[GP_SIZE_TEXT_BYTES + 32] = "";
  bool is_one = common->count + room->more == 1;

  if (room->others && !room->more)
    snprintf(rest, sizeof(rest), " Other lines keep %s.", GP_AS_SIZE(room->others));
  if (common->lacks_stacks && gp_findings_could_have_stacks(findings)) {
    gp_findings_advise(findings, finding, GP_ADVICE(growth_without_stacks), rest);
    gp_findings_set(findings, finding, "GPUPOOL_STACKS", "native");
  } else if (common->freeing == common->count) {
    gp_findings_advise(findings, finding, GP_ADVICE(growth_of_some),
        is_one ? "it frees most of what it allocates" : "they free most of what they allocate", rest);
  } else {
    gp_findings_advise(findings, finding, GP_ADVICE(growth),
        is_one ? "it no longer needs" : "they no longer need", is_one ? "it keeps" : "they keep", rest);
  }
}

static void judge(gp_findings_t *findings, const gp_growth_room_t *room)
{
  gp_sentence_t text = {.used = 0};
  common_t common = add_growers(findings, &findings->summary->growth, room->device, &text);
  gp_severity_t severity = severity_of(findings, room, &common);

  if (room->more)
    gp_sentence_add(&text, "; and %s", GP_AS_PLURAL(room->more, "other line"));
  gp_sentence_add(&text, ".");
  if (severity == GP_SEVERITY_NOTE && !has_ended(findings) && !gp_findings_have(findings, GP_FINDING_oom))
    gp_sentence_add(&text, " This may be intended: activations kept for a backward pass look the same.");
  add_room(room, &text);
  gp_finding_t *finding =
      gp_findings_say_as(findings, severity, GP_FINDING(growth), room->device, room->device, text.text);
  if (severity != GP_SEVERITY_NOTE)
    advise(findings, finding, room, &common);
}

/* Reports growth of page-locked memory. There is no capacity to compare it with. */
static void judge_pinned(gp_findings_t *findings, const gp_growth_room_t *room)
{
  gp_sentence_t text = {.used = 0};
  common_t common = add_growers(findings, &findings->summary->pinned_growth, room->device, &text);
  bool is_refused = strcmp(gp_findings_reason(findings), "host_oom") == 0;
  bool is_loud = common.most_blocks >= WARNING_BLOCKS && (has_ended(findings) || is_refused);

  gp_sentence_add(&text, "%s.", room->more ? "; and others" : "");
  gp_finding_t *finding = gp_findings_say_as(findings,
      !is_loud     ? GP_SEVERITY_NOTE
      : is_refused ? GP_SEVERITY_ERROR
                   : GP_SEVERITY_WARNING,
      GP_FINDING(pinned_growth), GP_FINDING_ALL, text.text);
  if (is_loud)
    advise(findings, finding, room, &common);
}

void gp_findings_judge_growth(gp_findings_t *findings)
{
  const gp_growth_t *growth = &findings->summary->growth, *pinned = &findings->summary->pinned_growth;
  for (size_t i = 0; i < growth->room_count; i++)
    judge(findings, &growth->rooms[i]);
  for (size_t i = 0; i < pinned->room_count; i++)
    judge_pinned(findings, &pinned->rooms[i]);
}

bool gp_findings_blame_growth(const gp_findings_t *findings, int device)
{
  const gp_finding_t *growth = gp_findings_find(findings, GP_FINDING_growth, device);
  return growth && growth->severity >= GP_SEVERITY_WARNING;
}
