/*
 * The JSON tokenizer: what it accepts, what it refuses, and where.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pieces.h"
#include "tools/read/json_scan.h"
#include "test/pool/check_main.h"

#define WINDOWS 64 /* bytes, up to which */

/* A copy of its own size, so that a sanitizer sees a byte too far. */
static char *copy_of(const char *text, size_t length)
{
  char *copy = malloc(length + 1);
  ck_assert_ptr_nonnull(copy);
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

/* What a scan of a text comes to. */
typedef struct outcome {
  bool is_good;
  const char *error;
  size_t error_at;
} outcome_t;

static outcome_t skip_all(gp_json_scan_t *scan)
{
  bool good = gp_json_scan_skip(scan) && gp_json_scan_end(scan);
  ck_assert_int_eq(good, scan->error == NULL);
  return (outcome_t){good, scan->error, scan->error_at};
}

static void check_same(const char *text, size_t window, outcome_t a, outcome_t b)
{
  ck_assert_msg(a.is_good == b.is_good && a.error == b.error && a.error_at == b.error_at,
      "%s: '%s' at %zu in memory, '%s' at %zu with a window of %zu", text, a.error ? a.error : "good",
      a.error_at, b.error ? b.error : "good", b.error_at, window);
}

/* The text as it is, and through windows of every size: they must agree. */
static outcome_t scan_text(const char *text, size_t length)
{
  gp_json_scan_t scan;
  char *copy = copy_of(text, length);
  gp_json_scan_init(&scan, copy, length);
  outcome_t outcome = skip_all(&scan);
  for (size_t window = 1; window <= WINDOWS; window++) {
    pieces_t pieces = {.text = copy, .length = length, .piece = window};
    gp_input_t input;
    gp_input_init(&input, pieces_read, &pieces, window);
    gp_json_scan_init_input(&scan, &input);
    check_same(text, window, outcome, skip_all(&scan));
    gp_input_fini(&input);
  }
  free(copy);
  return outcome;
}

static bool accepts(const char *text, size_t *ret_error_at)
{
  outcome_t outcome = scan_text(text, strlen(text));
  *ret_error_at = outcome.error_at;
  return outcome.is_good;
}

START_TEST(test_correct_documents_are_accepted)
{
  static const char *const texts[] = {"0", "-0", "12.5e-3", "1E+9", " true ", "false", "null", "\"\"", "[]",
      "{}", " [ 1 , [ ] , { } ] ", "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"d\":\"e\"}",
      "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"", "\"\\ud83d\\ude00\"",
      "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", "[\"a\",\t\"b\"\r\n]"};
  size_t at;
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
    ck_assert_msg(accepts(texts[i], &at), "%s refused at %zu", texts[i], at);
}
END_TEST

START_TEST(test_errors_are_where_they_are)
{
  static const struct {
    const char *text;
    size_t at;
  } cases[] = {
      {"", 0},
      {"tru", 3},
      {"trux", 0},
      {"[1,]", 3},
      {"[1 2]", 3},
      {"{\"a\" 1}", 5},
      {"{a:1}", 1},
      {"{\"a\":1,}", 7},
      {"[01]", 3},
      {"[1.]", 3},
      {"[-]", 2},
      {"[.5]", 1},
      {"1e", 2},
      {"\"\\x\"", 1},
      {"\"\\u12g4\"", 1},
      {"\"\\ud800\"", 1},
      {"\"\\udc00\"", 1},
      {"\"a\nb\"", 2},
      {"\"\xff\"", 1},
      {"\"\xc0\x80\"", 1},
      {"\"\xed\xa0\x80\"", 1},
      {"\"\xf5\x80\x80\x80\"", 1},
      {"\"abc", 4},
      {"[1", 2},
      {"{\"a\":", 5},
      {"1 2", 2},
      {"]", 0},
      {"[}", 1},
      {"\"\\", 2},
      {"\"\\u12", 5},
      {"\"\xe2\x82", 3},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    size_t at;
    ck_assert_msg(!accepts(cases[i].text, &at), "%s accepted", cases[i].text);
    ck_assert_msg(at == cases[i].at, "%s: error at %zu and not at %zu", cases[i].text, at, cases[i].at);
  }
}
END_TEST

START_TEST(test_nesting_is_bounded)
{
  char text[4 * GP_JSON_SCAN_DEPTH];
  size_t at;
  for (int depth = GP_JSON_SCAN_DEPTH; depth <= GP_JSON_SCAN_DEPTH + 1; depth++) {
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    text[2 * depth] = '\0';
    ck_assert_int_eq(accepts(text, &at), depth == GP_JSON_SCAN_DEPTH);
  }
  ck_assert_uint_eq(at, GP_JSON_SCAN_DEPTH);
}
END_TEST

START_TEST(test_every_prefix_of_a_document_is_refused)
{
  static const char text[] = "{\"a\":[1,-2,{\"b\":\"c\\u00e9\xc3\xa9\"}],\"d\":[true,false,null,1.5e3]}";
  for (size_t length = 0; length < sizeof(text) - 1; length++) {
    outcome_t outcome = scan_text(text, length);
    ck_assert(!outcome.is_good);
    ck_assert_uint_eq(outcome.error_at, length);
  }
}
END_TEST

START_TEST(test_members_and_elements_are_visited)
{
  static const char text[] = "{ \"one\" : 1 , \"list\" : [ 7 , 8 ] , \"text\" : \"a\\\"b\" }";
  gp_json_scan_t scan;
  gp_json_slice_t name, string;
  int64_t number;
  pieces_t pieces = {.text = text, .length = sizeof(text) - 1, .piece = (size_t)_i};
  gp_input_t input;

  gp_input_init(&input, pieces_read, &pieces, (size_t)_i);
  gp_json_scan_init_input(&scan, &input);
  ck_assert(gp_json_scan_begin(&scan, '{'));
  ck_assert(gp_json_scan_member(&scan, &name));
  ck_assert_int_eq(gp_json_scan_peek(&scan), '1');
  ck_assert(gp_json_slice_is(name, "one")); /* a peek leaves it */
  ck_assert(!gp_json_slice_is(name, "on"));
  ck_assert(gp_json_scan_integer(&scan, &number));
  ck_assert_int_eq(number, 1);
  ck_assert(gp_json_scan_member(&scan, &name));
  ck_assert(gp_json_scan_begin(&scan, '['));
  for (int i = 7; i <= 8; i++) {
    ck_assert(gp_json_scan_element(&scan));
    ck_assert(gp_json_scan_integer(&scan, &number));
    ck_assert_int_eq(number, i);
  }
  ck_assert(!gp_json_scan_element(&scan));
  ck_assert(gp_json_scan_member(&scan, &name));
  ck_assert(gp_json_scan_string(&scan, &string));
  ck_assert(gp_json_slice_is(string, "a\\\"b"));
  ck_assert(!gp_json_scan_member(&scan, &name));
  ck_assert_ptr_null(scan.error);
  ck_assert(gp_json_scan_end(&scan));
  gp_input_fini(&input);
}
END_TEST

/* A value that is wanted as text stays in the window from its beginning; what comes before it does not. */
START_TEST(test_the_text_of_a_value_is_all_there)
{
  static const char value[] = "{\"a\":[1,2,{\"b\":\"c\\u00e9\"}],\"d\":null}";
  char text[200];
  gp_json_scan_t scan;
  gp_json_slice_t slice, again;
  int length = snprintf(text, sizeof(text), "[\"%060d\", %s ,%s]", 0, value, value);
  pieces_t pieces = {.text = text, .length = (size_t)length, .piece = (size_t)_i};
  gp_input_t input;

  gp_input_init(&input, pieces_read, &pieces, (size_t)_i);
  gp_json_scan_init_input(&scan, &input);
  ck_assert(gp_json_scan_begin(&scan, '['));
  ck_assert(gp_json_scan_element(&scan) && gp_json_scan_skip(&scan));
  ck_assert(gp_json_scan_element(&scan) && gp_json_scan_value(&scan, &slice));
  ck_assert(gp_json_slice_is(slice, value));
  ck_assert(gp_json_scan_element(&scan) && gp_json_scan_value(&scan, &again));
  ck_assert(gp_json_slice_is(again, value));
  ck_assert(!gp_json_scan_element(&scan) && gp_json_scan_end(&scan));
  ck_assert_uint_gt(input.base, 60);
  gp_input_fini(&input);
}
END_TEST

/* Reads an array in parts of `room`; values has place for 16. */
static outcome_t read_all(gp_json_scan_t *scan, size_t room, int64_t *values, size_t *ret_count)
{
  size_t count = 0, got = room;
  bool good = gp_json_scan_begin(scan, '[');
  while (good && got == room) {
    good = gp_json_scan_integers(scan, values + count, room, &got);
    count += good ? got : 0;
  }
  good = good && gp_json_scan_end(scan);
  ck_assert_int_eq(good, scan->error == NULL);
  *ret_count = count;
  return (outcome_t){good, scan->error, scan->error_at};
}

static bool integers(const char *text, size_t room, int64_t *values, size_t *ret_count, size_t *ret_error_at)
{
  gp_json_scan_t scan;
  size_t length = strlen(text);
  char *copy = copy_of(text, length);
  gp_json_scan_init(&scan, copy, length);
  outcome_t outcome = read_all(&scan, room, values, ret_count);
  for (size_t window = 1; window <= WINDOWS; window++) {
    pieces_t pieces = {.text = copy, .length = length, .piece = window};
    int64_t others[16];
    size_t count;
    gp_input_t input;
    gp_input_init(&input, pieces_read, &pieces, window);
    gp_json_scan_init_input(&scan, &input);
    check_same(text, window, outcome, read_all(&scan, room, others, &count));
    ck_assert_uint_eq(count, *ret_count);
    ck_assert_mem_eq(others, values, count * sizeof(others[0]));
    gp_input_fini(&input);
  }
  free(copy);
  *ret_error_at = outcome.error_at;
  return outcome.is_good;
}

START_TEST(test_integers_are_read)
{
  for (size_t room = 1; room <= 6; room++) {
    int64_t read[16];
    size_t at, count;
    ck_assert(integers("[0,-1, 9007199254740991 ,\n-9007199254740991,5,6]", room, read, &count, &at));
    ck_assert_uint_eq(count, 6);
    ck_assert_int_eq(read[0], 0);
    ck_assert_int_eq(read[1], -1);
    ck_assert_int_eq(read[2], GP_JSON_SCAN_INTEGER_MAX);
    ck_assert_int_eq(read[3], -GP_JSON_SCAN_INTEGER_MAX);
    ck_assert_int_eq(read[5], 6);
    ck_assert(integers("[ ]", room, read, &count, &at));
    ck_assert_uint_eq(count, 0);
  }
}
END_TEST

/* Of each length, where the text goes on far enough that eight digits can be read at once. */
START_TEST(test_integers_of_each_length_are_read)
{
  for (int digits = 1; digits <= 15; digits++) {
    for (int sign = 1; sign >= -1; sign -= 2) {
      char text[128];
      int64_t read[16], wanted = 0;
      size_t at, count;
      for (int i = 1; i <= digits; i++)
        wanted = wanted * 10 + (i * 7 + digits) % 9 + 1;
      snprintf(text, sizeof(text), "[1,%lld,2,%lld,0,0,0,0,0,0,0,0,0,0,0]", (long long)(sign * wanted),
          (long long)(sign * (wanted / 10 * 10)));
      ck_assert(integers(text, 16, read, &count, &at));
      ck_assert_uint_eq(count, 15);
      ck_assert_msg(
          read[1] == sign * wanted && read[3] == sign * (wanted / 10 * 10) && read[2] == 2, "%s", text);
    }
  }
}
END_TEST

/* Four digits are read at once where the text goes on far enough, and one at a time in the smaller windows:
 * integers() compares the two. */
START_TEST(test_digits_are_read_at_once_as_one_at_a_time)
{
  static const char digits[] = "[0,1,2,3,4,5,6,7,8,9,8,7,6,5,4,3]";
  char text[sizeof(digits)];
  int64_t read[64];
  size_t at, count;

  ck_assert(integers(digits, 16, read, &count, &at));
  ck_assert_uint_eq(count, 16);
  for (int i = 0; i < 16; i++)
    ck_assert_int_eq(read[i], digits[2 * i + 1] - '0');
  for (size_t i = 2; i < 12; i++) {
    memcpy(text, digits, sizeof(digits));
    for (int c = 1; c < 256; c++) {
      text[i] = (char)c;
      (void)integers(text, 16, read, &count, &at);
    }
  }
}
END_TEST

START_TEST(test_what_is_no_integer_is_refused)
{
  static const struct {
    const char *text;
    size_t at;
  } cases[] = {{"[1,2.5]", 3}, {"[1e3]", 1}, {"[9007199254740992]", 1}, {"[-9007199254740992]", 1},
      {"[01]", 1}, {"[1,-]", 4}, {"[99999999999999999999999999]", 1}, {"[\"1\"]", 1}, {"[1,,2]", 3},
      {"[1,01,2,3,4,5,6,7,8,9,10,11,12]", 3}, {"[1,1x,2,3,4,5,6,7,8,9,10,11,12]", 4},
      {"[1,-,2,3,4,5,6,7,8,9,10,11]", 4}, {"[1,12345678.5,2,3,4,5,6,7,8,9]", 3},
      {"[1,9007199254740992,2,3,4,5,6,7,8]", 3}, {"[1", 2}, {"[1,", 3}, {"[", 1}, {"[-", 2}, {"{}", 0},
      {"[null]", 1}, {"[1,2}", 4}, {"[1,]", 3}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    for (size_t room = 1; room <= 3; room++) {
      int64_t read[16];
      size_t at, count;
      ck_assert_msg(!integers(cases[i].text, room, read, &count, &at), "%s accepted", cases[i].text);
      ck_assert_msg(at == cases[i].at, "%s: error at %zu and not at %zu", cases[i].text, at, cases[i].at);
    }
  }
}
END_TEST

START_TEST(test_nul_bytes_are_no_end)
{
  static const char text[] = "[1,\0002]";
  outcome_t outcome = scan_text(text, sizeof(text) - 1);
  ck_assert(!outcome.is_good);
  ck_assert_uint_eq(outcome.error_at, 3);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("json_scan");
  TCase *values = tcase_create("values");
  TCase *numbers = tcase_create("integers");
  tcase_add_test(values, test_correct_documents_are_accepted);
  tcase_add_test(values, test_errors_are_where_they_are);
  tcase_add_test(values, test_nesting_is_bounded);
  tcase_add_test(values, test_every_prefix_of_a_document_is_refused);
  tcase_add_loop_test(values, test_members_and_elements_are_visited, 1, WINDOWS + 1);
  tcase_add_loop_test(values, test_the_text_of_a_value_is_all_there, 1, WINDOWS + 1);
  tcase_add_test(values, test_nul_bytes_are_no_end);
  tcase_add_test(numbers, test_integers_are_read);
  tcase_add_test(numbers, test_integers_of_each_length_are_read);
  tcase_add_test(numbers, test_digits_are_read_at_once_as_one_at_a_time);
  tcase_add_test(numbers, test_what_is_no_integer_is_refused);
  suite_add_tcase(suite, values);
  suite_add_tcase(suite, numbers);
  return gp_check_main(suite);
}
