/*
 * Arrays that grow, and the index of their items: what is put is found, what is taken is not, whatever
 * collides.
 */
#include <check.h>
#include <stdlib.h>

#include "test/pool/check_main.h"
#include "tools/array.h"
#include "tools/read/block_map.h"

#define KEYS 5000

START_TEST(test_arrays_keep_their_items)
{
  uint64_t *items = NULL;
  size_t count = 0;
  for (uint64_t i = 0; i < 1000; i++) {
    uint64_t *item = GP_ARRAY_ADD(items, count);
    ck_assert_ptr_nonnull(item);
    ck_assert_uint_eq(*item, 0);
    *item = i;
  }
  for (count = 20; count < 40;) /* items lost at the end */
    *(uint64_t *)GP_ARRAY_ADD(items, count) = count;
  for (uint64_t i = 0; i < 20; i++)
    ck_assert_uint_eq(items[i], i);
  free(items);
}
END_TEST

START_TEST(test_arrays_of_impossible_size_stay_as_they_are)
{
  uint64_t *items = NULL;
  ck_assert(gp_array_resize(&items, 4, sizeof(*items)));
  uint64_t *before = items;
  ck_assert(!gp_array_resize(&items, SIZE_MAX / 4, sizeof(*items)));
  ck_assert(!gp_array_grow(&items, SIZE_MAX / 2 + 1, 1));
  ck_assert_ptr_eq(items, before);
  free(items);
}
END_TEST

/* Keys of which many have the same home: by counter, by page, by bits at the top. */
START_TEST(test_what_is_taken_is_gone_and_the_rest_is_found)
{
  static const uint64_t steps[] = {1, 2 << 20, UINT64_C(1) << 44};
  for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
    gp_block_map_t map = {.count = 0};
    for (uint64_t i = 1; i <= KEYS; i++)
      ck_assert(gp_block_map_put(&map, &(gp_block_entry_t){.key = i * steps[s], .size = i}));
    for (uint64_t i = 1; i <= KEYS; i += 3) {
      gp_block_entry_t taken;
      ck_assert(gp_block_map_take(&map, i * steps[s], &taken));
      ck_assert_uint_eq(taken.size, i);
      ck_assert(!gp_block_map_take(&map, i * steps[s], NULL));
    }
    for (uint64_t i = 1; i <= KEYS; i++) {
      const gp_block_entry_t *found = gp_block_map_find(&map, i * steps[s]);
      ck_assert_msg((found != NULL) == (i % 3 != 1), "%llu", (unsigned long long)i);
      ck_assert(!found || found->size == i);
    }
    ck_assert_uint_eq(map.count, KEYS - (KEYS + 2) / 3);
    gp_block_map_fini(&map);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("hash_index");
  TCase *cases = tcase_create("hash_index");
  tcase_add_test(cases, test_arrays_keep_their_items);
  tcase_add_test(cases, test_arrays_of_impossible_size_stay_as_they_are);
  tcase_add_test(cases, test_what_is_taken_is_gone_and_the_rest_is_found);
  suite_add_tcase(suite, cases);
  return gp_check_main(suite);
}
