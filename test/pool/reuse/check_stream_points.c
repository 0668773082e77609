/*
 * What points of streams tell of memory that was freed in their order (reuse/stream_points.h). BUSY has work
 * that never ends, so that nothing is known of the context as a whole.
 */
#include "pool/reuse/drain.h"
#include "pool/reuse/stream_points.h"
#include "test/pool/check_main.h"
#include "test/pool/async_fixture.h"

#define BUSY     UINT64_C(0x10000030)
#define BLOCKING UINT64_C(0x10000040)
#define MANY     UINT64_C(0x20000000)

static void create(uint64_t stream, bool is_blocking)
{
  gp_stream_record_begin(engine, context, stream, is_blocking);
}

static void start_points_with(const char *setting)
{
  start((const char *const[]){setting, "GPUPOOL_ASYNC=plain", NULL}, GP_GIB, true); /* the first one counts */
  create(FIRST, false);
  create(SECOND, false);
  create(BUSY, false);
  create(BLOCKING, true);
  fake_submit_on(&driver, 0, allocate_in(order(BUSY), 2 * BYTES), BYTES);
}

static void start_points(void)
{
  start_points_with("GPUPOOL_TYPE=round");
}

static gp_stream_point_t point_of(uint64_t stream)
{
  return gp_stream_record_point(order(stream).stream_record, false);
}

static void synchronize_stream(uint64_t stream)
{
  gp_stream_point_t point = point_of(stream);
  gp_stream_point_passed(&point);
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
  gp_stream_point_t point = point_of(FIRST);
  free_in(order(FIRST), late);
  gp_stream_point_passed(&point);
  ck_assert_uint_eq(next_in(SECOND), early);
  ck_assert_uint_ne(next_in(SECOND), late);
  ck_assert_uint_eq(next_in(FIRST), late);
  stop();
}
END_TEST

START_TEST(test_another_stream_of_the_same_handle_is_not_it)
{
  start_points();
  gp_stream_point_t none = point_of(FIRST);
  freed_in(FIRST);
  gp_stream_point_t point = point_of(FIRST);
  ck_assert_uint_eq(none.frees, 0);
  ck_assert_uint_eq(point.frees, 1);
  gp_stream_record_end(engine, FIRST);
  create(FIRST, false);
  uint64_t address = freed_in(FIRST);
  gp_stream_point_passed(&point);
  gp_stream_point_awaited(order(SECOND).stream_record, &point);
  ck_assert_uint_ne(next_in(SECOND), address);
  stop();
}
END_TEST

START_TEST(test_no_stream_has_no_point)
{
  start_points();
  freed_in(FIRST);
  gp_stream_point_t point = gp_stream_record_point(NULL, false);
  gp_stream_point_passed(&point);
  gp_stream_point_awaited(order(SECOND).stream_record, &point);
  ck_assert_ptr_null(point.stream_record);
  ck_assert_uint_eq(point.frees, 0);
  stop();
}
END_TEST

/* Natively the free is an operation, behind the legacy default stream's work: it has one in its place. A
 * point has none: that would come behind what the legacy stream has been given since. */
START_TEST(test_a_free_in_a_blocking_stream_has_an_operation)
{
  start_points();
  uint64_t kept = next_in(BLOCKING);
  uint64_t address = next_in(BLOCKING);
  free_in(order(BLOCKING), kept);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  ck_assert_uint_eq(driver.entered, BLOCKING);
  synchronize_stream(BLOCKING);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  ck_assert_uint_eq(next_in(SECOND), kept);
  free_in(order(BLOCKING), address);
  synchronize_stream(BLOCKING);
  ck_assert_uint_eq(next_in(SECOND), address);
  stop();
}
END_TEST

static int refuse_to_enter(void *self, const gp_driver_context_t *of, uint64_t stream, void **event)
{
  (void)self;
  (void)of;
  (void)stream;
  (void)event;
  return FAKE_INVALID_VALUE;
}

/* Then only an operation of the program's lies behind the free. */
START_TEST(test_a_blocking_stream_without_that_operation)
{
  start_points();
  driver.ops.enter_stream = refuse_to_enter;
  uint64_t address = freed_in(BLOCKING);
  synchronize_stream(BLOCKING);
  ck_assert_uint_ne(next_in(SECOND), address);
  gp_stream_point_t recorded = gp_stream_record_point(order(BLOCKING).stream_record, true);
  gp_stream_point_passed(&recorded);
  ck_assert_uint_eq(next_in(SECOND), address);
  stop();
}
END_TEST

START_TEST(test_what_a_stream_has_passed_outlives_it)
{
  start_points();
  uint64_t address = freed_in(FIRST);
  synchronize_stream(FIRST);
  gp_stream_record_end(engine, FIRST);
  ck_assert_uint_eq(stats().cached_bytes.current, BYTES);
  ck_assert_uint_eq(next_in(SECOND), address);
  stop();
}
END_TEST

START_TEST(test_a_trim_gives_back_what_a_stream_has_passed)
{
  start_points_with("GPUPOOL_ASYNC=pool");
  uint64_t used = driver.used;
  free_in(order(FIRST), allocate_in(order(FIRST), 4 * GP_MIB));
  synchronize_stream(FIRST);
  gp_engine_async_trim(engine, context);
  ck_assert_uint_eq(driver.used, used);
  stop();
}
END_TEST

START_TEST(test_a_stream_that_waits_gets_it_at_once)
{
  start_points();
  uint64_t address = freed_in(FIRST);
  gp_stream_point_t recorded = point_of(FIRST);
  uint64_t late = allocate_in(order(FIRST), 4 * BYTES);
  free_in(order(FIRST), late);
  gp_stream_point_awaited(order(SECOND).stream_record, &recorded);
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
  gp_stream_point_t old = point_of(FIRST);
  uint64_t address = next_in(FIRST);
  free_in(order(FIRST), address);
  gp_stream_point_t recorded = point_of(FIRST);
  gp_stream_point_awaited(order(SECOND).stream_record, &recorded);
  gp_stream_point_awaited(order(SECOND).stream_record, &old);
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
    gp_stream_point_t recorded = point_of(MANY + 64 * i);
    gp_stream_point_awaited(order(SECOND).stream_record, &recorded);
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
  gp_stream_point_t recorded = point_of(FIRST);
  gp_stream_point_awaited(order(SECOND).stream_record, &recorded);
  gp_stream_record_prevent_overlap(engine, NULL, false);
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
  gp_stream_point_t recorded = point_of(FIRST);
  gp_stream_point_awaited(order(SECOND).stream_record, &recorded);
  next_in(SECOND);
  gp_stream_record_prevent_overlap(engine, order(SECOND).stream_record, false);
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
  gp_stream_record_begin(engine, other, 0x3000, false);
  uint64_t address = freed_in(FIRST);
  gp_stream_point_t recorded = point_of(FIRST);
  gp_stream_point_awaited(order_in(other, 0x3000).stream_record, &recorded);
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
  gp_stream_record_begin(engine, other, 0x3000, false);
  gp_stream_order_t there = order_in(other, 0x3000);
  uint64_t address = freed_in(FIRST);
  gp_stream_point_t recorded = point_of(FIRST);
  gp_stream_point_awaited(there.stream_record, &recorded);
  gp_stream_point_awaited(order(SECOND).stream_record, &recorded);
  ck_assert_uint_ne(allocate_in(there, BYTES), address);
  ck_assert_uint_eq(next_in(SECOND), address);
  stop();
}
END_TEST

/* The same promise is in its cudaFreeAsync, whatever the type; the stream itself may not ask for it. */
static void is_passed(const char *type)
{
  start_points_with(type);
  uint64_t address = allocate(BYTES);
  driver_free_t call = {.address = address};
  ck_assert_int_eq(free_with(order(FIRST), &call), 0);
  ck_assert_int_eq(call.places, 1);
  ck_assert_uint_ne(next_in(FIRST), address);
  ck_assert_uint_ne(allocate(BYTES), address);
  synchronize_stream(SECOND);
  ck_assert_uint_ne(allocate(BYTES), address);
  synchronize_stream(FIRST);
  gp_drain(engine, true);
  ck_assert_uint_eq(stats().deferred_bytes.current, 0);
  ck_assert_uint_eq(allocate(BYTES), address);
  stop();
}

START_TEST(test_memory_of_malloc_that_a_stream_has_passed_is_for_all)
{
  is_passed("GPUPOOL_TYPE=round");
  is_passed("GPUPOOL_TYPE=segment");
}
END_TEST

/* Two contexts of the device: the other one never gets through. */
START_TEST(test_what_the_context_of_the_stream_has_completed_is_for_all)
{
  start_points_with("GPUPOOL_ASYNC=pool");
  const gp_driver_context_t second = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &second);
  gp_stream_record_begin(engine, other, 0x3000, false);
  gp_stream_order_t there = order_in(other, 0x3000);
  uint64_t early = allocate_in(there, 2 * GP_MIB);
  (void)allocate_in(there, 2 * GP_MIB);
  uint64_t late = allocate_in(there, 8 * GP_MIB);
  free_in(there, early);
  uint64_t epoch = gp_engine_sync_begin(engine);
  free_in(there, late);
  gp_engine_sync_end(engine, other, epoch);
  ck_assert_uint_ne(allocate_in(order(SECOND), 8 * GP_MIB), late);
  ck_assert_uint_eq(allocate_in(order(SECOND), 2 * GP_MIB), early);
  stop();
}
END_TEST

START_TEST(test_a_stream_ends_with_memory_of_malloc)
{
  start_points();
  uint64_t first = allocate(BYTES), second = allocate(BYTES);
  driver_free_t call = {.address = first};
  ck_assert_int_eq(free_with(order(FIRST), &call), 0);
  gp_stream_record_end(engine, FIRST);
  create(FIRST, false);
  call.address = second;
  ck_assert_int_eq(free_with(order(FIRST), &call), 0);
  synchronize_stream(FIRST);
  ck_assert_uint_eq(allocate(BYTES), second);
  ck_assert_uint_ne(allocate(BYTES), first);
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
  tcase_add_test(tests, test_no_stream_has_no_point);
  tcase_add_test(tests, test_a_free_in_a_blocking_stream_has_an_operation);
  tcase_add_test(tests, test_a_blocking_stream_without_that_operation);
  tcase_add_test(tests, test_what_a_stream_has_passed_outlives_it);
  tcase_add_test(tests, test_a_trim_gives_back_what_a_stream_has_passed);
  tcase_add_test(tests, test_a_stream_that_waits_gets_it_at_once);
  tcase_add_test(tests, test_the_newest_point_counts);
  tcase_add_test(tests, test_many_points_are_awaited);
  tcase_add_test(tests, test_no_order_counts_beside_programmatic_launches);
  tcase_add_test(tests, test_a_stream_that_waited_owes_an_operation);
  tcase_add_test(tests, test_a_stream_of_another_device_gets_nothing);
  tcase_add_test(tests, test_plain_memory_that_its_stream_has_passed_is_for_all);
  tcase_add_test(tests, test_plain_memory_of_another_context_is_not_for_a_stream_that_waits);
  tcase_add_test(tests, test_memory_of_malloc_that_a_stream_has_passed_is_for_all);
  tcase_add_test(tests, test_what_the_context_of_the_stream_has_completed_is_for_all);
  tcase_add_test(tests, test_a_stream_ends_with_memory_of_malloc);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
