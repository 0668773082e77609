/*
 * What of a large recording goes into a page: which lives, which moments, and the sum of the rest.
 */
#include <check.h>
#include <stdlib.h>

#include "tools/html/choice.h"
#include "test/pool/check_main.h"

#define NEVER GP_LIFETIMES_NEVER
#define ALL   GP_REQUEST_ALL_DEVICES

/*
 * Two devices. In the order in which they are first mentioned: a large life, three small ones of the same
 * size that last differently, one that is not pooled, one that is held at the end, two of the other device.
 */
static gp_life_t lives[] = {
    {.begin = 0, .freed = 14, .done = 16, .requested = 1000, .rounded = 1024},
    {.begin = 1, .freed = 2, .done = 3, .requested = 10, .rounded = 16},
    {.begin = 4, .freed = 11, .done = 11, .requested = 12, .rounded = 16},
    {.begin = 5, .freed = 7, .done = 7, .requested = 11, .rounded = 16},
    {.begin = 6, .freed = 9, .done = 9, .requested = 5, .rounded = 5, .kind = GP_LIFE_FORWARDED},
    {.begin = 8, .freed = NEVER, .done = NEVER, .requested = 1, .rounded = 1, .is_held = true},
    {.begin = 10, .freed = 15, .done = 17, .requested = 14, .rounded = 16, .device = 1},
    {.begin = 12, .freed = 13, .done = 13, .requested = 2, .rounded = 2, .device = 1},
};
static uint32_t of_event[] = {1, 1, 1, 2, 3, 4, 3, 5, 4, 6, 2, 7, 7, 0, 6, 0, 6};
static gp_segment_life_t segments[] = {{.address = 4096, .size = 2048, .begin = 1, .end = 16}};

static gp_lifetimes_t lifetimes = {.lives = lives,
    .life_count = sizeof(lives) / sizeof(lives[0]),
    .segments = segments,
    .segment_count = 1,
    .of_event = of_event,
    .end = sizeof(of_event) / sizeof(of_event[0])};

static void choose(gp_choice_t *choice, int device, uint32_t from, uint32_t to, size_t most)
{
  ck_assert_int_eq(gp_choice_init(choice, &lifetimes, device, from, to, most, NULL, 0, 0), 0);
}

static void expect_lives(const gp_choice_t *choice, size_t count, const size_t *expected)
{
  ck_assert_uint_eq(choice->life_count, count);
  for (size_t i = 0; i < count; i++)
    ck_assert_uint_eq(choice->lives[i], expected[i]);
}

START_TEST(test_where_there_is_room_all_is_there)
{
  gp_choice_t choice;
  choose(&choice, ALL, 0, 17, 8);
  expect_lives(&choice, 8, (const size_t[]){0, 1, 2, 3, 4, 5, 6, 7});
  ck_assert_uint_eq(choice.left_out, 0);
  ck_assert_uint_eq(choice.rest_count, 0);
  ck_assert_uint_eq(choice.end, 17);
  for (uint32_t i = 0; i <= 17; i++) {
    ck_assert_uint_eq(gp_choice_moment(&choice, i), i);
    ck_assert_uint_eq(choice.events[i], i);
  }
  ck_assert_uint_eq(gp_choice_moment(&choice, NEVER), 18);
  gp_choice_fini(&choice);
}
END_TEST

START_TEST(test_the_largest_and_longest_stay)
{
  gp_choice_t choice;
  choose(&choice, ALL, 0, 17, 5); /* of 16 bytes there is room for the two that last longest */
  expect_lives(&choice, 5, (const size_t[]){0, 2, 4, 5, 6});
  ck_assert_uint_eq(choice.left_out, 3);
  ck_assert_uint_eq(choice.left_out_largest, 16);
  gp_choice_fini(&choice);
}
END_TEST

START_TEST(test_what_is_needed_stays_whatever_its_size)
{
  static const uint32_t marked[] = {2, 9};
  gp_choice_t choice;
  choose(&choice, ALL, 0, 17, 0);
  expect_lives(&choice, 2, (const size_t[]){4, 5}); /* not pooled, and held at the end */
  gp_choice_fini(&choice);
  /* Held at moment 1, the first that is needed; 9 is only marked. */
  ck_assert_int_eq(gp_choice_init(&choice, &lifetimes, ALL, 0, 17, 0, (const uint32_t[]){1, 9}, 2, 1), 0);
  expect_lives(&choice, 4, (const size_t[]){0, 1, 4, 5});
  gp_choice_fini(&choice);
  ck_assert_int_eq(gp_choice_init(&choice, &lifetimes, ALL, 0, 17, 0, marked, 2, 0), 0);
  expect_lives(&choice, 2, (const size_t[]){4, 5});
  ck_assert_uint_eq(choice.events[gp_choice_moment(&choice, 2)], 2);
  gp_choice_fini(&choice);
}
END_TEST

/* Each row is the most since the row before it; with so few moments each is one. */
START_TEST(test_the_sum_of_the_rest_is_kept)
{
  gp_choice_t choice;
  choose(&choice, ALL, 0, 17, 5); /* left out: 1 and 3 of device 0, 7 of device 1 */
  uint64_t allocated[2][18] = {{0}}, requested[2][18] = {{0}}, pending[2][18] = {{0}};
  for (size_t i = 0; i < choice.rest_count; i++) {
    const gp_choice_rest_t *row = &choice.rest[i];
    uint32_t moment = choice.events[row->moment];
    allocated[row->device][moment] = row->allocated;
    requested[row->device][moment] = row->requested;
    pending[row->device][moment] = row->pending;
  }
  ck_assert_uint_eq(choice.rest_count, 36);
  for (uint32_t i = 0; i <= 17; i++) {
    uint64_t first = i == 1, second = i == 5 || i == 6;
    ck_assert_uint_eq(allocated[0][i], 16 * first + 16 * second);
    ck_assert_uint_eq(requested[0][i], 10 * first + 11 * second);
    ck_assert_uint_eq(pending[0][i], i == 2 ? 16 : 0);
    ck_assert_uint_eq(allocated[1][i], i == 12 ? 2 : 0);
  }
  gp_choice_fini(&choice);
}
END_TEST

START_TEST(test_what_began_before_the_range_is_in_its_first_moment)
{
  gp_choice_t choice;
  choose(&choice, ALL, 5, 17, 0); /* kept: not pooled, and held at the end */
  ck_assert_uint_eq(choice.rest[0].device, 0);
  ck_assert_uint_eq(choice.events[choice.rest[0].moment], 5);
  ck_assert_uint_eq(choice.rest[0].requested, 1000 + 12 + 11);
  ck_assert_uint_eq(choice.rest[0].allocated, 1024 + 16 + 16);
  gp_choice_fini(&choice);
}
END_TEST

START_TEST(test_a_device_alone)
{
  gp_choice_t choice;
  choose(&choice, 1, 0, 17, 1);
  expect_lives(&choice, 1, (const size_t[]){6});
  ck_assert_uint_eq(choice.left_out, 1);
  for (size_t i = 0; i < choice.rest_count; i++)
    ck_assert(choice.rest[i].device == 1 || choice.rest[i].allocated == 0);
  gp_choice_fini(&choice);
}
END_TEST

START_TEST(test_a_range_begins_at_nought)
{
  gp_choice_t choice;
  choose(&choice, ALL, 8, 13, 8);
  expect_lives(&choice, 6, (const size_t[]){0, 2, 4, 5, 6, 7}); /* 3 was done with at 7 */
  ck_assert_uint_eq(choice.end, 5);
  ck_assert_uint_eq(gp_choice_moment(&choice, 0), 0);
  ck_assert_uint_eq(gp_choice_moment(&choice, 10), 2);
  ck_assert_uint_eq(gp_choice_moment(&choice, 13), 5);
  ck_assert_uint_eq(gp_choice_moment(&choice, 14), 6);
  ck_assert_uint_eq(choice.events[0], 8);
  gp_choice_fini(&choice);
}
END_TEST

/* Lives are listed as they are first spoken of: one that is freed, or found at the end, may have begun before
 * others. */
START_TEST(test_lives_are_sorted_by_their_begin)
{
  static gp_life_t mixed[] = {
      {.begin = 5, .freed = 6, .done = 6, .rounded = 8},
      {.begin = 2, .freed = 9, .done = 9, .rounded = 8},
      {.begin = 0, .freed = 7, .done = 7, .rounded = 8},
      {.begin = 2, .freed = 4, .done = 4, .rounded = 8},
  };
  const gp_lifetimes_t others = {.lives = mixed, .life_count = 4, .end = 12};
  gp_choice_t choice;
  ck_assert_int_eq(gp_choice_init(&choice, &others, ALL, 0, 12, 4, NULL, 0, 0), 0);
  expect_lives(&choice, 4, (const size_t[]){2, 1, 3, 0});
  gp_choice_fini(&choice);
}
END_TEST

static Suite *suite(void)
{
  Suite *made = suite_create("choice");
  TCase *tests = tcase_create("choice");
  tcase_add_test(tests, test_where_there_is_room_all_is_there);
  tcase_add_test(tests, test_the_largest_and_longest_stay);
  tcase_add_test(tests, test_what_is_needed_stays_whatever_its_size);
  tcase_add_test(tests, test_the_sum_of_the_rest_is_kept);
  tcase_add_test(tests, test_what_began_before_the_range_is_in_its_first_moment);
  tcase_add_test(tests, test_a_device_alone);
  tcase_add_test(tests, test_a_range_begins_at_nought);
  tcase_add_test(tests, test_lives_are_sorted_by_their_begin);
  suite_add_tcase(made, tests);
  return made;
}

int main(void)
{
  return gp_check_main(suite());
}
