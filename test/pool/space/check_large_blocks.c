/*
 * Blocks of large classes, which take what was asked for: which of them serve what.
 */
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define KEPT_ALL ((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_SLACK=none", NULL})

/* Allocates and frees each size, all held at the same time: idle blocks, the last one the newest. */
static void leave_idle(const uint64_t *mib, int count)
{
  uint64_t blocks[8];

  for (int i = 0; i < count; i++)
    blocks[i] = allocate(mib[i] * GP_MIB);
  for (int i = 0; i < count; i++)
    free_code(blocks[i]);
  synchronize();
}

/* Bytes that the driver gives for the request; 0: it was served from the cache. */
static uint64_t taken(uint64_t bytes)
{
  uint64_t before = driver.used;
  allocate(bytes);
  return driver.used - before;
}

/* 1,279 equal buffers in 80 GiB, as large as they may be. Rounded to their class there would be 1,137. */
START_TEST(test_equal_buffers_nearly_fill_a_device)
{
  const uint64_t capacity = 80 * GP_GIB;
  const uint64_t bytes = capacity / 1279;
  uint64_t address;
  int count = 0;

  start(NULL, capacity, true);
  while (gp_engine_alloc(engine, context, bytes, &address) == 0)
    count++;
  ck_assert_int_eq(count, (int)(capacity / (66 * GP_MIB))); /* what a driver that gives 2 MiB at a time has */
  ck_assert_uint_eq(stats().requested_bytes.current, (uint64_t)count * bytes);
  stop();
}
END_TEST

START_TEST(test_a_smaller_block_of_the_class_does_not_serve)
{
  start(KEPT_ALL, GP_GIB, true);
  leave_idle((const uint64_t[]){65, 67}, 2); /* both of the class of 72 */
  ck_assert_uint_eq(stats().reserved_bytes.current, (66 + 68) * GP_MIB);
  ck_assert_uint_eq(taken(68 * GP_MIB), 0);
  ck_assert_uint_eq(taken(67 * GP_MIB), 72 * GP_MIB); /* sizes of the class change: for all of them */
  ck_assert_uint_eq(stats().cached_bytes.current, 66 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_the_smallest_that_fits_serves)
{
  start(KEPT_ALL, GP_GIB, true);
  leave_idle((const uint64_t[]){68, 66, 70}, 3);
  ck_assert_uint_eq(taken(65 * GP_MIB), 0);
  ck_assert_uint_eq(stats().cached_bytes.current, (68 + 70) * GP_MIB);
  ck_assert_uint_eq(taken(65 * GP_MIB), 0);
  ck_assert_uint_eq(stats().cached_bytes.current, 70 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_the_next_class_serves_up_to_an_eighth_more)
{
  start(KEPT_ALL, GP_GIB, true);
  leave_idle((const uint64_t[]){74, 80}, 2);          /* of the class of 80 */
  ck_assert_uint_eq(taken(65 * GP_MIB), 66 * GP_MIB); /* 73 at most */
  ck_assert_uint_eq(taken(64 * GP_MIB + 1), 66 * GP_MIB);
  ck_assert_uint_eq(taken(72 * GP_MIB), 0); /* 81 at most */
  ck_assert_uint_eq(stats().cached_bytes.current, 80 * GP_MIB);
  ck_assert_uint_eq(taken(66 * GP_MIB), 66 * GP_MIB); /* 74 at most */
  ck_assert_uint_eq(taken(72 * GP_MIB), 0);
  stop();
}
END_TEST

/* One that is just enough, then one of each class, for all later sizes of it: 72 and 80. */
START_TEST(test_a_buffer_that_grows_gets_few_blocks)
{
  uint64_t held = 0;

  start(KEPT_ALL, 4 * GP_GIB, true);
  for (uint64_t bytes = 65 * GP_MIB; bytes <= 80 * GP_MIB; bytes += GP_MIB / 4) {
    if (held)
      free_code(held);
    synchronize();
    held = allocate(bytes);
  }
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 3);
  stop();
}
END_TEST

/* The class is a matter of comfort: where it does not fit, the request does. */
START_TEST(test_no_class_at_the_edge)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_PATIENCE=0", NULL}, (66 + 70) * GP_MIB, true);
  leave_idle((const uint64_t[]){65}, 1);
  ck_assert_uint_eq(taken(70 * GP_MIB), 70 * GP_MIB);
  ck_assert_uint_eq(stats().cached_bytes.current, 66 * GP_MIB); /* nothing had to go back for it */
  stop();
}
END_TEST

START_TEST(test_the_largest_idle_block_is_by_size)
{
  start(KEPT_ALL, GP_GIB, true);
  leave_idle((const uint64_t[]){68, 70, 66}, 3);
  ck_assert_uint_eq(gp_engine_largest_idle(engine, 0), 70 * GP_MIB);
  ck_assert_uint_eq(gp_engine_trim(engine, context, 69 * GP_MIB, GP_TRIM_REQUESTED), 70 * GP_MIB);
  ck_assert_uint_eq(gp_engine_largest_idle(engine, 0), 68 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_other_types_are_as_they_were)
{
  start((const char *const[]){"GPUPOOL_TYPE=naive", "GPUPOOL_LARGE_ROUND=8MiB", "GPUPOOL_RESERVE=0", NULL},
      GP_GIB, true);
  leave_idle((const uint64_t[]){72}, 1);
  ck_assert_uint_eq(taken(65 * GP_MIB), 0);
  ck_assert_uint_eq(taken(65 * GP_MIB), 72 * GP_MIB);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("large_blocks");
  TCase *sizes = tcase_create("sizes");
  tcase_add_test(sizes, test_equal_buffers_nearly_fill_a_device);
  tcase_add_test(sizes, test_a_smaller_block_of_the_class_does_not_serve);
  tcase_add_test(sizes, test_the_smallest_that_fits_serves);
  tcase_add_test(sizes, test_the_next_class_serves_up_to_an_eighth_more);
  tcase_add_test(sizes, test_a_buffer_that_grows_gets_few_blocks);
  tcase_add_test(sizes, test_no_class_at_the_edge);
  tcase_add_test(sizes, test_the_largest_idle_block_is_by_size);
  tcase_add_test(sizes, test_other_types_are_as_they_were);
  suite_add_tcase(suite, sizes);
  return gp_check_main(suite);
}
