/*
 * What points of streams tell of memory that was freed in their order (reuse/stream_points.h). BUSY has work
 * that never ends, so that nothing is known of the context as a whole.
 */
#include "pool/reuse/stream_calls.h"
#include "pool/reuse/stream_points.h"
#include "test/pool/check_main.h"
#include "test/pool/ordered_fixture.h"

#define BUSY     UINT64_C(0x10000030)
#define BLOCKING UINT64_C(0x10000040)
#define MANY     UINT64_C(0x20000000)

static void create(uint64_t stream, bool is_blocking)
{
  gp_identity_created(engine, context, stream, is_blocking);
  gp_stream_created(engine, context, stream);
}

static void start_points_with(const char *setting)
{
  start((const char *const[]){"GPUPOOL_REUSE=epoch", setting, NULL}, GP_GIB, true);
  create(FIRST, false);
  create(SECOND, false);
  create(BUSY, false);
  create(BLOCKING, true);
  fake_submit(&driver, 0, allocate_in(order(BUSY), 2 * BYTES));
  gp_stream_mark(engine, gp_stream_find(engine, BUSY));
}

static void start_points(void)
{
  start_points_with(NULL);
}

static gp_stream_fact_t fact_of(uint64_t stream)
{
  return gp_stream_fact_begin(engine, gp_stream_find(engine, stream));
}

static void synchronize_stream(uint64_t stream)
{
  gp_stream_fact_t fact = fact_of(stream);
  gp_stream_fact_end(engine, &fact);
}

static uint64_t freed_in(uint64_t stream)
{
  uint64_t address = allocate_in(order(stream), BYTES);
  free_in(order(stream), address);
  return address;
}

static uint64_t next_in(uint64_t stream)
{
  return allocate_in(order(stream), BYTES);
}

START_TEST(test_any_stream_gets_what_its_stream_has_passed)
{
  start_points();
  uint64_t address = freed_in(FIRST);
  uint64_t other = next_in(SECOND);
  ck_assert_uint_ne(other, address);
  synchronize_stream(FIRST);
  ck_assert_uint_eq(next_in(SECOND), address);
  stop();
}
END_TEST

START_TEST(test_a_fact_tells_of_what_was_freed_before_it_began)
{
  start_points();
  uint64_t early = next_in(FIRST);
  uint64_t late = next_in(FIRST);
  free_in(order(FIRST), early);
  gp_stream_fact_t fact = fact_of(FIRST);
  free_in(order(FIRST), late);
  gp_stream_fact_end(engine, &fact);
  ck_assert_uint_eq(next_in(SECOND), early);
  ck_assert_uint_ne(next_in(SECOND), late);
  ck_assert_uint_eq(next_in(FIRST), late);
  stop();
}
END_TEST

START_TEST(test_another_stream_of_the_same_handle_is_not_it)
{
  start_points();
  gp_stream_fact_t none = fact_of(FIRST);
  freed_in(FIRST);
  gp_stream_fact_t fact = fact_of(FIRST);
  ck_assert_uint_eq(none.point.frees, 0);
  ck_assert_uint_eq(fact.point.frees, 1);
  gp_identity_ends(engine, FIRST);
  create(FIRST, false);
  uint64_t address = freed_in(FIRST);
  gp_stream_point_passed(&fact.point);
  gp_stream_point_awaited(order(SECOND).identity, &fact.point);
  ck_assert_uint_ne(next_in(SECOND), address);
  stop();
}
END_TEST

/* Its work is asked for until it is complete, while its handle is another stream's. */
START_TEST(test_an_ended_stream_has_no_point)
{
  start_points();
  gp_stream_t *ended = gp_stream_find(engine, FIRST);
  gp_stream_mark(engine, ended);
  gp_identity_ends(engine, FIRST);
  gp_stream_destroyed(engine, gp_stream_take(engine, FIRST));
  create(FIRST, false);
  freed_in(FIRST);
  gp_stream_fact_t fact = gp_stream_fact_begin(engine, ended);
  ck_assert_uint_eq(fact.point.frees, 0);
  gp_stream_fact_end(engine, &fact);
  stop();
}
END_TEST

/* Its work is natively behind the legacy default stream's, of which this fact tells nothing. */
START_TEST(test_a_blocking_stream_needs_the_operation_in_between)
{
  start_points();
  uint64_t kept = next_in(BLOCKING);
  uint64_t address = next_in(BLOCKING);
  free_in(order(BLOCKING), kept);
  synchronize_stream(BLOCKING);
  ck_assert_uint_ne(next_in(SECOND), kept);
  free_in(order(BLOCKING), address);
  ck_assert_uint_eq(next_in(BLOCKING), address); /* behind an operation, as what is left of it is */
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  synchronize_stream(BLOCKING);
  free_in(order(BLOCKING), address);
  ck_assert_uint_eq(next_in(SECOND), kept);
  ck_assert_uint_ne(next_in(SECOND), address);
  stop();
}
END_TEST

START_TEST(test_what_a_stream_has_passed_outlives_it)
{
  start_points();
  uint64_t address = freed_in(FIRST);
  synchronize_stream(FIRST);
  gp_identity_ends(engine, FIRST);
  ck_assert_uint_eq(stats().cached_bytes.current, BYTES);
  ck_assert_uint_eq(next_in(SECOND), address);
  stop();
}
END_TEST

START_TEST(test_a_question_for_free_memory_counts_it)
{
  start_points();
  freed_in(FIRST);
  synchronize_stream(FIRST);
  gp_engine_ordered_trim(engine, context);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  stop();
}
END_TEST

START_TEST(test_a_stream_that_waits_gets_it_at_once)
{
  start_points();
  uint64_t address = freed_in(FIRST);
  gp_stream_fact_t recorded = fact_of(FIRST);
  uint64_t late = allocate_in(order(FIRST), 4 * BYTES);
  free_in(order(FIRST), late);
  gp_stream_point_awaited(order(SECOND).identity, &recorded.point);
  ck_assert_uint_ne(next_in(BUSY), address);
  ck_assert_uint_eq(next_in(SECOND), address);
  ck_assert_uint_ne(allocate_in(order(SECOND), 4 * BYTES), late);
  free_in(order(SECOND), address);
  ck_assert_uint_ne(next_in(FIRST), address); /* the other way round nothing is known */
  stop();
}
END_TEST

/* An older point says less. */
START_TEST(test_the_newest_point_counts)
{
  start_points();
  freed_in(FIRST);
  gp_stream_fact_t old = fact_of(FIRST);
  uint64_t address = next_in(FIRST);
  free_in(order(FIRST), address);
  gp_stream_fact_t recorded = fact_of(FIRST);
  gp_stream_point_awaited(order(SECOND).identity, &recorded.point);
  gp_stream_point_awaited(order(SECOND).identity, &old.point);
  ck_assert_uint_eq(next_in(SECOND), address);
  stop();
}
END_TEST

/* More than are remembered: the first is forgotten, the others are not, nor what ended streams leave. */
START_TEST(test_many_points_are_awaited)
{
  uint64_t addresses[GP_AWAITED_POINTS + 1];
  start_points();
  for (unsigned i = 0; i <= GP_AWAITED_POINTS; i++) {
    create(MANY + 64 * i, false);
    addresses[i] = next_in(MANY + 64 * i);
  }
  for (unsigned i = 0; i <= GP_AWAITED_POINTS; i++) {
    free_in(order(MANY + 64 * i), addresses[i]);
    gp_stream_fact_t recorded = fact_of(MANY + 64 * i);
    gp_stream_point_awaited(order(SECOND).identity, &recorded.point);
  }
  for (unsigned i = 0; i < GP_AWAITED_POINTS; i++) {
    uint64_t got = next_in(SECOND);
    bool is_one = false;
    for (unsigned j = 1; j <= GP_AWAITED_POINTS; j++)
      is_one |= got == addresses[j];
    ck_assert(is_one);
  }
  ck_assert_uint_ne(next_in(SECOND), addresses[0]);
  stop();
}
END_TEST

START_TEST(test_no_order_counts_beside_programmatic_launches)
{
  start_points();
  uint64_t address = freed_in(FIRST);
  gp_stream_fact_t recorded = fact_of(FIRST);
  gp_stream_point_awaited(order(SECOND).identity, &recorded.point);
  gp_identity_launches_early(engine, NULL, false);
  ck_assert_uint_ne(next_in(SECOND), address);
  synchronize_stream(FIRST); /* what is complete is */
  ck_assert_uint_eq(next_in(SECOND), address);
  stop();
}
END_TEST

/* What it was handed on to may be the owner that launches. */
START_TEST(test_a_stream_that_waited_owes_an_operation)
{
  start_points();
  freed_in(FIRST);
  gp_stream_fact_t recorded = fact_of(FIRST);
  gp_stream_point_awaited(order(SECOND).identity, &recorded.point);
  next_in(SECOND);
  gp_identity_launches_early(engine, order(SECOND).identity, false);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  ck_assert_uint_eq(driver.entered, SECOND);
  stop();
}
END_TEST

START_TEST(test_a_stream_of_another_device_gets_nothing)
{
  start_points();
  const gp_driver_context_t second = fake_context(1, 1);
  gp_context_t *other = gp_engine_context(engine, &second);
  gp_identity_created(engine, other, 0x3000, false);
  uint64_t address = freed_in(FIRST);
  gp_stream_fact_t recorded = fact_of(FIRST);
  gp_stream_point_awaited(order_in(other, 0x3000).identity, &recorded.point);
  ck_assert_uint_ne(allocate_in(order_in(other, 0x3000), BYTES), address);
  stop();
}
END_TEST

/* The host knows that it is complete. */
START_TEST(test_plain_memory_that_its_stream_has_passed_is_for_all)
{
  start_points_with("GPUPOOL_ASYNC=plain");
  uint64_t address = freed_in(FIRST);
  ck_assert_uint_ne(next_in(SECOND), address);
  synchronize_stream(FIRST);
  ck_assert_uint_eq(allocate(BYTES), address);
  stop();
}
END_TEST

/* It ends with its context, which the stream that waits outlives. */
START_TEST(test_plain_memory_of_another_context_is_not_for_a_stream_that_waits)
{
  start_points_with("GPUPOOL_ASYNC=plain");
  const gp_driver_context_t second = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &second);
  gp_identity_created(engine, other, 0x3000, false);
  gp_order_t there = order_in(other, 0x3000);
  uint64_t address = freed_in(FIRST);
  gp_stream_fact_t recorded = fact_of(FIRST);
  gp_stream_point_awaited(there.identity, &recorded.point);
  gp_stream_point_awaited(order(SECOND).identity, &recorded.point);
  ck_assert_uint_ne(allocate_in(there, BYTES), address);
  ck_assert_uint_eq(next_in(SECOND), address);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stream_points");
  TCase *tests = tcase_create("all");
  tcase_add_test(tests, test_any_stream_gets_what_its_stream_has_passed);
  tcase_add_test(tests, test_a_fact_tells_of_what_was_freed_before_it_began);
  tcase_add_test(tests, test_another_stream_of_the_same_handle_is_not_it);
  tcase_add_test(tests, test_an_ended_stream_has_no_point);
  tcase_add_test(tests, test_a_blocking_stream_needs_the_operation_in_between);
  tcase_add_test(tests, test_what_a_stream_has_passed_outlives_it);
  tcase_add_test(tests, test_a_question_for_free_memory_counts_it);
  tcase_add_test(tests, test_a_stream_that_waits_gets_it_at_once);
  tcase_add_test(tests, test_the_newest_point_counts);
  tcase_add_test(tests, test_many_points_are_awaited);
  tcase_add_test(tests, test_no_order_counts_beside_programmatic_launches);
  tcase_add_test(tests, test_a_stream_that_waited_owes_an_operation);
  tcase_add_test(tests, test_a_stream_of_another_device_gets_nothing);
  tcase_add_test(tests, test_plain_memory_that_its_stream_has_passed_is_for_all);
  tcase_add_test(tests, test_plain_memory_of_another_context_is_not_for_a_stream_that_waits);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
