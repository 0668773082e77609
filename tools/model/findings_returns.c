#include "tools/model/finding_judges.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "tools/model/remedies.h"
#include "tools/model/returns.h"
#include "tools/model/saturated.h"
#include "tools/output.h"
#include "tools/shorten.h"
#include "tools/symbols/stack_owners.h"

#define AGAIN_BYTES   (32 * GP_MIB)
#define OFTEN         3 /* that many times are a habit */
#define PLACE_COLUMNS 90
#define PLACE_BYTES   256

/* Returns of one cause; if not retries, those of which at least half was asked for again. */
typedef struct sum {
  uint64_t count;
  uint64_t in_vain;
  uint64_t bytes;
  uint64_t again; /* of each at most what went back */
  uint64_t calls;
  uint64_t lasted_ns;
  const gp_return_t *first;
  const gp_return_t *largest;
  bool is_elsewhere; /* some are of other lines than the first */
} sum_t;

static void sum_up(
    const gp_snapshot_t *snapshot, const gp_returns_t *returns, gp_return_cause_t cause, sum_t *ret_sum)
{
  sum_t sum = {.count = 0};
  for (size_t i = 0; i < returns->count; i++) {
    const gp_return_t *item = &returns->items[i];
    if (item->cause != cause || (cause != GP_RETURN_RETRY && item->again < item->bytes / 2))
      continue;
    sum.count++;
    sum.in_vain += item->is_in_vain;
    sum.bytes = gp_add_saturated(sum.bytes, item->bytes);
    sum.again = gp_add_saturated(sum.again, item->again < item->bytes ? item->again : item->bytes);
    sum.calls += item->calls;
    sum.lasted_ns = gp_add_saturated(sum.lasted_ns, item->lasted_ns);
    sum.first = sum.first ? sum.first : item;
    sum.is_elsewhere |= gp_stack_owner(snapshot, item->stack) != gp_stack_owner(snapshot, sum.first->stack);
    sum.largest = !sum.largest || item->bytes > sum.largest->bytes ? item : sum.largest;
  }
  *ret_sum = sum;
}

/* ", in step train.py:42"; "" if unknown. */
static char *place_of(const gp_snapshot_t *snapshot, int stack, const char *word, char *buffer)
{
  char line[3 * GP_OWNER_NAME_BYTES], shown[PLACE_BYTES];
  gp_owner_text_t text;

  buffer[0] = '\0';
  if (!gp_stack_owner_text(snapshot, stack, &text))
    return buffer;
  if (strcmp(text.operation, "empty_cache") == 0) /* the sentence says so */
    text.operation[0] = '\0';
  gp_owner_describe(&text, line, sizeof(line));
  snprintf(
      buffer, PLACE_BYTES, ", %s %s", word, gp_text_shorten(line, PLACE_COLUMNS, shown, sizeof(shown) - 8));
  return buffer;
}

/* "That took at least 1.2 s."; "" if the events do not tell. */
static char *time_of(const gp_snapshot_t *snapshot, const sum_t *sum, char *buffer, size_t capacity)
{
  char duration[GP_NUMBER_BYTES];
  buffer[0] = '\0';
  if (!snapshot->times_are_numbers && sum->lasted_ns)
    snprintf(buffer, capacity, " That took at least %s.", gp_number_duration(sum->lasted_ns, duration));
  return buffer;
}

static void judge_retries(gp_findings_t *findings, int device, const sum_t *sum)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  char count[GP_NUMBER_BYTES], bytes[GP_SIZE_TEXT_BYTES], when[GP_NUMBER_BYTES],
      vain[GP_NUMBER_BYTES + 16] = "";
  char place[PLACE_BYTES], took[64], others[GP_NUMBER_BYTES], garbage[128] = "", conf[GP_CONF_BYTES];
  const char *threshold = gp_findings_setting(findings, "garbage_collection_threshold");

  if (sum->in_vain == sum->count) /* memory ran out each time: another finding */
    return;
  if (sum->in_vain)
    snprintf(vain, sizeof(vain), ", for %s in vain", gp_number_count(sum->in_vain, others));
  if (threshold[0] && strcmp(threshold, "0") != 0)
    snprintf(garbage, sizeof(garbage), " (or to keep to garbage_collection_threshold=%.16s)", threshold);
  uint64_t time_ns = gp_snapshot_event_uint(&snapshot->events, GP_COLUMN_TIME_NS, sum->first->event);
  gp_finding_t *finding = gp_findings_say(findings, GP_FINDING(retries_of_pytorch), device, device,
      gp_number_plural(sum->count, "request", count), garbage, gp_size_format(sum->bytes, bytes), vain,
      time_of(snapshot, sum, took, sizeof(took)), gp_snapshot_moment(snapshot, time_ns, when),
      place_of(snapshot, sum->first->stack, "for", place));
  if (gp_remedies_expand(findings, finding, conf))
    gp_findings_advise(findings, finding, GP_ADVICE(retries_expandable), conf);
  else
    gp_findings_advise(findings, finding, GP_ADVICE(retries_of_pytorch), sum->first->event);
}

/* Soon: before memory went back again. */
static void judge_emptied(gp_findings_t *findings, int device, const sum_t *sum, bool is_known)
{
  const gp_snapshot_t *snapshot = findings->summary->snapshot;
  char count[GP_NUMBER_BYTES], bytes[GP_SIZE_TEXT_BYTES], again[GP_SIZE_TEXT_BYTES], calls[GP_NUMBER_BYTES];
  char place[PLACE_BYTES], took[64], who[PLACE_BYTES + 96];

  if (sum->again < AGAIN_BYTES)
    return;
  if (is_known)
    snprintf(who, sizeof(who), "By %s of empty_cache%s%s,", gp_number_plural(sum->count, "call", count),
        place_of(snapshot, sum->largest->stack, "in", place), sum->is_elsewhere ? " and elsewhere" : "");
  else
    snprintf(who, sizeof(who), "PyTorch gave memory back %s:", gp_number_plural(sum->count, "time", count));
  gp_finding_t *finding = gp_findings_say_as(findings,
      sum->count < OFTEN ? GP_SEVERITY_NOTE : GP_SEVERITY_WARNING, GP_FINDING(emptied), device, who,
      gp_size_format(sum->bytes, bytes), device, time_of(snapshot, sum, took, sizeof(took)),
      gp_size_format(sum->again, again), gp_number_plural(sum->calls, "driver allocation", calls),
      is_known
          ? ""
          : " The file does not say why: the program called empty_cache, a private pool ended, or memory was short.");
  if (is_known)
    gp_findings_advise(findings, finding, GP_ADVICE(emptied));
}

void gp_findings_judge_returns(gp_findings_t *findings, const gp_summary_device_t *device)
{
  int ordinal = device->device->device;
  gp_returns_t returns;
  sum_t retries, emptied, unknown;

  if (strcmp(gp_findings_reason(findings), "PyTorch snapshot") != 0)
    return;
  if (gp_returns_init(&returns, &findings->summary->lifetimes, ordinal))
    findings->out_of_memory = true;
  sum_up(findings->summary->snapshot, &returns, GP_RETURN_RETRY, &retries);
  sum_up(findings->summary->snapshot, &returns, GP_RETURN_PROGRAM, &emptied);
  sum_up(findings->summary->snapshot, &returns, GP_RETURN_UNKNOWN, &unknown);
  if (retries.count)
    judge_retries(findings, ordinal, &retries);
  if (emptied.count)
    judge_emptied(findings, ordinal, &emptied, true);
  if (unknown.count)
    judge_emptied(findings, ordinal, &unknown, false);
  gp_returns_fini(&returns);
}
