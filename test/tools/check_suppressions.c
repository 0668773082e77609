/*
 * Suppressions: the patterns of LeakSanitizer, and what is no suppression.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "test/pool/check_main.h"
#include "tools/model/suppressions.h"
#include "tools/pattern.h"

START_TEST(test_patterns_are_those_of_the_sanitizers)
{
  static const struct {
    const char *pattern, *text;
    bool matches;
  } cases[] = {
      {"load", "load", true}, {"load", "preload_weights", true}, {"load", "save", false},
      {"^load", "load_weights", true}, {"^load", "preload", false}, {"load$", "preload", true},
      {"load$", "loader", false}, {"^load$", "load", true}, {"^load$", "loads", false},
      {"a*c", "xabbcx", true}, {"^a*c$", "abbc", true}, {"^a*c$", "abbcd", false}, {"^a*c$", "abccc", true},
      {"a*b*c", "a_b_c", true}, {"a*b*c", "a_c_b", false}, {"lib*.so", "/usr/lib/libx.so", true},
      {"*end", "the end", true}, {"begin*", "begin", true}, {"ab$", "aab", true}, {"load", "", false},
      {"a$b", "a$b", true}, /* only the last one is an end */
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    ck_assert_msg(gp_pattern_matches(cases[i].pattern, cases[i].text) == cases[i].matches, "%s on %s",
        cases[i].pattern, cases[i].text);
}
END_TEST

static size_t parse(const char *text, gp_suppressions_t *suppressions)
{
  const char *why = "";
  char *copy = strdup(text);
  ck_assert_ptr_nonnull(copy);
  size_t line = gp_suppressions_parse(suppressions, copy, &why);
  ck_assert(line == 0 || why[0]);
  free(copy);
  return line;
}

START_TEST(test_lines_are_read)
{
  gp_suppressions_t suppressions;
  ck_assert_uint_eq(parse("# known\n\n  leak:load_weights \r\nleak:^cache$", &suppressions), 0);
  ck_assert_uint_eq(suppressions.count, 2);
  ck_assert_str_eq(suppressions.items[0].pattern, "load_weights");
  ck_assert_str_eq(suppressions.items[1].pattern, "^cache$");
  gp_suppressions_fini(&suppressions);
}
END_TEST

START_TEST(test_what_is_none_is_refused_with_its_line)
{
  static const char *const texts[] = {
      "leak:a\nrace:b\n", "\nload\n", "#\nleak:\n", "leak:a\nleak:*\n", "\nleak:^$"};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    gp_suppressions_t suppressions;
    ck_assert_uint_eq(parse(texts[i], &suppressions), 2);
    gp_suppressions_fini(&suppressions);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("suppressions");
  TCase *cases = tcase_create("suppressions");
  tcase_add_test(cases, test_patterns_are_those_of_the_sanitizers);
  tcase_add_test(cases, test_lines_are_read);
  tcase_add_test(cases, test_what_is_none_is_refused_with_its_line);
  suite_add_tcase(suite, cases);
  return gp_check_main(suite);
}
