/*
 * Sizes, paths, block sizes of the pool types, and the two tables of the engine.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool/space/address_map.h"
#include "pool/space/bins.h"
#include "pool/space/size_classes.h"
#include "base/lock.h"
#include "base/path.h"
#include "base/run_id.h"
#include "base/size.h"
#include "test/pool/check_main.h"
#include "test/pool/run_together.h"

START_TEST(test_sizes_are_read)
{
  static const struct {
    const char *text;
    uint64_t bytes;
  } good[] = {{"0", 0}, {"1000", 1000}, {"8G", 8 * GP_GIB}, {"8g", 8 * GP_GIB}, {"8GB", 8 * GP_GIB},
      {"8GiB", 8 * GP_GIB}, {"8 GiB", 8 * GP_GIB}, {" 8gib ", 8 * GP_GIB}, {"1.5k", 1536},
      {"0.5MiB", 512 * 1024}, {"2T", 2048 * GP_GIB}, {"7B", 7}, {"18446744073709551615", UINT64_MAX}};
  static const char *const bad[] = {"", " ", "G", "8X", "8Gi", "8GiBs", "-1", "+1", "1e3", "0x10", "1.5",
      "1.", ".5G", "18446744073709551616", "99999999999G", "8 G i B", "1 2"};
  for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
    uint64_t bytes = 1;
    ck_assert_msg(gp_size_parse(good[i].text, strlen(good[i].text), &bytes), "\"%s\"", good[i].text);
    ck_assert_uint_eq(bytes, good[i].bytes);
  }
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    uint64_t bytes = 77;
    ck_assert_msg(!gp_size_parse(bad[i], strlen(bad[i]), &bytes), "\"%s\" was taken", bad[i]);
    ck_assert_uint_eq(bytes, 77);
  }
}
END_TEST

START_TEST(test_sizes_are_written)
{
  static const struct {
    uint64_t bytes;
    const char *text;
  } sizes[] = {{0, "0 B"}, {1023, "1023 B"}, {1024, "1 KiB"}, {1536, "1.5 KiB"}, {2 * GP_MIB, "2 MiB"},
      {GP_GIB - 1, "1024.0 MiB"}, {GP_GIB + GP_GIB / 2, "1.5 GiB"}, {UINT64_MAX, "16.0 EiB"}};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    char text[GP_SIZE_TEXT_BYTES];
    ck_assert_str_eq(gp_size_format(sizes[i].bytes, text), sizes[i].text);
  }
}
END_TEST

START_TEST(test_paths_are_expanded)
{
  char path[GP_PATH_BYTES];
  char expected[64];
  setenv("RANK", "3/4", 1);
  snprintf(expected, sizeof(expected), "a.%d.7.oom.3_4.%%.json", (int)getpid());
  ck_assert_int_eq(gp_path_expand("a.%p.%n.%r.%k.%%.json", 7, "oom", path, sizeof(path)), 0);
  ck_assert_str_eq(path, expected);
  unsetenv("RANK");
  ck_assert_int_eq(gp_path_expand("/dir/%e-%h-%t%r", 0, NULL, path, sizeof(path)), 0);
  ck_assert_int_eq(gp_path_expand("%x", 0, NULL, path, sizeof(path)), -1);
  ck_assert_str_eq(path, "");
  ck_assert_int_eq(gp_path_expand("trailing%", 0, NULL, path, sizeof(path)), -1);
  ck_assert_int_eq(gp_path_expand("12345678", 0, NULL, path, 8), -1);
  ck_assert_int_eq(gp_path_expand("1234567", 0, NULL, path, 8), 0);
  ck_assert_ptr_null(gp_path_check("%e%p%h%k%t%n%r%%"));
  ck_assert_str_eq(gp_path_check("a%pb%c"), "%c");
}
END_TEST

START_TEST(test_ids_of_runs)
{
  static const char *const bad[] = {"", "-", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF",
      "0123456789abcdef-", "-0123456789abcdef", "0123456789abcdef--0123456789abcdef",
      "0123456789abcdef 0123456789abcdef", "0123456789abcdef\n", "0123456789abcde\xff"};
  char id[GP_RUN_DIGITS + 1], first[GP_RUN_DIGITS + 1], runs[GP_RUN_BYTES] = "", longer[GP_RUN_BYTES + 17];

  ck_assert(!gp_run_id_is_valid(NULL));
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    ck_assert_msg(!gp_run_id_is_valid(bad[i]), "%s", bad[i]);
  for (unsigned i = 0; i < 16; i++) {
    char outer[GP_RUN_BYTES];
    strcpy(outer, runs);
    gp_run_id_append(outer, UINT64_MAX - i, id, runs);
    ck_assert(gp_run_id_is_valid(id) && gp_run_id_is_valid(runs));
    ck_assert_uint_eq(strlen(runs), (i + 1) * 17 - 1);
    if (i == 0)
      strcpy(first, id);
    ck_assert(gp_run_id_holds(runs, id) && gp_run_id_holds(runs, first));
  }
  snprintf(longer, sizeof(longer), "%s-%s", runs, id);
  ck_assert(!gp_run_id_is_valid(longer)); /* 17 */
  char outer[GP_RUN_BYTES];
  strcpy(outer, runs);
  gp_run_id_append(outer, 1, id, runs);
  ck_assert_str_eq(id, "0000000000000001");
  ck_assert_str_eq(runs, id);
  ck_assert(!gp_run_id_holds(runs, first));
}
END_TEST

static gp_type_config_t config_of(unsigned divisions, unsigned cutoff)
{
  return (gp_type_config_t){
      .page = 4096, .large_round = 2 * GP_MIB, .divisions = divisions, .cutoff = cutoff};
}

START_TEST(test_round_sizes)
{
  gp_type_config_t config = config_of(8, 64);
  const gp_pool_type_t *type = &gp_pool_type_round;
  ck_assert_uint_eq(type->block_bytes(&config, 1), 512);
  ck_assert_uint_eq(type->block_bytes(&config, 512), 512);
  ck_assert_uint_eq(type->block_bytes(&config, 513), 1024);
  ck_assert_uint_eq(type->block_bytes(&config, 4097), 4608);
  ck_assert_uint_eq(type->block_bytes(&config, 8192), 8192);
  ck_assert_uint_eq(type->block_bytes(&config, 8193), 9216);
  ck_assert_uint_eq(type->block_bytes(&config, GP_GIB + 1), GP_GIB + 128 * GP_MIB);
  ck_assert_uint_eq(type->block_bytes(&config, UINT64_MAX), 0);
  for (uint64_t bytes = 1; bytes < 40 * GP_MIB; bytes += bytes / 7 + 1) {
    uint64_t size = type->block_bytes(&config, bytes);
    ck_assert_uint_ge(size, bytes);
    ck_assert_uint_eq(size % 512, 0);
    ck_assert_uint_eq(type->block_bytes(&config, size), size); /* a class is its own class */
    if (bytes > GP_MIB)                                        /* whole pages of the driver */
      ck_assert_uint_eq(size % (2 * GP_MIB), 0);
    if (bytes > 8192)
      ck_assert_uint_le(
          size - bytes, bytes / 8 > 2 * GP_MIB - 1 || bytes <= GP_MIB ? bytes / 8 : 2 * GP_MIB - 1);
  }
}
END_TEST

START_TEST(test_fits_of_round)
{
  gp_type_config_t config = config_of(8, 64);
  const gp_pool_type_t *type = &gp_pool_type_round;
  gp_fit_t fit;
  for (uint64_t bytes = 1; bytes < UINT64_MAX / 2; bytes += bytes / 7 + 1) {
    ck_assert(gp_type_fit(type, &config, bytes, &fit));
    ck_assert_uint_eq(fit.least, bytes);
    ck_assert_uint_eq(fit.class_bytes, type->block_bytes(&config, bytes));
    ck_assert_uint_le(fit.fresh, fit.class_bytes);
    ck_assert_uint_eq(type->block_bytes(&config, fit.fresh), fit.class_bytes);
    if (fit.class_bytes <= 32 * GP_MIB) {
      ck_assert_uint_eq(fit.fresh, fit.class_bytes);
      ck_assert_uint_eq(fit.above, 0);
    } else {
      ck_assert_uint_lt(fit.fresh - bytes, 2 * GP_MIB);
      ck_assert_uint_eq(fit.most, bytes + bytes / 8);
      ck_assert_uint_eq(type->block_bytes(&config, fit.class_bytes + 1), fit.above);
      ck_assert_uint_eq(type->block_bytes(&config, fit.below), fit.below);
      ck_assert_uint_eq(type->block_bytes(&config, fit.below + 1), fit.class_bytes);
    }
  }
  ck_assert(!gp_type_fit(type, &config, UINT64_MAX, &fit));
  ck_assert(gp_type_fit(&gp_pool_type_unpooled, &config, UINT64_MAX, &fit));
  ck_assert_uint_eq(fit.fresh, UINT64_MAX);
}
END_TEST

/* tests/cpp/storage/storage_test.cc of MXNet: pairs of sizes that must share a block, with cutoff 20. */
START_TEST(test_mxnet_round_sizes)
{
  gp_type_config_t config = config_of(1, 20);
  const gp_pool_type_t *type = &gp_pool_type_round;
  ck_assert_uint_eq(type->block_bytes(&config, 32), type->block_bytes(&config, 4095));
  ck_assert_uint_eq(type->block_bytes(&config, 2097153), type->block_bytes(&config, 3145728));
  ck_assert_uint_eq(type->block_bytes(&config, 5000), 8192);
  ck_assert_uint_eq(type->block_bytes(&config, GP_MIB + 1), 2 * GP_MIB);
  ck_assert_uint_eq(
      type->block_bytes(&config, 100 * GP_GIB + 1), 100 * GP_GIB + GP_MIB); /* beyond MXNet's table */
}
END_TEST

/*
 * MXNet's arithmetic as its source has it (src/storage/pooled_storage_manager.h), without its table of 2^34
 * bytes: the bytes of the bucket that a request comes from.
 */
static uint64_t mxnet_round(uint64_t bytes, unsigned cutoff, uint64_t page)
{
  unsigned log2 = bytes < 2 ? 0 : 64 - (unsigned)__builtin_clzll(bytes - 1);
  uint64_t linear = UINT64_C(1) << cutoff;
  if (log2 > cutoff)
    return (bytes + linear - 1) / linear * linear;
  return UINT64_C(1) << log2 < page ? page : UINT64_C(1) << log2;
}

static uint64_t mxnet_naive(uint64_t bytes, uint64_t page, uint64_t large)
{
  uint64_t rounded = (bytes + page - 1) / page * page;
  return rounded > large ? (rounded + large - 1) / large * large : rounded;
}

START_TEST(test_mxnet_buckets)
{
  static const uint64_t pages[] = {512, 4096, 65536};
  for (unsigned cutoff = 20; cutoff <= 34; cutoff++) {
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
      gp_type_config_t config = config_of(1, cutoff);
      config.page = pages[i];
      for (uint64_t bytes = 1; bytes < 64 * GP_GIB; bytes += bytes / 50 + 1) {
        /* The driver takes whole pages for more than 1 MiB: a class in between would be no smaller. */
        uint64_t expected = mxnet_round(bytes, cutoff, pages[i]);
        if (expected > GP_MIB)
          expected = (expected + 2 * GP_MIB - 1) / (2 * GP_MIB) * (2 * GP_MIB);
        if (bytes > GP_MIB && cutoff < 21)
          continue; /* linear classes of a mebibyte: of what the driver takes two are the same */
        ck_assert_uint_eq(gp_pool_type_round.block_bytes(&config, bytes), expected);
      }
    }
  }
  gp_type_config_t config = config_of(8, 64);
  for (uint64_t bytes = 1; bytes < 64 * GP_GIB; bytes += bytes / 50 + 1) {
    uint64_t expected = mxnet_naive(bytes, config.page, config.large_round);
    if (expected > GP_MIB)
      expected = mxnet_naive(expected, 2 * GP_MIB, config.large_round);
    ck_assert_uint_eq(gp_pool_type_naive.block_bytes(&config, bytes), expected);
  }
}
END_TEST

START_TEST(test_naive_sizes)
{
  gp_type_config_t config = config_of(8, 64);
  const gp_pool_type_t *type = &gp_pool_type_naive;
  ck_assert_uint_eq(type->block_bytes(&config, 1), 4096);
  ck_assert_uint_eq(type->block_bytes(&config, 4097), 8192);
  ck_assert_uint_eq(type->block_bytes(&config, GP_MIB), GP_MIB);
  ck_assert_uint_eq(type->block_bytes(&config, GP_MIB + 1), 2 * GP_MIB);
  ck_assert_uint_eq(type->block_bytes(&config, 2 * GP_MIB), 2 * GP_MIB);
  ck_assert_uint_eq(type->block_bytes(&config, 2 * GP_MIB + 1), 4 * GP_MIB);
  ck_assert_uint_eq(type->block_bytes(&config, UINT64_MAX - 1), 0);
}
END_TEST

START_TEST(test_map_against_a_table)
{
  enum { KEYS = 3000, STEPS = 200000 };
  static char values[KEYS];
  static bool present[KEYS];
  gp_address_map_t map;
  uint32_t state = 5;
  gp_address_map_init(&map);
  for (int i = 0; i < STEPS; i++) {
    state = state * 1664525u + 1013904223u;
    int k = (int)((state >> 8) % KEYS);
    uint64_t address = UINT64_C(0x700000000000) + (uint64_t)k * 512;
    void *expected = present[k] ? &values[k] : NULL;
    if (gp_address_map_find(&map, address) != expected)
      ck_abort_msg("step %d: wrong record", i);
    if ((state >> 4) & 1) {
      present[k] = true;
      if (!gp_address_map_insert(&map, address, &values[k]))
        ck_abort_msg("insert");
    } else {
      if (gp_address_map_remove(&map, address) != expected)
        ck_abort_msg("step %d: removed the wrong record", i);
      present[k] = false;
    }
  }
  /* Coming and going must not make the table grow: only what is live counts. */
  ck_assert_uint_le(atomic_load(&map.table)->capacity, 16384);
  ck_assert_ptr_null(gp_address_map_find(&map, 0));
  ck_assert_ptr_null(gp_address_map_find(&map, 1));
  gp_address_map_fini(&map);
}
END_TEST

/* Entries that are to come find room whatever came meanwhile, without another table. */
START_TEST(test_map_keeps_promises)
{
  enum { PROMISES = 50, OTHERS = 500 };
  static char values[PROMISES + OTHERS];
  gp_address_map_t map;
  gp_address_map_init(&map);
  for (int i = 0; i < PROMISES; i++)
    ck_assert(gp_address_map_promise(&map));
  gp_address_map_unpromise(&map);
  for (uint64_t i = 0; i < OTHERS; i++)
    ck_assert(gp_address_map_insert(&map, 0x100000 + i * 512, &values[PROMISES + i]));
  const gp_address_table_t *table = atomic_load(&map.table);
  for (uint64_t i = 1; i < PROMISES; i++)
    gp_address_map_insert_promised(&map, 0x1000 + i * 512, &values[i]);
  ck_assert_ptr_eq(atomic_load(&map.table), table);
  ck_assert_uint_eq(map.promised, 0);
  for (uint64_t i = 1; i < PROMISES; i++)
    ck_assert_ptr_eq(gp_address_map_find(&map, 0x1000 + i * 512), &values[i]);
  gp_address_map_fini(&map);
}
END_TEST

static size_t resident_pages(void *bytes, size_t size)
{
  enum { MOST_PAGES = 1024 };
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t first = ((uintptr_t)bytes + page - 1) & ~(page - 1),
            end = ((uintptr_t)bytes + size) & ~(page - 1);
  unsigned char is_resident[MOST_PAGES];
  size_t count = 0;
  if (first >= end)
    return 0;
  ck_assert_uint_le((end - first) / page, MOST_PAGES);
  ck_assert_int_eq(mincore((void *)first, end - first, is_resident), 0);
  for (size_t i = 0; i < (end - first) / page; i++)
    count += is_resident[i] & 1;
  return count;
}

/* Readers may still be in tables that are too small, so the map keeps these, but not their pages. */
START_TEST(test_map_grows_into_new_pages)
{
  enum { ENTRIES = 60000 };
  static char value;
  gp_address_map_t map;
  size_t bytes = 0;
  gp_address_map_init(&map);
  for (uint64_t i = 0; i < ENTRIES; i++)
    ck_assert(gp_address_map_insert(&map, 0x100000 + i * 512, &value));
  for (gp_address_table_t *table = map.outgrown; table; table = table->next) {
    size_t size = table->capacity * sizeof(table->slots[0]);
    ck_assert_uint_eq(resident_pages(table->slots, size), 0);
    bytes += size;
  }
  ck_assert_uint_ge(bytes, ENTRIES * sizeof(gp_address_slot_t)); /* the test looked at something */
  gp_address_table_t *table = atomic_load(&map.table);
  ck_assert_uint_gt(resident_pages(table->slots, table->capacity * sizeof(table->slots[0])), 0);
  gp_address_map_fini(&map);
}
END_TEST

/* One thread inserts and removes, so that tables are rebuilt all the time; others must always find what
 * stays. */
static gp_address_map_t shared;
static atomic_bool churning;
static atomic_int missed;

static void churn(void)
{
  static char value;
  for (uint64_t i = 1; i < 60000; i++) {
    (void)gp_address_map_insert(&shared, UINT64_C(0x100000) + i * 512, &value);
    (void)gp_address_map_remove(&shared, UINT64_C(0x100000) + i * 512);
  }
  atomic_store(&churning, false);
}

static char kept[4];

static void look(void)
{
  while (atomic_load(&churning))
    for (uint64_t i = 0; i < 4; i++)
      if (gp_address_map_find(&shared, 0x1000 + i * 512) != &kept[i])
        atomic_fetch_add(&missed, 1);
}

static void churn_or_look(uintptr_t number)
{
  if (number == 0)
    churn();
  else
    look();
}

/* More readers than processors, so that some are interrupted in the middle of a look-up while tables come and
 * go. */
START_TEST(test_map_readers_find_what_stays)
{
  enum { READERS = 6 };
  gp_address_map_init(&shared);
  for (uint64_t i = 0; i < 4; i++)
    ck_assert(gp_address_map_insert(&shared, 0x1000 + i * 512, &kept[i]));
  atomic_store(&churning, true);
  gp_run_together(READERS + 1, churn_or_look);
  ck_assert_int_eq(atomic_load(&missed), 0);
  gp_address_map_fini(&shared);
}
END_TEST

/* Writers of entries of their own, through many tables: each keeps every other one that it inserts. */
enum { WRITERS = 3, WRITTEN = 2000 };

static uint64_t written_key(uint64_t writer, uint64_t i)
{
  return UINT64_C(0x100000) + (i * WRITERS + writer) * 512;
}

static char written[WRITERS][WRITTEN];

static void write_entries(uintptr_t writer)
{
  for (uint64_t i = 0; i < WRITTEN; i++) {
    if (!gp_address_map_insert(&shared, written_key(writer, i), &written[writer][i]))
      atomic_fetch_add(&missed, 1);
    if (i % 2 && gp_address_map_remove(&shared, written_key(writer, i)) != &written[writer][i])
      atomic_fetch_add(&missed, 1);
  }
}

START_TEST(test_map_writers_lose_nothing)
{
  gp_address_map_init(&shared);
  gp_lock_leave_gaps(3);
  gp_run_together(WRITERS, write_entries);
  gp_lock_leave_gaps(0);
  ck_assert_int_eq(atomic_load(&missed), 0);
  for (uint64_t writer = 0; writer < WRITERS; writer++) {
    for (uint64_t i = 0; i < WRITTEN; i++)
      ck_assert_ptr_eq(
          gp_address_map_find(&shared, written_key(writer, i)), i % 2 ? NULL : &written[writer][i]);
  }
  gp_address_map_fini(&shared);
}
END_TEST

START_TEST(test_bins)
{
  static gp_bin_entry_t entries[200];
  gp_bins_t bins;
  gp_bins_init(&bins);
  ck_assert_ptr_null(gp_bins_find(&bins, 512));
  ck_assert_ptr_null(gp_bins_largest(&bins));
  for (uint64_t i = 0; i < 200; i++) {
    gp_bin_t *bin = gp_bins_make(&bins, (i / 2 + 1) * 512);
    bin->block_count++;
    gp_bin_push(bin, &entries[i]);
  }
  ck_assert_uint_eq(gp_bins_largest(&bins)->size, 100 * 512);
  gp_bin_t *bin = gp_bins_find(&bins, 512);
  ck_assert_ptr_eq(bin->idle, &entries[1]); /* the newest first */
  gp_bin_remove(bin, &entries[0]);
  gp_bin_remove(bin, &entries[1]);
  ck_assert_ptr_null(bin->idle);
  ck_assert_uint_eq(bin->idle_count, 0);
  bin->block_count = 0;
  const gp_bin_t *largest = gp_bins_largest(&bins);
  for (uint64_t size = 1000; size < 100000; size++)
    gp_bins_make(&bins, size); /* bins without blocks are dropped when the table grows */
  ck_assert_uint_le(bins.capacity, 1024);
  ck_assert_uint_eq(gp_bins_largest(&bins)->size, 100 * 512);
  ck_assert_ptr_eq(gp_bins_find(&bins, 100 * 512), largest); /* blocks point to it */
  gp_bins_fini(&bins);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("util");
  TCase *text = tcase_create("text");
  tcase_add_test(text, test_sizes_are_read);
  tcase_add_test(text, test_sizes_are_written);
  tcase_add_test(text, test_paths_are_expanded);
  tcase_add_test(text, test_ids_of_runs);
  suite_add_tcase(suite, text);
  TCase *types = tcase_create("types");
  tcase_add_test(types, test_round_sizes);
  tcase_add_test(types, test_fits_of_round);
  tcase_add_test(types, test_mxnet_round_sizes);
  tcase_add_test(types, test_mxnet_buckets);
  tcase_add_test(types, test_naive_sizes);
  suite_add_tcase(suite, types);
  TCase *tables = tcase_create("tables");
  tcase_set_timeout(tables, 60);
  tcase_add_test(tables, test_map_against_a_table);
  tcase_add_test(tables, test_map_keeps_promises);
  tcase_add_test(tables, test_map_grows_into_new_pages);
  tcase_add_test(tables, test_map_readers_find_what_stays);
  tcase_add_test(tables, test_map_writers_lose_nothing);
  tcase_add_test(tables, test_bins);
  suite_add_tcase(suite, tables);
  return gp_check_main(suite);
}
