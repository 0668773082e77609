/*
 * Columns of integers: what was put in comes out, whatever the values need.
 */
#include <check.h>
#include <stdlib.h>

#include "tools/read/snapshot.h"
#include "test/pool/check_main.h"

#define COUNT (3 * GP_COLUMN_PAGE + 17)

static int64_t values[COUNT];

static gp_column_t *column_of(size_t count, size_t part)
{
  gp_column_t *column = gp_column_create();
  ck_assert_ptr_nonnull(column);
  for (size_t i = 0; i < count; i += part)
    ck_assert(gp_column_append(column, values + i, part < count - i ? part : count - i));
  ck_assert(gp_column_finish(column));
  ck_assert_uint_eq(column->count, count);
  return column;
}

static void check_all(size_t count, size_t part)
{
  gp_column_t *column = column_of(count, part);
  for (size_t i = 0; i < count; i++)
    ck_assert_msg(gp_column_get(column, i) == values[i], "value %zu of %zu is %lld and not %lld", i, count,
        (long long)gp_column_get(column, i), (long long)values[i]);
  gp_column_destroy(column);
}

static uint64_t random_bits(uint64_t *state)
{
  *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return *state ^ *state >> 31;
}

/* Every width, at every place in a byte, with and without a common factor and a negative least value. */
START_TEST(test_values_of_every_width)
{
  uint64_t state = 1;
  for (int width = 0; width <= 64; width++) {
    for (int shift = 0; shift < 64; shift += 9) {
      for (size_t i = 0; i < COUNT; i++) {
        uint64_t random = random_bits(&state);
        uint64_t bits = width == 0 ? 0 : width == 64 ? random : random & ((UINT64_C(1) << width) - 1);
        values[i] = (int64_t)((bits << shift) - (width < 50 ? 1000 : 0));
      }
      check_all(COUNT, COUNT);
    }
  }
}
END_TEST

START_TEST(test_extremes_in_one_page)
{
  values[0] = INT64_MIN;
  values[1] = INT64_MAX;
  values[2] = 0;
  values[3] = -1;
  check_all(4, 4);
}
END_TEST

START_TEST(test_counts_around_the_page)
{
  for (size_t i = 0; i < COUNT; i++)
    values[i] = (int64_t)(i * i % 977) - 5;
  check_all(0, 1);
  check_all(1, 1);
  for (size_t count = GP_COLUMN_PAGE - 1; count <= GP_COLUMN_PAGE + 1; count++) {
    check_all(count, 1);
    check_all(count, 100);
    check_all(count, count);
  }
  check_all(COUNT, 1000);
}
END_TEST

START_TEST(test_what_is_out_of_range_is_found)
{
  for (size_t i = 0; i < COUNT; i++)
    values[i] = (int64_t)i % 7; /* 3 bits, which reach to 7 */
  values[GP_COLUMN_PAGE + 3] = 9;
  values[2 * GP_COLUMN_PAGE] = -1;
  gp_column_t *column = column_of(COUNT, COUNT);
  size_t wrong = 0;
  ck_assert(gp_column_is_within(column, COUNT, -1, 9, &wrong));
  ck_assert(!gp_column_is_within(column, COUNT, -1, 8, &wrong));
  ck_assert_uint_eq(wrong, GP_COLUMN_PAGE + 3);
  ck_assert(gp_column_is_within(column, GP_COLUMN_PAGE + 3, 0, 6, &wrong));
  ck_assert(!gp_column_is_within(column, COUNT, 0, 9, &wrong));
  ck_assert_uint_eq(wrong, 2 * GP_COLUMN_PAGE);
  ck_assert(!gp_column_is_within(column, COUNT, 1, INT64_MAX, &wrong));
  ck_assert_uint_eq(wrong, 0);
  gp_column_destroy(column);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("column");
  TCase *tcase = tcase_create("column");
  tcase_add_test(tcase, test_values_of_every_width);
  tcase_add_test(tcase, test_extremes_in_one_page);
  tcase_add_test(tcase, test_counts_around_the_page);
  tcase_add_test(tcase, test_what_is_out_of_range_is_found);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
