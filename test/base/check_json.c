/*
 * The JSON writer: commas, numbers, escapes, errors.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/json.h"
#include "base/sort.h"
#include "test/pool/check_main.h"

static char buffer[64]; /* small, so that everything crosses its end */
static char output[65536];
static gp_json_t json;

static void setup(void)
{
  int fd = memfd_create("json", 0);
  ck_assert_int_ge(fd, 0);
  gp_json_init(&json, fd, buffer, sizeof(buffer));
}

static void teardown(void)
{
  close(json.fd);
}

static const char *written(void)
{
  ck_assert_int_eq(gp_json_finish(&json), 0);
  ssize_t length = pread(json.fd, output, sizeof(output) - 1, 0);
  ck_assert_int_ge(length, 0);
  output[length] = '\0';
  return output;
}

START_TEST(test_commas_go_between_values_only)
{
  gp_json_begin(&json, '{');
  gp_json_key_uint(&json, "a", 1);
  gp_json_key(&json, "b");
  gp_json_begin(&json, '[');
  gp_json_end(&json, ']');
  gp_json_key(&json, "c");
  gp_json_begin(&json, '[');
  gp_json_bool(&json, true);
  gp_json_null(&json);
  gp_json_begin(&json, '{');
  gp_json_end(&json, '}');
  gp_json_bool(&json, false);
  gp_json_end(&json, ']');
  gp_json_newline(&json);
  gp_json_key_string(&json, "d", NULL);
  gp_json_end(&json, '}');
  ck_assert_str_eq(written(), "{\"a\":1,\"b\":[],\"c\":[true,null,{},false],\n\"d\":null}");
}
END_TEST

START_TEST(test_integers_of_every_length)
{
  char expected[1024] = "[";
  uint64_t number = 0;
  gp_json_begin(&json, '[');
  for (int digits = 0; digits <= 15; digits++) {
    char text[32];
    snprintf(text, sizeof(text), "%s%llu", digits ? "," : "", (unsigned long long)number);
    strcat(expected, text);
    gp_json_uint(&json, number);
    number = number * 10 + (uint64_t)(digits + 1) % 10;
  }
  strcat(expected, ",-1,-4711,99,100,10,9]");
  gp_json_int(&json, -1);
  gp_json_int(&json, -4711);
  gp_json_uint(&json, 99);
  gp_json_uint(&json, 100);
  gp_json_uint(&json, 10);
  gp_json_uint(&json, 9);
  gp_json_end(&json, ']');
  ck_assert_str_eq(written(), expected);
}
END_TEST

START_TEST(test_integers_stay_below_2_to_53)
{
  gp_json_begin(&json, '[');
  gp_json_uint(&json, UINT64_MAX);
  gp_json_int(&json, INT64_MIN);
  gp_json_uint(&json, (UINT64_C(1) << 53) - 1);
  gp_json_end(&json, ']');
  ck_assert_str_eq(written(), "[9007199254740991,-9007199254740991,9007199254740991]");
}
END_TEST

START_TEST(test_ratios_have_six_decimals)
{
  gp_json_begin(&json, '[');
  gp_json_ratio(&json, 1, 3);
  gp_json_ratio(&json, 0, 0);
  gp_json_ratio(&json, 7, 7);
  gp_json_ratio(&json, 3, 2);
  gp_json_ratio(&json, 999999999, 1000000000);
  gp_json_end(&json, ']');
  ck_assert_str_eq(written(), "[0.333333,0.000000,1.000000,1.500000,1.000000]");
}
END_TEST

START_TEST(test_microseconds_have_as_many_decimals_as_they_take)
{
  gp_json_begin(&json, '[');
  gp_json_microseconds(&json, 0);
  gp_json_microseconds(&json, 1);
  gp_json_microseconds(&json, 1200);
  gp_json_microseconds(&json, 7040);
  gp_json_microseconds(&json, 308561000);
  gp_json_end(&json, ']');
  ck_assert_str_eq(written(), "[0,0.001,1.2,7.04,308561]");
}
END_TEST

START_TEST(test_hex_has_no_leading_zeros)
{
  gp_json_begin(&json, '[');
  gp_json_hex(&json, 0);
  gp_json_hex(&json, 0x7f00);
  gp_json_hex(&json, UINT64_MAX);
  gp_json_end(&json, ']');
  ck_assert_str_eq(written(), "[\"0x0\",\"0x7f00\",\"0xffffffffffffffff\"]");
}
END_TEST

#define FFFD "\xef\xbf\xbd"

static const struct {
  const char *bytes;
  size_t length; /* 0: strlen */
  const char *expected;
} string_cases[] = {
    {"", 0, "\"\""},
    {"plain /usr/bin", 0, "\"plain /usr/bin\""},
    {"a\"b\\c", 0, "\"a\\\"b\\\\c\""},
    {"\n\t\r\x01\x1f\x7f", 0, "\"\\n\\t\\u000d\\u0001\\u001f\\u007f\""},
    {"a\0b", 3, "\"a\\u0000b\""},
    {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 0, "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
    {"\xf4\x8f\xbf\xbf", 0, "\"\xf4\x8f\xbf\xbf\""},
    {"\xc2\x9b\xe2\x80\xae\xe2\x81\xa6", 0, "\"\\u009b\\u202e\\u2066\""}, /* what steers a terminal */
    {"\xf3\xa0\x81\x81", 0, "\"\\udb40\\udc41\""},                        /* above U+FFFF: a pair */
    {"\xff", 0, "\"" FFFD "\""},
    {"a\x80z", 0, "\"a" FFFD "z\""},
    {"\xc0\xaf", 0, "\"" FFFD FFFD "\""},                   /* overlong "/" */
    {"\xe0\x80\xaf", 0, "\"" FFFD FFFD FFFD "\""},          /* overlong, three bytes */
    {"\xf0\x80\x80\xaf", 0, "\"" FFFD FFFD FFFD FFFD "\""}, /* overlong, four bytes */
    {"\xed\xa0\x80", 0, "\"" FFFD FFFD FFFD "\""},          /* a surrogate */
    {"\xf4\x90\x80\x80", 0, "\"" FFFD FFFD FFFD FFFD "\""}, /* above U+10FFFF */
    {"\xe2\x82", 0, "\"" FFFD FFFD "\""},                   /* cut short */
    {"\xe2\x82\"x", 0, "\"" FFFD FFFD "\\\"x\""},           /* the quote is not swallowed */
    {"\xf0\x9f\x98", 0, "\"" FFFD FFFD FFFD "\""},
};

START_TEST(test_strings_are_escaped)
{
  size_t length = string_cases[_i].length ? string_cases[_i].length : strlen(string_cases[_i].bytes);
  gp_json_bytes(&json, string_cases[_i].bytes, length);
  ck_assert_str_eq(written(), string_cases[_i].expected);
}
END_TEST

START_TEST(test_string_longer_than_the_buffer)
{
  char text[1000], expected[1003];
  memset(text, 'x', sizeof(text));
  memset(expected, 'x', sizeof(expected));
  expected[0] = expected[1001] = '"';
  expected[1002] = '\0';
  gp_json_bytes(&json, text, sizeof(text));
  ck_assert_str_eq(written(), expected);
}
END_TEST

/* Plain bytes are copied in runs: one that needs an escape ends a run wherever it is, and at the buffer's
 * end, too. */
START_TEST(test_escapes_are_found_at_every_place)
{
  char text[150], expected[200];
  for (size_t at = 0; at < sizeof(text); at++) {
    memset(text, 'x', sizeof(text));
    text[at] = '\n';
    snprintf(expected, sizeof(expected), "\"%.*s\\n%.*s\"", (int)at, text, (int)(sizeof(text) - at - 1),
        text + at + 1);
    gp_json_bytes(&json, text, sizeof(text));
    ck_assert_str_eq(written(), expected);
    teardown();
    setup();
  }
}
END_TEST

/* Up to the bound all is written; the first byte beyond it is an error. */
START_TEST(test_bound)
{
  char small[64];
  for (uint64_t most = 200; most <= 202; most += 2) {
    int fd = open("/dev/null", O_WRONLY);
    gp_json_t bounded;
    gp_json_init(&bounded, fd, small, sizeof(small));
    gp_json_bound(&bounded, most);
    for (int i = 0; i < 101; i++)
      gp_json_uint(&bounded, 7); /* 2 bytes each but for the first */
    ck_assert_int_eq(gp_json_finish(&bounded), most < 201 ? EOVERFLOW : 0);
    gp_json_string(&bounded, "after an error nothing happens");
    close(fd);
  }
}
END_TEST

START_TEST(test_first_error_is_kept)
{
  int fd = open("/dev/full", O_WRONLY);
  ck_assert_int_ge(fd, 0);
  gp_json_t full;
  gp_json_init(&full, fd, buffer, sizeof(buffer));
  for (uint64_t i = 0; i < 1000; i++)
    gp_json_uint(&full, i);
  ck_assert_int_eq(full.error, ENOSPC);
  ck_assert_int_eq(gp_json_finish(&full), ENOSPC);
  close(fd);
}
END_TEST

START_TEST(test_sort_agrees_with_a_count)
{
  gp_sort_key_t keys[257];
  srandom(4711);
  for (size_t count = 0; count <= 257; count++) {
    for (size_t i = 0; i < count; i++)
      keys[i] = (gp_sort_key_t){.key = (uint64_t)random() % 64, .index = (uint32_t)i};
    gp_sort_keys(keys, count);
    uint64_t index_sum = 0;
    for (size_t i = 0; i < count; i++) {
      index_sum += keys[i].index;
      if (i > 0)
        ck_assert(keys[i - 1].key < keys[i].key ||
                  (keys[i - 1].key == keys[i].key && keys[i - 1].index < keys[i].index));
    }
    ck_assert_uint_eq(index_sum, count ? count * (count - 1) / 2 : 0);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("json");
  TCase *tcase = tcase_create("writer");
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, test_commas_go_between_values_only);
  tcase_add_test(tcase, test_integers_of_every_length);
  tcase_add_test(tcase, test_integers_stay_below_2_to_53);
  tcase_add_test(tcase, test_ratios_have_six_decimals);
  tcase_add_test(tcase, test_microseconds_have_as_many_decimals_as_they_take);
  tcase_add_test(tcase, test_hex_has_no_leading_zeros);
  tcase_add_loop_test(
      tcase, test_strings_are_escaped, 0, (int)(sizeof(string_cases) / sizeof(string_cases[0])));
  tcase_add_test(tcase, test_string_longer_than_the_buffer);
  tcase_add_test(tcase, test_escapes_are_found_at_every_place);
  tcase_add_test(tcase, test_first_error_is_kept);
  tcase_add_test(tcase, test_bound);
  tcase_add_test(tcase, test_sort_agrees_with_a_count);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
