/*
 * The highest use of a device, as the observer sees it.
 */
#include "base/lock.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

static int told;
static int told_device;
static uint64_t told_bytes;
static uint64_t told_live; /* what is held at that moment */
static uint64_t next_watch;
static int first_uses;

static void hear_peak(void *self, int device, uint64_t bytes)
{
  told++;
  told_device = device;
  told_bytes = bytes;
  told_live = stats().allocation.current;
  gp_engine_watch_use(engine, device, next_watch);
}

static void hear_first_use(void *self)
{
  first_uses++;
  ck_assert_uint_eq(gp_locks_held(), 0);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 0);
}

static void begin_all(void)
{
  const gp_observer_t observer = {.peak = hear_peak, .first_use = hear_first_use};
  gp_driver_context_t first = fake_context(0, 0);
  told = first_uses = 0;
  next_watch = UINT64_MAX;
  fake_driver_init(&driver, GP_GIB, true);
  engine = fake_engine(&driver, &observer, NULL);
  context = gp_engine_context(engine, &first);
}

START_TEST(test_it_is_told_before_the_free)
{
  gp_engine_watch_use(engine, 0, 3 * GP_MIB);
  uint64_t a = allocate(2 * GP_MIB);
  free_code(a);
  ck_assert_int_eq(told, 0);
  a = allocate(2 * GP_MIB);
  uint64_t b = allocate(2 * GP_MIB);
  uint64_t c = allocate(4 * GP_MIB);
  ck_assert_int_eq(told, 0); /* it may go on growing */
  free_code(b);
  ck_assert_int_eq(told, 1);
  ck_assert_int_eq(told_device, 0);
  ck_assert_uint_eq(told_bytes, 8 * GP_MIB);
  ck_assert_uint_eq(told_live, 3);
  free_code(a);
  free_code(c);
  ck_assert_int_eq(told, 1);
}
END_TEST

START_TEST(test_the_next_is_where_the_observer_wants_it)
{
  next_watch = 6 * GP_MIB;
  gp_engine_watch_use(engine, 0, GP_MIB);
  uint64_t a = allocate(4 * GP_MIB);
  free_code(a);
  ck_assert_int_eq(told, 1);
  a = allocate(6 * GP_MIB);
  free_code(a);
  ck_assert_int_eq(told, 1);
  a = allocate(7 * GP_MIB);
  free_code(a);
  ck_assert_int_eq(told, 2);
}
END_TEST

START_TEST(test_memory_that_is_not_pooled_counts)
{
  gp_forwarded_t memory = {.address = 0x1000, .size = 4 * GP_MIB, .kind = GP_FORWARDED_MANAGED};
  gp_engine_watch_use(engine, 0, 5 * GP_MIB);
  allocate(2 * GP_MIB);
  ck_assert(gp_engine_forwarded_reserve(engine, context, memory.size, memory.kind));
  gp_engine_forwarded_commit(engine, context, &memory, 1);
  ck_assert_int_eq(told, 0);
  ck_assert(gp_engine_forwarded_take(engine, gp_forwarded_space(memory.kind), 0x1000, &memory));
  ck_assert_int_eq(told, 1);
  ck_assert_uint_eq(told_bytes, 6 * GP_MIB);
  gp_engine_forwarded_freed(engine, &memory, 0, 1);
}
END_TEST

START_TEST(test_a_context_takes_memory_with_it)
{
  gp_engine_watch_use(engine, 0, GP_MIB);
  allocate(2 * GP_MIB);
  gp_engine_context_lost(engine, context);
  ck_assert_int_eq(told, 1);
  ck_assert_uint_eq(told_live, 1);
}
END_TEST

START_TEST(test_at_the_end_of_a_program_that_freed_nothing)
{
  gp_engine_watch_use(engine, 0, GP_MIB);
  allocate(2 * GP_MIB);
  gp_engine_tell_peaks(engine);
  ck_assert_int_eq(told, 1);
  gp_engine_tell_peaks(engine);
  ck_assert_int_eq(told, 1);
}
END_TEST

START_TEST(test_a_level_that_was_passed_already)
{
  allocate(2 * GP_MIB);
  gp_engine_watch_use(engine, 0, GP_MIB);
  gp_engine_tell_peaks(engine);
  ck_assert_int_eq(told, 1);
}
END_TEST

START_TEST(test_the_first_use_is_told_once)
{
  ck_assert_int_eq(first_uses, 0);
  free_code(allocate(2 * GP_MIB));
  allocate(3 * GP_MIB);
  ck_assert_int_eq(first_uses, 1);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("peak");
  TCase *peak = tcase_create("peak");
  tcase_add_checked_fixture(peak, begin_all, stop);
  tcase_add_test(peak, test_it_is_told_before_the_free);
  tcase_add_test(peak, test_the_next_is_where_the_observer_wants_it);
  tcase_add_test(peak, test_memory_that_is_not_pooled_counts);
  tcase_add_test(peak, test_a_context_takes_memory_with_it);
  tcase_add_test(peak, test_at_the_end_of_a_program_that_freed_nothing);
  tcase_add_test(peak, test_a_level_that_was_passed_already);
  tcase_add_test(peak, test_the_first_use_is_told_once);
  suite_add_tcase(suite, peak);
  return gp_check_main(suite);
}
