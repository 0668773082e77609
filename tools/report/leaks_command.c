/*
 * gpupool leaks: lists memory that was not freed, or memory that grows.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/model/findings_damage.h"
#include "tools/model/leaks.h"
#include "tools/report/owner_report.h"
#include "tools/report/relation.h"
#include "tools/symbols/frame_parts.h"
#include "tools/tool.h"

#define SHOWN_LEAKS 20

typedef struct own {
  const char *suppressions;
  uint64_t error_exitcode; /* UINT64_MAX: not given */
  uint64_t most;           /* most rows; 0: all */
} own_t;

static const gp_parameter_t parameters[] = {
    {"suppressions", 0, "FILE", GP_PARAMETER_TEXT, offsetof(own_t, suppressions), NULL, 0, 0,
        "do not report stacks that match a line leak:PATTERN of FILE, as in LeakSanitizer: a part of a function, file or module; * matches anything, ^ and $ its begin and end"},
    {"error-exitcode", 0, "N", GP_PARAMETER_OPTIONAL_COUNT, offsetof(own_t, error_exitcode), NULL, 1, 255,
        "exit status N (without =N: 1) if there is something to report, or if heap checks found damage"},
    {"top", 'n', "N", GP_PARAMETER_COUNT, offsetof(own_t, most), NULL, 0, 1000000000,
        "only the first N; 0: all (default: 20, with --json all)"},
};

static const gp_request_form_t form = {
    .command = "leaks",
    .files = "FILE [LATER_FILE]",
    .least_files = 1,
    .most_files = 2,
    .about = "Lists what the program had not freed when the snapshot was written, by the stack\n"
             "that allocated it (by size if no stacks were recorded). With a second, later\n"
             "snapshot: what has grown in it. Sizes are requested sizes. Memory that is\n"
             "cached, or freed but still in use by the device, is not a leak.\n",
    .parameters = parameters,
    .parameter_count = sizeof(parameters) / sizeof(parameters[0]),
    .statuses = "with --error-exitcode, N: findings;\n",
};

/* The words for the findings. In a snapshot from the program's exit, unfreed memory is leaked. In an earlier
 * one, the program may still free it. A killed program never freed its memory; this counts as a leak as well,
 * so that tests that fail on leaks fail. */
typedef struct words {
  const char *title; /* "LEAK" */
  const char *done;  /* "leaked" */
  bool is_leak;
  bool is_of_two; /* true if two snapshots are compared */
} words_t;

static words_t words_of(const gp_report_input_t *inputs, int count)
{
  const char *reason = gp_snapshot_text(inputs[count - 1].snapshot->root, "reason");
  if (count > 1)
    return (words_t){"GROWTH", "more than before", true, true};
  if (strcmp(reason, "exit") == 0)
    return (words_t){"LEAK", "leaked", true, false};
  if (strcmp(reason, "recovered") == 0)
    return (words_t){"LEAK", "never freed", true, false};
  return (words_t){"LIVE", "allocated", false, false};
}

/* Subtracts `bytes` from *left, the number of bytes that may still be written, but not below 0. The limit is
 * needed because stacks share frames but are printed in full. */
static void take(uint64_t *left, size_t bytes)
{
  *left = bytes < *left ? *left - bytes : 0;
}

/* Returns the thread that allocated all blocks of the leak. Returns NULL if several threads did, if the
 * thread is unknown, or if the program has only one thread. */
static const cJSON *thread_of(const gp_leak_t *leak)
{
  const cJSON *threads = cJSON_GetObjectItemCaseSensitive(leak->snapshot->root, "threads");

  if (leak->is_of_several || leak->thread < 0 || cJSON_GetArraySize(threads) < 2)
    return NULL;
  return cJSON_GetArrayItem(threads, leak->thread);
}

/* Formats " by thread loader (4711)", " by several threads" or "". Returns `buffer`. */
static char *describe_thread(const gp_leak_t *leak, char *buffer, size_t capacity)
{
  const cJSON *thread = thread_of(leak);
  char name[64];
  uint64_t tid = 0;

  snprintf(buffer, capacity, leak->is_of_several && leak->thread >= 0 ? " by several threads" : "");
  if (thread && gp_snapshot_uint(thread, "tid", &tid) == 1)
    snprintf(buffer, capacity, " by thread %s (%" PRIu64 ")",
        gp_printable(gp_snapshot_text(thread, "name"), name, sizeof(name)), tid);
  return buffer;
}

/* Returns a text that says why there is no stack. With GPUPOOL_STACKS=auto, a small block has a stack only if
 * the library called the driver for it. */
static const char *no_stack(const gp_leak_t *leak)
{
  const cJSON *settings = cJSON_GetObjectItemCaseSensitive(leak->snapshot->root, "settings");
  bool is_auto = strcmp(gp_snapshot_text(settings, "stacks"), "auto") == 0;
  return is_auto ? " (no stack was recorded; with GPUPOOL_STACKS=native each block has one)"
                 : " (no stack was recorded)";
}

static void print_leak(const gp_report_input_t *input, const gp_leak_t *leak, const words_t *words,
    uint64_t *left, gp_output_t *output)
{
  char thread[128], holding[GP_HOLDING_BYTES];
  gp_sentence_t text = {.used = 0};
  uint64_t bytes = gp_leak_bytes(leak);

  fputc('\n', output->stream);
  gp_sentence_add(&text, "%s bytes (%s) %s on device %d%s%s%s%s ", GP_AS_COUNT(bytes), GP_AS_SIZE(bytes),
      words->done, leak->device, leak->kind ? " (" : "", leak->kind ? leak->kind : "", leak->kind ? ")" : "",
      describe_thread(leak, thread, sizeof(thread)));
  if (leak->stack >= 0 && !words->is_of_two)
    gp_sentence_add(&text, "%s", gp_holding_text(&leak->holding, leak->snapshot, holding));
  else
    gp_sentence_add(&text, "in %s", GP_AS_PLURAL(gp_leak_count(leak), "block"));
  if (leak->stack < 0)
    gp_sentence_add(&text, " of %s", GP_AS_SIZE(leak->requested));
  if (!leak->snapshot->lacks_history)
    gp_sentence_add(&text, ", the oldest allocated %s%s",
        leak->is_before_events ? "before the first event" : "at ",
        leak->is_before_events ? "" : GP_AS_MOMENT(leak->snapshot, leak->first_ns));
  gp_sentence_add(&text, "%s", leak->stack < 0 ? no_stack(leak) : ":");
  gp_output_wrap(output->stream, "", "  ", text.text);
  if (leak->stack >= 0)
    gp_report_stack(input, leak->snapshot, leak->stack, left, output);
}

static void print_suppressions(const gp_suppressions_t *suppressions, gp_output_t *output)
{
  char shown[256];
  bool is_first = true;
  for (size_t i = 0; i < suppressions->count; i++) {
    const gp_suppression_t *item = &suppressions->items[i];
    if (!item->count)
      continue;
    if (is_first)
      fprintf(output->stream, "\nSuppressions used:\n%11s %16s  pattern\n", "allocations", "bytes");
    is_first = false;
    fprintf(output->stream, "%11s %16s  %s\n", GP_AS_COUNT(item->count), GP_AS_COUNT(item->bytes),
        gp_printable(item->pattern, shown, sizeof(shown)));
  }
}

static void print_summary_line(const gp_leaks_t *leaks, const words_t *words, gp_output_t *output)
{
  bool is_bad = words->is_leak && leaks->count > 0;
  fprintf(output->stream, "\n%s%s SUMMARY: %s bytes %s in %s",
      gp_output_style(output, is_bad ? GP_STYLE_ERROR : GP_STYLE_GOOD), words->title,
      GP_AS_COUNT(leaks->bytes), words->done, GP_AS_PLURAL(leaks->allocations, "allocation"));
  fprintf(output->stream, "%s\n", gp_output_style(output, GP_STYLE_PLAIN));
  if (leaks->host_allocations)
    fprintf(output->stream, "and of page-locked host memory: %s bytes in %s\n",
        GP_AS_COUNT(leaks->host_bytes), GP_AS_PLURAL(leaks->host_allocations, "allocation"));
  if (leaks->suppressed_allocations)
    fprintf(output->stream, "suppressed: %s bytes in %s\n", GP_AS_COUNT(leaks->suppressed_bytes),
        GP_AS_PLURAL(leaks->suppressed_allocations, "allocation"));
}

static void print_text(const gp_report_input_t *inputs, int count, const gp_leaks_t *leaks,
    const gp_suppressions_t *suppressions, uint64_t *left, gp_output_t *output)
{
  const own_t *own = inputs[0].own;
  const words_t words = words_of(inputs, count);
  uint64_t most = own->most == UINT64_MAX ? SHOWN_LEAKS : own->most;
  uint64_t damages = gp_damages_count(inputs[count - 1].snapshot, inputs[count - 1].filter);
  size_t shown = 0;

  for (int i = 0; i < count; i++)
    gp_report_heading(output, &inputs[i]);
  gp_relation_print(output, inputs, count);
  if (!words.is_leak)
    gp_output_say(output, "",
        "The snapshot was not written at the exit of the program: these are live blocks, not leaks.");
  else if (count == 1 && strcmp(gp_snapshot_text(inputs[0].snapshot->root, "reason"), "recovered") == 0)
    gp_output_say(output, "",
        "The program did not exit normally (it was killed, crashed, or called _exit): this is what was allocated then. The program might have freed some of it later.");
  for (; shown < leaks->count && (most == 0 || shown < most) && *left; shown++)
    print_leak(&inputs[0], &leaks->leaks[shown], &words, left, output);
  if (shown < leaks->count)
    fprintf(output->stream, "\nand %s; -n 0 shows all\n", GP_AS_PLURAL(leaks->count - shown, "other"));
  print_suppressions(suppressions, output);
  print_summary_line(leaks, &words, output);
  if (damages)
    gp_output_say(output, "", "Heap checks found damage in %s: gpupool summary names the code.",
        GP_AS_PLURAL(damages, "block"));
  gp_report_next(output, damages ? "summary" : "sites", inputs[count - 1].file, damages ? "" : "--sort live");
}

static void add_leak(cJSON *item, const gp_leak_t *leak, uint64_t *left)
{
  char frame[4096];
  GP_JSON_SHAPE(leak);
  GP_PUT_DEVICE(item, "device", leak->device, "ordinal of the device");
  GP_PUT_TEXT_OR_NULL(item, "kind", leak->kind, "kind of forwarded memory; null: pooled");
  GP_PUT_UINT(item, "bytes", gp_leak_bytes(leak), "bytes requested and not freed; of two files the growth");
  GP_PUT_UINT(item, "count", gp_leak_count(leak), "in how many blocks; of two files the growth");
  GP_PUT_UINT(item, "held_bytes", leak->bytes, "all bytes requested and not freed");
  GP_PUT_UINT(item, "held_count", leak->count, "in how many blocks");
  GP_PUT_UINT(item, "size_least", leak->holding.least, "bytes requested for the smallest");
  GP_PUT_UINT(item, "size_most", leak->holding.most, "bytes requested for the largest");
  GP_PUT_UINT_OR_NULL(item, "freed", leak->stack >= 0 && gp_holding_knows_frees(leak->snapshot),
      leak->holding.freed, "how many blocks of the same owner were freed; null: not known");
  GP_PUT_UINT_OR_NULL(item, "first_ns", !leak->is_before_events, leak->first_ns,
      "when the oldest was allocated; null: before the first event of a PyTorch snapshot");
  GP_PUT_UINT_OR_NULL(
      item, "requested_size", leak->stack < 0, leak->requested, "without a stack: bytes requested for each");
  GP_PUT_UINT_OR_NULL(item, "thread", thread_of(leak) != NULL, (uint64_t)leak->thread,
      "index into `threads` of the snapshot; null: several threads, or the program has one");
  GP_PUT_BY(gp_json_add_stack_owner, item, "owner", stack_owner_or_null, "who allocated; null: no stack",
      leak->snapshot, leak->stack);
  cJSON *stack = GP_PUT_LIST(item, "stack", text,
      "frames of the allocation, the innermost first; cut where the document would become too large");
  const gp_snapshot_stacks_t *stacks = &leak->snapshot->stacks;
  for (size_t k = leak->stack < 0 ? 0 : stacks->first[leak->stack];
       leak->stack >= 0 && k < stacks->first[leak->stack + 1] && *left; k++) {
    gp_frame_describe(leak->snapshot, stacks->frame_indexes[k], frame, sizeof(frame));
    take(left, strlen(frame) + sizeof(cJSON));
    cJSON_AddItemToArray(stack, cJSON_CreateString(frame));
  }
}

static void add_json(const gp_report_input_t *inputs, int count, const gp_leaks_t *leaks,
    const gp_suppressions_t *suppressions, uint64_t *left, cJSON *object)
{
  const own_t *own = inputs[0].own;
  uint64_t most = own->most == UINT64_MAX ? 0 : own->most;
  GP_JSON_DOCUMENT(leaks);
  GP_PUT_SHAPE(comparison, gp_report_json_files(object, inputs, count));
  GP_PUT_TEXT(object, "reason", gp_snapshot_text(inputs[count - 1].snapshot->root, "reason"),
      "why the last snapshot was written");
  GP_PUT_BOOL(object, "has_times", !inputs[count - 1].snapshot->times_are_numbers,
      "false: `first_ns` is the number of an event");
  GP_PUT_BOOL(
      object, "is_leak", words_of(inputs, count).is_leak, "false: the program could still free these blocks");
  GP_PUT_AMOUNT(object, "sum", leaks->bytes, leaks->allocations, "all device memory that is reported");
  GP_PUT_AMOUNT(
      object, "host", leaks->host_bytes, leaks->host_allocations, "all page-locked memory of the host");
  GP_PUT_AMOUNT(object, "suppressed", leaks->suppressed_bytes, leaks->suppressed_allocations,
      "what `--suppressions` left out of both");
  GP_PUT_UINT(object, "damages", gp_damages_count(inputs[count - 1].snapshot, inputs[count - 1].filter),
      "blocks in which `GPUPOOL_CHECK` found damage; not leaks, but `--error-exitcode` counts them");
  GP_PUT_UINT(object, "leak_count", leaks->count, "how many leaks there are, whatever `-n` says");
  cJSON *used = GP_PUT_LIST(object, "suppressions", suppression, "each pattern, and what it matched");
  cJSON *list = GP_PUT_LIST(object, "leaks", leak, "the most bytes first");
  GP_JSON_SHAPE(suppression);
  for (size_t i = 0; i < suppressions->count; i++) {
    cJSON *item = gp_json_add_item(used);
    GP_PUT_TEXT(item, "pattern", suppressions->items[i].pattern, "as in the file");
    GP_PUT_UINT(item, "bytes", suppressions->items[i].bytes, "bytes that it matched");
    GP_PUT_UINT(item, "count", suppressions->items[i].count, "in how many blocks");
  }
  for (size_t i = 0; i < leaks->count && (most == 0 || i < most) && *left; i++)
    add_leak(gp_json_add_item(list), &leaks->leaks[i], left);
}

static int report(const gp_report_input_t *inputs, int count, gp_output_t *output, cJSON *object)
{
  const own_t *own = inputs[0].own;
  const gp_filter_t *filters[2] = {inputs[0].filter, count > 1 ? inputs[1].filter : NULL};
  gp_lifetimes_t lifetimes[2] = {{0}, {0}};
  gp_suppressions_t suppressions = {0};
  gp_leaks_t leaks = {0};
  uint64_t left = gp_snapshot_output_most(inputs[count - 1].snapshot);
  int error = 0;

  int status = own->suppressions ? gp_suppressions_load(&suppressions, own->suppressions) : 0;
  for (int i = 0; !status && !error && i < count; i++)
    error = gp_lifetimes_init(&lifetimes[i], inputs[i].snapshot);
  if (!status && !error)
    error = gp_leaks_init(&leaks, lifetimes, filters, count, &suppressions);
  if (!status && error) {
    gp_message("leaks: %s", strerror(error));
    status = GP_EXIT_INPUT;
  } else if (!status) {
    if (inputs[0].request->json)
      add_json(inputs, count, &leaks, &suppressions, &left, object);
    else
      print_text(inputs, count, &leaks, &suppressions, &left, output);
    if (!left) {
      gp_message("%s: the call stacks of all leaks would be more than %s: -n N reports the largest ones only",
          inputs[count - 1].file, GP_AS_SIZE(gp_snapshot_output_most(inputs[count - 1].snapshot)));
      status = GP_EXIT_INPUT;
    }
    bool is_leak = leaks.count > 0 && words_of(inputs, count).is_leak;
    if (own->error_exitcode != UINT64_MAX &&
        (is_leak || gp_damages_count(inputs[count - 1].snapshot, inputs[count - 1].filter) > 0))
      *inputs[0].findings = (int)own->error_exitcode;
  }
  gp_leaks_fini(&leaks);
  for (int i = 0; i < count; i++)
    gp_lifetimes_fini(&lifetimes[i]);
  gp_suppressions_fini(&suppressions);
  return status;
}

int gp_command_leaks(int argc, char **argv)
{
  own_t own = {.error_exitcode = UINT64_MAX, .most = UINT64_MAX};
  return gp_report_run(&form, argc, argv, &own, GP_LIFETIMES_COLUMNS, false, report);
}
