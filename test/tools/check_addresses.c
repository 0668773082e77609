/*
 * Addresses of a device on paper, against a map of all of them.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "test/pool/check_main.h"
#include "tools/replay/offline_driver.h"

#define FIRST  UINT64_C(1000)
#define PLACES 4000

/* The begin of the smallest run of free places that is large enough, the lowest of equal ones; of the run
 * that reaches the last place, which has no end, only if no other is. */
static uint64_t smallest_run(const char *is_taken, uint64_t size)
{
  uint64_t found = 0, found_size = PLACES;
  for (uint64_t begin = 0, end; begin < PLACES; begin = end + 1) {
    for (end = begin; end < PLACES && !is_taken[end];)
      end++;
    if (end - begin >= size && (end < PLACES ? end - begin : PLACES - 1) < found_size) {
      found = begin;
      found_size = end < PLACES ? end - begin : PLACES - 1;
    }
  }
  return FIRST + found;
}

START_TEST(test_the_smallest_free_range_serves)
{
  struct {
    uint64_t begin, size;
  } taken[100];
  static char is_taken[PLACES];
  gp_addresses_t addresses = {.next = FIRST};
  size_t count = 0;

  srand((unsigned)_i);
  memset(is_taken, 0, sizeof(is_taken));
  for (int step = 0; step < 5000; step++) {
    uint64_t size = 1 + (uint64_t)rand() % 9;
    if (count < 100 && rand() % 2) {
      uint64_t begin = gp_addresses_take(&addresses, size);
      ck_assert_uint_eq(begin, smallest_run(is_taken, size));
      memset(&is_taken[begin - FIRST], 1, size);
      taken[count].begin = begin;
      taken[count++].size = size;
    } else if (count > 0) {
      size_t one = (size_t)rand() % count;
      gp_addresses_give(&addresses, taken[one].begin, taken[one].size);
      memset(&is_taken[taken[one].begin - FIRST], 0, taken[one].size);
      taken[one] = taken[--count];
    }
  }
  while (count-- > 0)
    gp_addresses_give(&addresses, taken[count].begin, taken[count].size);
  ck_assert_uint_eq(addresses.next, FIRST);
  ck_assert_uint_eq(addresses.count, 0);
  gp_addresses_fini(&addresses);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("addresses");
  TCase *cases = tcase_create("addresses");
  tcase_add_loop_test(cases, test_the_smallest_free_range_serves, 0, 20);
  suite_add_tcase(suite, cases);
  return gp_check_main(suite);
}
