/*
 * Pictures in braille: every dot in its place.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "test/pool/check_main.h"
#include "tools/report/canvas.h"

static char *row_text(const gp_canvas_t *canvas, size_t row, bool utf8)
{
  char *text;
  size_t length;
  FILE *stream = open_memstream(&text, &length);
  ck_assert_ptr_nonnull(stream);
  gp_canvas_print_row(canvas, row, utf8, stream);
  ck_assert_int_eq(fclose(stream), 0);
  return text;
}

static void expect_row(const gp_canvas_t *canvas, size_t row, bool utf8, const char *expected)
{
  char *text = row_text(canvas, row, utf8);
  ck_assert_str_eq(text, expected);
  free(text);
}

START_TEST(test_each_dot_is_a_bit_of_its_character)
{
  /* From the bottom left upwards, then the right column: as Unicode numbers braille dots. */
  static const char *const characters[2][4] = {
      {"\u2840", "\u2804", "\u2802", "\u2801"}, {"\u2880", "\u2820", "\u2810", "\u2808"}};
  for (size_t x = 0; x < 2; x++) {
    for (size_t y = 0; y < 4; y++) {
      gp_canvas_t canvas;
      ck_assert(gp_canvas_init(&canvas, 1, 1));
      gp_canvas_set(&canvas, x, y);
      expect_row(&canvas, 0, true, characters[x][y]);
      gp_canvas_fini(&canvas);
    }
  }
}
END_TEST

START_TEST(test_rows_are_counted_from_the_top)
{
  gp_canvas_t canvas;
  ck_assert(gp_canvas_init(&canvas, 3, 2));
  for (size_t y = 0; y < 4; y++) {
    gp_canvas_set(&canvas, 2, y);
    gp_canvas_set(&canvas, 3, y);
  }
  gp_canvas_set(&canvas, 0, 7);
  expect_row(&canvas, 0, true, "\u2801");
  expect_row(&canvas, 1, true, " \u28ff");
  gp_canvas_fini(&canvas);
}
END_TEST

START_TEST(test_ascii_tells_how_full_a_character_is)
{
  gp_canvas_t canvas;
  ck_assert(gp_canvas_init(&canvas, 3, 1));
  gp_canvas_set(&canvas, 0, 0);
  for (size_t i = 0; i < 8; i++)
    gp_canvas_set(&canvas, 4 + i % 2, i / 2);
  expect_row(&canvas, 0, false, ". #");
  gp_canvas_fini(&canvas);
}
END_TEST

START_TEST(test_dots_outside_are_left_out)
{
  gp_canvas_t canvas;
  ck_assert(gp_canvas_init(&canvas, 2, 2));
  gp_canvas_set(&canvas, 4, 0);
  gp_canvas_set(&canvas, 0, 8);
  gp_canvas_set(&canvas, SIZE_MAX, SIZE_MAX);
  expect_row(&canvas, 0, true, "");
  expect_row(&canvas, 1, true, "");
  gp_canvas_fini(&canvas);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("canvas");
  TCase *cases = tcase_create("canvas");
  tcase_add_test(cases, test_each_dot_is_a_bit_of_its_character);
  tcase_add_test(cases, test_rows_are_counted_from_the_top);
  tcase_add_test(cases, test_ascii_tells_how_full_a_character_is);
  tcase_add_test(cases, test_dots_outside_are_left_out);
  suite_add_tcase(suite, cases);
  return gp_check_main(suite);
}
