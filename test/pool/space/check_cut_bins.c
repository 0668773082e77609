/*
 * Bins of cut memory by themselves, against a plain array of entries.
 */
#include <stdlib.h>

#include "pool/space/bins.h"
#include "test/pool/check_main.h"

#define ENTRIES    400
#define OPERATIONS 200000
#define EPOCHS     2 /* the latest */

static gp_cut_bins_t bins;
static gp_cut_entry_t entries[ENTRIES];
static bool is_in[ENTRIES];
static uint64_t random_state;

static uint64_t random_below(uint64_t bound)
{
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (random_state >> 33) % bound;
}

/* Few sizes and many, small ones and large ones. */
static uint64_t random_size(void)
{
  uint64_t granules = random_below(2) ? 1 + random_below(40) : (1 + random_below(64)) << random_below(36);
  return granules * GP_CUT_GRANULE;
}

static void add(int i, uint64_t address, uint64_t size, uint64_t free_epoch)
{
  entries[i] = (gp_cut_entry_t){.address = address, .size = size, .free_epoch = free_epoch};
  gp_cut_bins_add(&bins, &entries[i]);
  is_in[i] = true;
}

static void take(int i)
{
  gp_cut_bins_remove(&bins, &entries[i]);
  is_in[i] = false;
}

static void expect_good(void)
{
  size_t count, counted = 0;
  uint64_t bytes, added = 0;

  for (int i = 0; i < ENTRIES; i++) {
    counted += is_in[i];
    added += is_in[i] ? entries[i].size : 0;
  }
  ck_assert(gp_cut_bins_check(&bins, &count, &bytes));
  ck_assert_uint_eq(count, counted);
  ck_assert_uint_eq(bytes, added);
}

static void begin(void)
{
  bins = (gp_cut_bins_t){0};
  for (int i = 0; i < ENTRIES; i++)
    is_in[i] = false;
}

START_TEST(test_first_bin_that_fits_lowest_address)
{
  begin();
  ck_assert_ptr_null(gp_cut_bins_find(&bins, 512, UINT64_MAX));
  add(0, 0x90000, 64 * 512, 0);
  add(1, 0x50000, 64 * 512, 0);
  add(2, 0x70000, 64 * 512, 0);
  add(3, 0x10000, 128 * 512, 0);
  ck_assert_ptr_eq(gp_cut_bins_find(&bins, 512, UINT64_MAX), &entries[1]);
  ck_assert_ptr_eq(gp_cut_bins_find(&bins, 64 * 512, UINT64_MAX), &entries[1]);
  take(1);
  ck_assert_ptr_eq(gp_cut_bins_find(&bins, 64 * 512, UINT64_MAX), &entries[2]);
  ck_assert_ptr_eq(gp_cut_bins_find(&bins, 68 * 512, UINT64_MAX), &entries[3]);
  ck_assert_ptr_null(gp_cut_bins_find(&bins, 129 * 512, UINT64_MAX));
  ck_assert_ptr_eq(gp_cut_bins_largest(&bins), &entries[3]);
  expect_good();
}
END_TEST

/* A bin has several sizes: what is too small at its lowest address must not hide what fits. */
START_TEST(test_entry_behind_one_that_is_too_small)
{
  begin();
  add(0, 0x10000, 1024 * 512, 0);
  add(1, 0x900000, 1030 * 512, 0);
  ck_assert_ptr_eq(gp_cut_bins_find(&bins, 1025 * 512, UINT64_MAX), &entries[1]);
  add(2, 0xf00000, 4096 * 512, 0);
  ck_assert_ptr_eq(gp_cut_bins_find(&bins, 1025 * 512, UINT64_MAX), &entries[2]);
  take(2);
  ck_assert_ptr_null(gp_cut_bins_find(&bins, 1031 * 512, UINT64_MAX));
  ck_assert_ptr_eq(gp_cut_bins_largest(&bins), &entries[1]);
}
END_TEST

START_TEST(test_entries_of_later_epochs_are_passed_over)
{
  begin();
  add(0, 0x10000, 512, 9);
  add(1, 0x20000, 512, 7);
  add(2, 0x30000, 512, 7);
  ck_assert_ptr_eq(gp_cut_bins_find(&bins, 512, 9), &entries[0]);
  ck_assert_ptr_eq(gp_cut_bins_find(&bins, 512, 8), &entries[1]);
  ck_assert_ptr_null(gp_cut_bins_find(&bins, 512, 6));
}
END_TEST

/* What is found serves, and if nothing is found nothing does. */
static void expect_find(uint64_t bytes, uint64_t newest)
{
  const gp_cut_entry_t *found = gp_cut_bins_find(&bins, bytes, newest);
  bool any = false;

  for (int i = 0; i < ENTRIES; i++) {
    if (!is_in[i] || entries[i].size < bytes || entries[i].free_epoch > newest)
      continue;
    any = true;
    if (found && entries[i].size == found->size)
      ck_assert_msg(found->address <= entries[i].address || found->free_epoch > newest, "not the lowest");
    /* Of the first bin: one that is above the request's own bin is at most a sixteenth larger than the
     * others. */
    if (found && newest == EPOCHS && entries[i].size > bytes + bytes / 16 + GP_CUT_GRANULE)
      ck_assert_uint_le(found->size, entries[i].size + entries[i].size / 16);
  }
  ck_assert(any == (found != NULL));
  ck_assert(!found || (found->size >= bytes && found->free_epoch <= newest));
}

static void expect_largest(void)
{
  const gp_cut_entry_t *largest = gp_cut_bins_largest(&bins);
  uint64_t size = 0;

  for (int i = 0; i < ENTRIES; i++)
    if (is_in[i] && entries[i].size > size)
      size = entries[i].size;
  ck_assert_uint_eq(largest ? largest->size : 0, size);
}

START_TEST(test_random_operations)
{
  begin();
  random_state = (uint64_t)_i;
  for (int n = 0; n < OPERATIONS; n++) {
    int i = (int)random_below(ENTRIES);
    /* Addresses grow and shrink in runs, so that heaps become long lists and flat ones. */
    uint64_t address = (uint64_t)(n & 1024 ? n : OPERATIONS - n) * 4096 + (uint64_t)i * 8;
    if (is_in[i])
      take(i);
    else
      add(i, address, random_size(), random_below(EPOCHS + 1));
    if (n % 256 == 0) {
      expect_good();
      expect_find(random_size(), random_below(EPOCHS + 1));
      expect_largest();
    }
  }
  for (int i = 0; i < ENTRIES; i++)
    if (is_in[i])
      take(i);
  expect_good();
  ck_assert_uint_eq(bins.ranges, 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("cut_bins");
  TCase *tests = tcase_create("all");
  tcase_add_test(tests, test_first_bin_that_fits_lowest_address);
  tcase_add_test(tests, test_entry_behind_one_that_is_too_small);
  tcase_add_test(tests, test_entries_of_later_epochs_are_passed_over);
  tcase_add_loop_test(tests, test_random_operations, 0, 4);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
