#include "tools/model/finding_judges.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "tools/saturated.h"
#include "tools/output.h"
#include "tools/symbols/frame_text.h"

#define OWNER_COLUMNS 90
#define NAME_BYTES    256
#define WARNING_SHARE 0.05 /* of what the device held; growth below it is a note */
#define OOM_SHARE     0.1
#define RISE_SHARE    0.1 /* of what was held at the end */
#define NS_PER_SECOND 1e9
#define FAR_NS        (UINT64_C(30) * 24 * 3600 * 1000000000) /* no projection beyond 30 days */

/* "blocks of 1 MiB to 2 MiB" */
static void add_sizes(const gp_grower_t *grower, gp_sentence_t *text)
{
  char most[GP_SIZE_TEXT_BYTES], least[GP_SIZE_TEXT_BYTES];

  gp_size_format(grower->size_least, least);
  gp_size_format(grower->size_most, most);
  if (strcmp(least, most) == 0)
    gp_sentence_add(text, "blocks of %s", most);
  else
    gp_sentence_add(text, "blocks of %s to %s", least, most);
}

/* Cuts what follows the function, so that each name is written in one way. False: the text
 * does not hold the whole function. */
static bool cut_place(const gp_snapshot_t *snapshot, const gp_grower_t *grower, char *text)
{
  char place[NAME_BYTES];
  const gp_snapshot_frame_t *frame = grower->frame >= 0 ? &snapshot->frames[grower->frame] : NULL;

  if (!frame || strcmp(grower->name, grower->function) != 0)
    return false;
  snprintf(place, sizeof(place), " %s:%d", gp_base_name(frame->file), frame->line);
  char *end = strstr(text, place);
  if (end)
    *end = '\0';
  return end != NULL;
}

/* Writes the owner like the finding "owners"; without is_full only enough to tell it from others. */
static void add_owner(
    const gp_findings_t *findings, const gp_grower_t *grower, bool is_full, gp_sentence_t *text)
{
  char shown[NAME_BYTES];

  if (grower->by == GP_GROWTH_BY_SIZE)
    add_sizes(grower, text);
  if (!grower->text)
    return;
  gp_text_shorten(grower->text, OWNER_COLUMNS, shown, sizeof(shown));
  if (!is_full && !cut_place(findings->summary->snapshot, grower, shown))
    gp_text_shorten(grower->name, OWNER_COLUMNS, shown, sizeof(shown));
  gp_sentence_add(text, "%s%s", grower->by == GP_GROWTH_BY_SIZE ? " of " : "", shown);
}

static void add_rate(const gp_grower_t *grower, gp_sentence_t *text)
{
  double rate = grower->bytes_per_ns * NS_PER_SECOND;
  if (rate >= 1 && rate < 9e18)
    gp_sentence_add(text, ", %s a second", GP_AS_SIZE((uint64_t)rate));
}

/* "in 1,000 steps of 1 KiB" */
static void add_steps(const gp_grower_t *grower, gp_sentence_t *text)
{
  gp_sentence_add(text, "in %s", GP_AS_PLURAL(grower->steps, "step"));
  if (grower->is_replaced)
    gp_sentence_add(text, " to larger blocks");
  else if (grower->size_least == grower->size_most)
    gp_sentence_add(text, " of %s", GP_AS_SIZE(grower->size_most));
}

static void add_grower(const gp_findings_t *findings, const gp_grower_t *grower, gp_sentence_t *text)
{
  char moment[GP_NUMBER_BYTES];

  add_owner(findings, grower, true, text);
  gp_snapshot_moment(findings->summary->snapshot, grower->since_ns, moment);
  gp_sentence_add(text, " %s %s, ",
      !grower->is_held                  ? "held"
      : grower->by == GP_GROWTH_BY_SIZE ? "hold"
                                        : "holds",
      GP_AS_SIZE(grower->bytes_to));
  if (grower->bytes_from)
    gp_sentence_add(text, "%s more than at %s (", GP_AS_SIZE(grower->bytes_to - grower->bytes_from), moment);
  else
    gp_sentence_add(text, "all of it since %s (", moment);
  add_steps(grower, text);
  add_rate(grower, text);
  gp_sentence_add(text, ")");
}

/* Says when the device will be full, if that is known. */
static void add_room(const gp_growth_room_t *room, gp_sentence_t *text)
{
  if (!room->exhausted_ns || room->exhausted_ns > FAR_NS)
    return;
  gp_sentence_add(text, " At this rate the %s of %s would be reached after another %s.",
      room->is_limit ? "limit" : "device's memory", GP_AS_SIZE(room->capacity),
      GP_AS_DURATION(room->exhausted_ns));
}

/* True if memory ran out on the device, and the request would have fitted without the growth. */
static bool explains_oom(const gp_findings_t *findings, int device, uint64_t grown, uint64_t held)
{
  const cJSON *oom = cJSON_GetObjectItemCaseSensitive(findings->summary->snapshot->root, "oom");
  uint64_t requested;

  if ((double)grown < OOM_SHARE * (double)held)
    return false;
  const gp_finding_t *finding = gp_findings_find(findings, GP_FINDING_oom, GP_FINDING_ALL);
  return finding && (finding->device == device || finding->device == GP_FINDING_ALL) &&
         (gp_snapshot_uint(oom, "requested", &requested) != 1 || grown >= requested);
}

/* What everything that grows on a device has in common. */
typedef struct common {
  uint64_t held;
  uint64_t others; /* held by the rest of the device */
  bool is_held;    /* all of it is still held */
  bool is_alone;
  bool is_by_owner;  /* all of it has an owner */
  bool lacks_stacks; /* some of it has no owner */
} common_t;

static common_t add_growers(
    const gp_findings_t *findings, int device, gp_sentence_t *text, gp_sentence_t *names)
{
  const gp_growth_t *growth = &findings->summary->growth;
  common_t common = {.is_held = true, .is_by_owner = true};

  for (size_t i = 0; i < growth->count; i++) {
    const gp_grower_t *grower = &growth->growers[i];
    bool is_first = names->used == 0;
    if (grower->device != device)
      continue;
    gp_sentence_add(text, "%s", is_first ? "" : ", ");
    gp_sentence_add(names, "%s", is_first ? "" : ", ");
    add_grower(findings, grower, text);
    add_owner(findings, grower, false, names);
    common.others = is_first ? grower->others : gp_subtract_saturated(common.others, grower->bytes_to);
    common.held = gp_add_saturated(common.held, grower->bytes_to);
    common.is_held = common.is_held && grower->is_held;
    common.is_alone = grower->is_alone;
    common.is_by_owner = common.is_by_owner && grower->by == GP_GROWTH_BY_OWNER;
    common.lacks_stacks = common.lacks_stacks || !grower->text;
  }
  return common;
}

/* Bytes that all growers of a device gained. */
static uint64_t sum_growth(const gp_growth_t *growth, int device)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < growth->count; i++) {
    const gp_grower_t *grower = &growth->growers[i];
    if (grower->device == device)
      sum = gp_add_saturated(sum, gp_subtract_saturated(grower->bytes_to, grower->bytes_from));
  }
  return sum;
}

static void judge(gp_findings_t *findings, const gp_growth_room_t *room)
{
  gp_sentence_t text = {.used = 0}, names = {.used = 0};
  char rest[GP_SIZE_TEXT_BYTES + 32] = "";
  common_t common = add_growers(findings, room->device, &text, &names);
  uint64_t grown = sum_growth(&findings->summary->growth, room->device);
  bool explains = explains_oom(findings, room->device, grown, gp_add_saturated(common.held, common.others));
  bool matters = (double)grown >= WARNING_SHARE * ((double)common.held + (double)common.others) ||
                 (room->is_known && (double)grown >= WARNING_SHARE * (double)room->capacity);
  gp_severity_t severity = explains                    ? GP_SEVERITY_ERROR
                           : common.is_held && matters ? GP_SEVERITY_WARNING
                                                       : GP_SEVERITY_NOTE;

  gp_sentence_add(&text, common.is_held ? "." : ", before it was freed at the end.");
  add_room(room, &text);
  gp_finding_t *finding =
      gp_findings_say_as(findings, severity, GP_FINDING(growth), room->device, room->device, text.text);
  if (severity == GP_SEVERITY_NOTE)
    return;
  if (common.is_alone && common.others)
    snprintf(rest, sizeof(rest), " The rest, %s, does not grow.", GP_AS_SIZE(common.others));
  if (common.is_by_owner)
    gp_findings_advise(findings, finding, GP_ADVICE(growth_of_owners), names.text, rest);
  else if (common.lacks_stacks && gp_findings_could_have_stacks(findings)) {
    gp_findings_advise(findings, finding, GP_ADVICE(growth_without_stacks), rest);
    gp_findings_set(findings, finding, "GPUPOOL_STACKS", "native");
  } else
    gp_findings_advise(findings, finding, GP_ADVICE(growth_of_sizes), names.text, rest);
}

/* Memory that was all freed in the end, so that no other finding tells of it. */
static void judge_rise(gp_findings_t *findings, const gp_rise_t *rise)
{
  const gp_summary_t *summary = findings->summary;
  uint64_t left = 0;

  for (size_t i = 0; i < summary->device_count; i++)
    if (summary->devices[i].device->device == rise->device)
      left = summary->devices[i].device->stats.requested_bytes.current;
  if (strcmp(gp_findings_reason(findings), "exit") != 0 ||
      (double)(rise->bytes_to - rise->bytes_from) < RISE_SHARE * (double)rise->bytes_to ||
      (double)left > RISE_SHARE * (double)rise->bytes_to)
    return;
  gp_finding_t *finding =
      gp_findings_say(findings, GP_FINDING(rise), rise->device, rise->device, GP_AS_SIZE(rise->bytes_from),
          GP_AS_MOMENT(summary->snapshot, rise->since_ns), GP_AS_SIZE(rise->bytes_to));
  gp_findings_advise(findings, finding, GP_ADVICE(rise));
}

void gp_findings_judge_growth(gp_findings_t *findings)
{
  const gp_growth_t *growth = &findings->summary->growth;
  for (size_t i = 0; i < growth->rise_count; i++)
    judge_rise(findings, &growth->rises[i]);
  for (size_t i = 0; i < growth->room_count; i++)
    judge(findings, &growth->rooms[i]);
}

bool gp_findings_blame_growth(const gp_findings_t *findings, int device)
{
  const gp_finding_t *growth = gp_findings_find(findings, GP_FINDING_growth, device);
  return growth && growth->severity >= GP_SEVERITY_WARNING;
}
