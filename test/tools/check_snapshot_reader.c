/*
 * The snapshot reader: figures of a small snapshot, and that no input is too bad for it.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "pieces.h"
#include "small_snapshot.h"
#include "test/pool/check_main.h"
#include "tools/read/native/snapshot_reader.h"
#include "tools/report/summary_report.h"

static const gp_filter_t everything = {.device = GP_REQUEST_ALL_DEVICES, .until_ns = UINT64_MAX};

#define ALL_COLUMNS ((1u << GP_COLUMN_COUNT) - 1)

static size_t window; /* through which the text is read, in bytes; 0: it is all in memory */

/* Some that are short of tokens, and more or less than what a token needs. */
static const size_t windows[] = {0, 1, 2, 3, 5, 11, 12, 24, 41, 64};
#define WINDOW_COUNT ((int)(sizeof(windows) / sizeof(windows[0])))

/* Parses a copy of its own size, so that a sanitizer sees a byte too far. */
static gp_snapshot_t *parse(const char *text, size_t length, gp_snapshot_error_t *ret_error)
{
  char *copy = malloc(length + 1);
  ck_assert_ptr_nonnull(copy);
  memcpy(copy, text, length);
  copy[length] = '\0';
  gp_snapshot_t *snapshot;
  if (window == 0) {
    snapshot = gp_snapshot_parse(copy, length, ALL_COLUMNS, ret_error);
  } else {
    pieces_t pieces = {.text = copy, .length = length, .piece = window};
    gp_input_t input;
    gp_input_init(&input, pieces_read, &pieces, window);
    snapshot = gp_snapshot_parse_input(&input, ALL_COLUMNS, ret_error);
    gp_input_fini(&input);
  }
  if (!snapshot) {
    ck_assert_uint_le(ret_error->offset, length);
    ck_assert_uint_gt(strlen(ret_error->text), 0);
  }
  free(copy);
  return snapshot;
}

/* Everything that is made of what was read: the figures must be usable. */
static void use(const gp_snapshot_t *snapshot)
{
  static gp_summary_t summary;
  static gp_findings_t findings;
  gp_output_t output;
  ck_assert_int_eq(gp_summary_init(&summary, snapshot, "test", &everything), 0);
  ck_assert_int_eq(gp_findings_init(&findings, &summary, NULL, NULL), 0);
  ck_assert_int_eq(gp_output_open(&output, NULL, false, true), 0);
  gp_summary_print(&findings, true, &output);
  gp_output_discard(&output);
  cJSON *json = cJSON_CreateObject();
  gp_summary_json(&findings, json);
  char *text = cJSON_PrintUnformatted(json);
  ck_assert_ptr_nonnull(text);
  cJSON_free(text);
  cJSON_Delete(json);
  gp_findings_fini(&findings);
  gp_summary_fini(&summary);
}

START_TEST(test_a_snapshot_is_read)
{
  window = windows[_i];
  gp_snapshot_error_t error;
  gp_snapshot_t *snapshot = parse(SMALL_SNAPSHOT, strlen(SMALL_SNAPSHOT), &error);
  ck_assert_msg(snapshot != NULL, "%zu: %s", error.offset, error.text);
  ck_assert_uint_eq(snapshot->note_count, 0);
  ck_assert_uint_eq(snapshot->device_count, 1);
  ck_assert_uint_eq(snapshot->devices[0].limit, 8589934592);
  ck_assert_uint_eq(snapshot->devices[0].stats.requested_bytes.peak, 6000000);
  ck_assert_uint_eq(snapshot->devices[0].stats.cache_misses, 3);
  ck_assert_uint_eq(snapshot->block_count, 3);
  ck_assert_int_eq(snapshot->blocks[1].state, GP_SNAPSHOT_IDLE);
  ck_assert_uint_eq(snapshot->blocks[2].requested, 2000000);
  ck_assert_uint_eq(snapshot->events.count, 5);
  ck_assert_str_eq(snapshot->events.actions.names[1], "free_requested");
  ck_assert_int_eq(gp_column_get(snapshot->events.columns[GP_COLUMN_STREAM], 2), 0);
  ck_assert_int_eq(gp_column_get(snapshot->events.columns[GP_COLUMN_LIFETIME_NS], 4), 48000);
  ck_assert_str_eq(gp_snapshot_text(cJSON_GetObjectItem(snapshot->root, "process"), "host"), "node1");
  use(snapshot);
  gp_snapshot_destroy(snapshot);
}
END_TEST

#define NAMED_TAIL                                                                                           \
  "\"stacks\":[[1,0],[],[0]],\n\"frames\":[{\"address\":4711,\"module\":0},{\"address\":0,\"module\":-1,"    \
  "\"function\":\"f\\u00e9<\\\"x\\\">\",\"file\":\"a.c\",\"line\":12,\"inline\":true}],\n\"modules\":[{"     \
  "\"path\":\"/bin/x\","                                                                                     \
  "\"build_id\":\"00ff\",\"bias\":4096,\"start\":4096,\"end\":8192}],\n\"marks\":[],\n\"recorded_since_"     \
  "ns\":0,\n"                                                                                                \
  "\"dropped_events\":0}\n"
#define NAMED_SNAPSHOT                                                                                       \
  SMALL_HEAD SMALL_PROCESS SMALL_SETTINGS SMALL_DEVICES                                                      \
      "\"segments\":[],\"passthrough\":[{\"device\":0,\"address\":77,\"size\":5,\"kind\":\"managed\","       \
      "\"stream\":0,\"block\":9,\"stack\":2,\"time_ns\":3}],\n" SMALL_TABLES SMALL_EVENTS NAMED_TAIL

START_TEST(test_who_asked_is_read)
{
  window = windows[_i];
  gp_snapshot_error_t error;
  gp_snapshot_t *snapshot = parse(NAMED_SNAPSHOT, strlen(NAMED_SNAPSHOT), &error);
  ck_assert_msg(snapshot != NULL, "%zu: %s", error.offset, error.text);
  ck_assert_uint_eq(snapshot->note_count, 0);
  ck_assert_uint_eq(snapshot->forwarded_count, 1);
  ck_assert_str_eq(snapshot->forwarded[0].kind, "managed");
  ck_assert_int_eq(snapshot->forwarded[0].stack, 2);
  ck_assert_uint_eq(snapshot->stacks.count, 3);
  ck_assert_uint_eq(snapshot->stacks.first[0], 0);
  ck_assert_uint_eq(snapshot->stacks.first[1], 2);
  ck_assert_uint_eq(snapshot->stacks.first[2], 2);
  ck_assert_uint_eq(snapshot->stacks.first[3], 3);
  ck_assert_int_eq(snapshot->stacks.frame_indexes[0], 1);
  ck_assert_uint_eq(snapshot->frames[0].address, 4711);
  ck_assert_str_eq(snapshot->frames[0].function, "");
  ck_assert_str_eq(snapshot->frames[1].function, "f\xc3\xa9<\"x\">");
  ck_assert_int_eq(snapshot->frames[1].line, 12);
  ck_assert_int_eq(snapshot->frames[1].module, -1);
  ck_assert(snapshot->frames[1].is_inline);
  ck_assert_str_eq(snapshot->modules[0].path, "/bin/x");
  ck_assert_uint_eq(snapshot->modules[0].end, 8192);
  gp_snapshot_destroy(snapshot);
}
END_TEST

START_TEST(test_the_facts_are_those_of_the_snapshot)
{
  static gp_summary_t summary;
  static gp_findings_t findings;
  gp_snapshot_error_t error;
  gp_snapshot_t *snapshot = parse(SMALL_SNAPSHOT, strlen(SMALL_SNAPSHOT), &error);
  ck_assert_ptr_nonnull(snapshot);
  ck_assert_int_eq(gp_summary_init(&summary, snapshot, "test", &everything), 0);
  ck_assert_int_eq(gp_findings_init(&findings, &summary, NULL, NULL), 0);
  ck_assert_uint_eq(summary.devices[0].live_count, 2);
  ck_assert_uint_eq(summary.devices[0].live_bytes, 4194304);
  ck_assert_uint_eq(summary.devices[0].largest_idle, 2097152);
  ck_assert_uint_eq(summary.devices[0].group_count, 1);
  ck_assert_uint_eq(summary.devices[0].groups[0].count, 2);
  ck_assert_uint_eq(summary.event_count, 5);
  ck_assert_uint_eq(summary.driver_ns, 268000);
  ck_assert_uint_eq(summary.actions[0].count, 3);
  ck_assert_uint_eq(summary.actions[0].longest_ns, 98000);
  ck_assert_uint_eq(summary.until_ns, 52000);
  ck_assert(!summary.is_partial);
  ck_assert_str_eq(findings.items[0].code, "live_at_exit");
  ck_assert_uint_eq(findings.count, 1); /* two allocations do not tell how well the pool served */
  gp_findings_fini(&findings);
  gp_summary_fini(&summary);
  gp_snapshot_destroy(snapshot);
}
END_TEST

START_TEST(test_every_truncation_is_refused)
{
  window = windows[_i];
  static const char text[] = SMALL_SNAPSHOT;
  gp_snapshot_error_t error;
  size_t complete = sizeof(text) - 2; /* without the last line end */
  for (size_t length = 0; length < complete; length++) {
    gp_snapshot_t *snapshot = parse(text, length, &error);
    ck_assert_msg(snapshot == NULL, "the first %zu bytes were accepted", length);
    ck_assert_uint_eq(error.offset, length);
  }
  gp_snapshot_destroy(parse(text, complete, &error));
}
END_TEST

/* What comes before an error of the input is no snapshot, however complete it looks. */
START_TEST(test_an_error_of_the_input_is_told)
{
  static const char text[] = SMALL_SNAPSHOT;
  pieces_t pieces = {.text = text, .length = strlen(text) / 2, .piece = 100, .error = "it broke"};
  gp_snapshot_error_t error;
  gp_input_t input;
  gp_input_init(&input, pieces_read, &pieces, 100);
  ck_assert_ptr_null(gp_snapshot_parse_input(&input, ALL_COLUMNS, &error));
  ck_assert_str_eq(input.error, "it broke");
  gp_input_fini(&input);
}
END_TEST

START_TEST(test_no_changed_byte_is_a_crash)
{
  static const char text[] = SMALL_SNAPSHOT;
  static const char others[] = "\0\"{}[],:-19e.\\ntfu\xff\xc3";
  char changed[sizeof(text)];
  gp_snapshot_error_t error;
  int accepted = 0;
  for (size_t at = 0; at < sizeof(text) - 1; at++) {
    for (unsigned i = 0; i < 8 + sizeof(others) - 1; i++) {
      memcpy(changed, text, sizeof(text));
      changed[at] = i < 8 ? (char)(changed[at] ^ (1 << i)) : others[i - 8];
      gp_snapshot_t *snapshot = parse(changed, sizeof(text) - 1, &error);
      accepted += snapshot != NULL;
      if (snapshot && i < 2)
        use(snapshot);
      gp_snapshot_destroy(snapshot);
    }
  }
  ck_assert_int_gt(accepted, 0); /* a digit is as good as another */
}
END_TEST

/* The snapshot with one part replaced: what comes of it. */
static void expect(const char *text, const char *part_of_error)
{
  gp_snapshot_error_t error = {0};
  gp_snapshot_t *snapshot = parse(text, strlen(text), &error);
  if (part_of_error) {
    ck_assert_msg(snapshot == NULL, "accepted, but: %s", part_of_error);
    ck_assert_msg(
        strstr(error.text, part_of_error) != NULL, "\"%s\" is not in \"%s\"", part_of_error, error.text);
  } else {
    ck_assert_msg(snapshot != NULL, "%zu: %s", error.offset, error.text);
    use(snapshot);
  }
  gp_snapshot_destroy(snapshot);
}

START_TEST(test_other_inputs_are_told_apart)
{
  window = windows[_i];
  gp_snapshot_error_t error;
  expect("", "is empty");
  expect(" \n", "nothing but blanks");
  expect("hello", "it is not JSON");
  expect("[1]", "JSON array");
  expect("{}", "not a gpupool snapshot");
  expect("{\"segments\":[],\"device_traces\":[]}", "PyTorch");
  expect("{\"format\":\"gpupool-summary\",\"version\":1}", "its format is \"gpupool-summary\"");
  expect("{\"format\":\"gpupool-snapshot\"}", "no valid version");
  expect("{\"format\":\"gpupool-snapshot\",\"version\":2,\"events\":7}", "newer than this tool");
  expect("{\"format\":\"gpupool-snapshot\",\"version\":\"1\"}", "whole number");
  ck_assert_ptr_null(parse("\x1f\x8b\x08\x00", 4, &error));
  ck_assert_ptr_nonnull(strstr(error.text, "gzip"));
  ck_assert_ptr_null(parse("\x80\x02}", 3, &error));
  ck_assert_ptr_nonnull(strstr(error.text, "pickle"));
}
END_TEST

START_TEST(test_indexes_are_checked)
{
  window = windows[_i];
#define WITH_EVENTS(events)                                                                                  \
  SMALL_HEAD SMALL_PROCESS SMALL_SETTINGS SMALL_DEVICES SMALL_SEGMENTS SMALL_TABLES                          \
      "\"events\":{\"actions\":[\"alloc\"],\"details\":[\"\"]," events "}," SMALL_TAIL
  expect(WITH_EVENTS("\"action\":[0]"), NULL);
  expect(WITH_EVENTS("\"action\":[1]"), "events.action: element 0 is 1");
  expect(WITH_EVENTS("\"action\":[-1]"), "events.action: element 0 is -1");
  expect(WITH_EVENTS("\"detail\":[0,1]"), "events.detail: element 1 is 1");
  expect(WITH_EVENTS("\"device\":[64]"), "events.device");
  expect(WITH_EVENTS("\"device\":[-1]"), NULL);
  expect(WITH_EVENTS("\"stream\":[1]"), "events.stream");
  expect(WITH_EVENTS("\"thread\":[1]"), "events.thread");
  expect(WITH_EVENTS("\"hit\":[2]"), "events.hit");
  expect(WITH_EVENTS("\"size\":[-5]"), "events.size");
  expect(WITH_EVENTS("\"action\":[0],\"action\":[0]"), "a duplicate column");
  expect(WITH_EVENTS("\"action\":{}"), "an array was expected");
  expect(WITH_EVENTS("\"stack\":[0]"), "events.stack: element 0 is 0");
#define WITH_TABLES(memory, stacks, frames)                                                                  \
  "{\"format\":\"gpupool-snapshot\",\"version\":1," memory "\"stacks\":[" stacks "],\"frames\":[" frames     \
  "],\"modules\":[]}"
  expect(WITH_TABLES("", "[0]", "{}"), NULL);
  expect(WITH_TABLES("", "[],[1]", "{}"), "stack 1 refers to frame 1");
  expect(WITH_TABLES("", "[-1]", "{}"), "impossible frame");
  expect(WITH_TABLES("", "", "{\"module\":0}"), "refers to module 0");
  expect(WITH_TABLES("", "", "{\"module\":2147483647}"), "refers to module 2147483647");
  expect(WITH_TABLES("", "", "{\"module\":2147483648}"), "not an index");
  expect(WITH_TABLES("", "", "{\"module\":-2}"), "not an index");
  expect(
      WITH_TABLES("", "", "{\"function\":\"f\",\"function\":\"g\"}"), NULL); /* the leak checker looks on */
  expect(WITH_TABLES("\"passthrough\":[{\"device\":0,\"kind\":\"\",\"stack\":1}],", "[]", ""),
      "passthrough memory 0");
  expect(WITH_TABLES("\"passthrough\":[{\"device\":0,\"kind\":\"\",\"stream\":0}],", "[]", ""),
      "passthrough memory 0");
  expect(WITH_TABLES("\"passthrough\":[{\"device\":0}],", "", ""), "of no kind");
  expect(WITH_TABLES("\"segments\":[{\"device\":0,\"blocks\":[{\"stack\":0}]}],", "", ""), "block 0");
}
END_TEST

START_TEST(test_wrong_kinds_are_refused)
{
  window = windows[_i];
  expect("{\"format\":\"gpupool-snapshot\",\"version\":1,\"process\":[]}", "process is not an object");
  expect("{\"format\":\"gpupool-snapshot\",\"version\":1,\"devices\":[{\"device\":0}]}", "has no stats");
  expect("{\"format\":\"gpupool-snapshot\",\"version\":1,\"devices\":[{\"device\":0.5,\"stats\":{}}]}",
      "ordinal");
  expect(
      "{\"format\":\"gpupool-snapshot\",\"version\":1,\"devices\":[{\"device\":0,\"stats\":{\"fences\":-1}}]}",
      "fences of device 0");
  expect(
      "{\"format\":\"gpupool-snapshot\",\"version\":1,\"devices\":[{\"device\":0,\"stats\":{\"segment\":1}}]}",
      "segment of device 0");
  expect(
      "{\"format\":\"gpupool-snapshot\",\"version\":1,\"devices\":[{\"device\":0,\"stats\":{}},{\"device\":0,\"stats\":{}}]}",
      "twice");
  expect("{\"format\":\"gpupool-snapshot\",\"version\":1,\"dropped_events\":-1}", "dropped_events");
  expect(
      "{\"format\":\"gpupool-snapshot\",\"version\":1,\"segments\":[{\"blocks\":[]}]}", "no possible device");
  expect("{\"format\":\"gpupool-snapshot\",\"version\":1,\"segments\":[],\"segments\":[]}", "twice");
}
END_TEST

START_TEST(test_what_is_missing_is_noted)
{
  window = windows[_i];
  gp_snapshot_error_t error;
  const char *text = WITH_EVENTS("\"action\":[0,0,0],\"time_ns\":[1,2]");
  gp_snapshot_t *snapshot = parse(text, strlen(text), &error);
  bool differs = false;
  ck_assert_ptr_nonnull(snapshot);
  ck_assert_uint_eq(snapshot->events.count, 2);
  for (size_t i = 0; i < snapshot->note_count; i++)
    differs = differs || strstr(snapshot->notes[i], "2 of 3 events");
  ck_assert(differs);
  use(snapshot);
  gp_snapshot_destroy(snapshot);

  text = "{\"version\":1,\"new\":[{}],\"format\":\"gpupool-snapshot\"}";
  snapshot = parse(text, strlen(text), &error);
  ck_assert_ptr_nonnull(snapshot);
  ck_assert_uint_gt(snapshot->note_count, 5);
  use(snapshot);
  gp_snapshot_destroy(snapshot);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("snapshot_reader");
  TCase *good = tcase_create("good");
  TCase *bad = tcase_create("bad");
  tcase_set_timeout(bad, 120);
  tcase_add_loop_test(good, test_a_snapshot_is_read, 0, WINDOW_COUNT);
  tcase_add_loop_test(good, test_who_asked_is_read, 0, WINDOW_COUNT);
  tcase_add_test(good, test_the_facts_are_those_of_the_snapshot);
  tcase_add_loop_test(good, test_what_is_missing_is_noted, 0, WINDOW_COUNT);
  tcase_add_loop_test(bad, test_every_truncation_is_refused, 0, WINDOW_COUNT);
  tcase_add_test(bad, test_an_error_of_the_input_is_told);
  tcase_add_test(bad, test_no_changed_byte_is_a_crash);
  tcase_add_loop_test(bad, test_other_inputs_are_told_apart, 0, WINDOW_COUNT);
  tcase_add_loop_test(bad, test_indexes_are_checked, 0, WINDOW_COUNT);
  tcase_add_loop_test(bad, test_wrong_kinds_are_refused, 0, WINDOW_COUNT);
  suite_add_tcase(suite, good);
  suite_add_tcase(suite, bad);
  return gp_check_main(suite);
}
