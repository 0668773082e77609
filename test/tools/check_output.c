/*
 * How numbers, lines, tables and suggestions look.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "test/pool/check_main.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/tool.h"

START_TEST(test_counts_have_separators)
{
  char text[GP_NUMBER_BYTES];
  ck_assert_str_eq(gp_number_count(0, text), "0");
  ck_assert_str_eq(gp_number_count(999, text), "999");
  ck_assert_str_eq(gp_number_count(8255, text), "8,255");
  ck_assert_str_eq(gp_number_count(1000000, text), "1,000,000");
  ck_assert_str_eq(gp_number_count(UINT64_MAX, text), "18,446,744,073,709,551,615");
  ck_assert_str_eq(gp_number_plural(1, "block", text), "1 block");
  ck_assert_str_eq(gp_number_plural(2000, "block", text), "2,000 blocks");
}
END_TEST

START_TEST(test_durations_have_units)
{
  char text[GP_NUMBER_BYTES];
  ck_assert_str_eq(gp_number_duration(0, text), "0 ns");
  ck_assert_str_eq(gp_number_duration(1500, text), "1.50 us");
  ck_assert_str_eq(gp_number_duration(12345678, text), "12.3 ms");
  ck_assert_str_eq(gp_number_duration(UINT64_C(119000000000), text), "119 s");
  ck_assert_str_eq(gp_number_duration(UINT64_C(184000000000), text), "3 min 4 s");
  ck_assert_str_eq(gp_number_duration(UINT64_C(7380000000000), text), "2 h 3 min");
}
END_TEST

START_TEST(test_percents_do_not_lie)
{
  char text[GP_NUMBER_BYTES];
  ck_assert_str_eq(gp_number_percent(0, text), "0%");
  ck_assert_str_eq(gp_number_percent(1, text), "100%");
  ck_assert_str_eq(gp_number_percent(0.992126, text), "99.2%");
  ck_assert_str_eq(gp_number_percent(0.99999, text), "99.9%");
  ck_assert_str_eq(gp_number_percent(0.0001, text), "<0.1%");
}
END_TEST

/* Whatever a report or a frame of `live` was made of; its styles stay. */
START_TEST(test_what_steers_a_terminal_is_replaced)
{
  gp_output_t output;
  ck_assert_int_eq(gp_output_open(&output, NULL, false, true), 0);
  output.colour = true;
  const char *style = gp_output_style(&output, GP_STYLE_ERROR),
             *plain = gp_output_style(&output, GP_STYLE_PLAIN);
  fprintf(output.stream, "%sred%s \033[2J \xe2\x80\xae \xc2\x9b \x9b cut \xe2\x96\n", style, plain);
  ck_assert(gp_output_settle(&output));
  char expected[128];
  snprintf(expected, sizeof(expected), "%sred%s ?[2J ? ? ? cut ??\n", style, plain);
  ck_assert_uint_eq(output.length, strlen(expected));
  ck_assert_mem_eq(output.text, expected, output.length);
  gp_output_discard(&output);
}
END_TEST

START_TEST(test_lines_are_broken_between_words)
{
  char *text;
  size_t length;
  FILE *stream = open_memstream(&text, &length);
  char word[50];
  memset(word, 'x', sizeof(word) - 1);
  word[sizeof(word) - 1] = '\0';
  char both[128];
  snprintf(both, sizeof(both), "%s %s end", word, word);
  gp_output_wrap(stream, "- ", "  ", both);
  fclose(stream);
  char expected[200];
  snprintf(expected, sizeof(expected), "- %s\n  %s end\n", word, word);
  ck_assert_str_eq(text, expected);
  free(text);
}
END_TEST

START_TEST(test_a_terminal_is_not_steered)
{
  char text[32];
  ck_assert_str_eq(gp_printable("a\033[31m\n\xc2\x9b"
                                "b\x7f\xc3\xa9",
                       text, sizeof(text)),
      "a?[31m??b?\xc3\xa9");
  ck_assert_str_eq(gp_printable("abc\xc3\xa9", text, 5), "abc");
  ck_assert_str_eq(gp_printable("abc\xc3\xa9", text, 6), "abc\xc3\xa9");
  ck_assert_str_eq(gp_printable("abc", text, 1), "");
}
END_TEST

/* Prints the table on lines of 30 columns. The caller frees the text. */
static char *table_text(gp_table_t *table, void (*fill)(gp_table_t *))
{
  static gp_output_t output;
  ck_assert_int_eq(gp_output_open(&output, NULL, false, true), 0);
  output.columns = 30;
  table->output = &output;
  fill(table);
  gp_table_print(table);
  ck_assert(gp_output_settle(&output));
  char *text = strndup(output.text, output.length);
  gp_output_discard(&output);
  return text;
}

static void fill_numbers(gp_table_t *table)
{
  gp_table_row(table, "", "", "count", "bytes", NULL);
  gp_table_row(table, "hits", "", "1,234,567", "8 B", NULL);
  gp_table_row(table, "a\n", "", "1", NULL);
}

START_TEST(test_columns_are_as_wide_as_their_cells)
{
  gp_table_t table = {.indent = "  ", .format = "lrrr"};
  char *text = table_text(&table, fill_numbers);
  ck_assert_str_eq(text, "            count  bytes\n"
                         "  hits  1,234,567    8 B\n"
                         "  a?            1\n");
  free(text);
}
END_TEST

static void fill_names(gp_table_t *table)
{
  gp_table_row(table, "1", "a::very::long::name::of::a::function", NULL);
  gp_table_row(table, "20", "b", NULL);
}

START_TEST(test_names_take_what_is_left_of_the_line)
{
  gp_table_t narrow = {.indent = "", .format = "rn"}, wide = {.indent = "", .format = "rw"};
  char *text = table_text(&narrow, fill_names);
  ck_assert_uint_eq(strcspn(text, "\n"), 30);
  ck_assert(strstr(text, "...") && strstr(text, "\n20  b\n"));
  free(text);
  text = table_text(&wide, fill_names);
  ck_assert_str_eq(text, " 1  a::very::long::name::of::a::function\n20  b\n");
  free(text);
}
END_TEST

START_TEST(test_the_nearest_name_is_suggested)
{
  static const char *const names[] = {"limit", "max-cached", "type", "trace", "trace-events"};
  ck_assert_str_eq(gp_suggest_nearest("limt", names, 5), "limit");
  ck_assert_str_eq(gp_suggest_nearest("tpye", names, 5), "type");
  ck_assert_str_eq(gp_suggest_nearest("MAX_CACHE", names, 5), "max-cached");
  ck_assert_str_eq(gp_suggest_nearest("max", names, 5), "max-cached");
  ck_assert_str_eq(gp_suggest_nearest("trace-event", names, 5), "trace-events");
  ck_assert_ptr_null(gp_suggest_nearest("zebra", names, 5));
  ck_assert_ptr_null(gp_suggest_nearest("", names, 5));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("output");
  TCase *looks = tcase_create("looks");
  tcase_add_test(looks, test_counts_have_separators);
  tcase_add_test(looks, test_durations_have_units);
  tcase_add_test(looks, test_percents_do_not_lie);
  tcase_add_test(looks, test_what_steers_a_terminal_is_replaced);
  tcase_add_test(looks, test_lines_are_broken_between_words);
  tcase_add_test(looks, test_a_terminal_is_not_steered);
  tcase_add_test(looks, test_columns_are_as_wide_as_their_cells);
  tcase_add_test(looks, test_names_take_what_is_left_of_the_line);
  tcase_add_test(looks, test_the_nearest_name_is_suggested);
  suite_add_tcase(suite, looks);
  return gp_check_main(suite);
}
