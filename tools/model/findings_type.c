#include "tools/model/finding_judges.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "tools/model/remedies.h"
#include "tools/output.h"

#define SAVED_SHARE 0.1
#define SAVED_BYTES (64 * GP_MIB)

/* Added to advice of pool types that do not keep whole blocks (doc/memory-types.md) */
#define UNLESS_SHARED "; use it only if the program shares no memory with other processes or devices"

/* Returns true if the replayed pool type differs from the recorded one, which is never advised. */
static bool is_other(const gp_findings_t *findings, const gp_type_figures_t *tried)
{
  return strcmp(tried->type, gp_findings_setting(findings, "type")) != 0;
}

static bool is_whole(const gp_type_figures_t *tried)
{
  return strcmp(tried->type, "round") == 0 || strcmp(tried->type, "naive") == 0;
}

static void add_figures(gp_sentence_t *list, const gp_type_figures_t *tried)
{
  gp_sentence_add(list, "%s%s %s (%s, %s while kernels run)", list->used ? ", " : "", tried->type,
      GP_AS_SIZE(tried->held), GP_AS_PLURAL(tried->calls, "driver call"), GP_AS_DURATION(tried->busy_ns));
}

void gp_findings_judge_type(gp_findings_t *findings)
{
  const gp_tried_types_t *tried = findings->tried;
  const gp_type_figures_t *best = NULL;
  gp_sentence_t others = {.used = 0};

  if (!tried || !tried->is_complete || !gp_findings_know_settings(findings))
    return;
  for (size_t i = 0; i < tried->count; i++) {
    const gp_type_figures_t *type = &tried->types[i];
    if (!is_other(findings, type) || type->refused > tried->now.refused)
      continue;
    add_figures(&others, type);
    if (!best || type->held < best->held)
      best = type;
  }
  if (!best || best->held + SAVED_BYTES > tried->now.held ||
      (double)best->held > (1 - SAVED_SHARE) * (double)tried->now.held)
    return;
  gp_finding_t *finding = gp_findings_say(findings, GP_FINDING(type), GP_FINDING_ALL, GP_AS_SIZE(tried->live),
      GP_AS_SIZE(tried->now.held), others.text);
  gp_findings_advise(findings, finding, GP_ADVICE(type), best->type, is_whole(best) ? "" : UNLESS_SHARED);
  gp_findings_set(findings, finding, "GPUPOOL_TYPE", best->type);
}

void gp_remedies_settle_type(gp_findings_t *findings, gp_finding_t *oom)
{
  const gp_tried_types_t *tried = findings->tried;
  const gp_type_figures_t *best = NULL;

  /* A larger limit takes memory that was meant for other users. Another pool type stays within the limit. */
  bool sets_limit = gp_remedy_sets(&oom->remedy, "GPUPOOL_LIMIT");
  if (!tried || !tried->is_complete || !gp_findings_know_settings(findings) || tried->now.refused == 0 ||
      !(gp_remedy_is_empty(&oom->remedy) || sets_limit))
    return;
  for (size_t i = 0; i < tried->count; i++) {
    const gp_type_figures_t *type = &tried->types[i];
    if (!is_other(findings, type) || type->refused > 0 || type->refused_on > 0)
      continue;
    if (!best || is_whole(type) > is_whole(best) ||
        (is_whole(type) == is_whole(best) && type->held < best->held))
      best = type;
  }
  if (!best && sets_limit && tried->limit_is_short) {
    gp_findings_retract(oom);
    gp_findings_advise(findings, oom, GP_ADVICE(oom_again), GP_AS_SIZE(tried->held_on));
  }
  if (!best)
    return;
  gp_findings_retract(oom);
  gp_findings_advise(
      findings, oom, GP_ADVICE(oom_other_type), best->type, is_whole(best) ? "" : UNLESS_SHARED);
  gp_findings_set(findings, oom, "GPUPOOL_TYPE", best->type);
}
