/*
 * Memory of cudaMallocAsync with the types that cut: parts that are freed in the order of a stream, while the
 * device still uses them. Over the fake driver.
 */
#include "pool/limits/reclaim.h"
#include "pool/reuse/stream_points.h"
#include "pool/device_record.h"
#include "test/pool/check_main.h"
#include "test/pool/async_fixture.h"

#define LEGACY GP_STREAM_LEGACY

static const char *const types[] = {"GPUPOOL_TYPE=segment", "GPUPOOL_TYPE=vmm"};
#define TYPES (int)(sizeof(types) / sizeof(types[0]))

static void start_type(int type)
{
  start_streams((const char *const[]){types[type], "GPUPOOL_RESERVE=0", NULL}, GP_GIB);
}

/* A part that the device uses when the program frees it. */
static uint64_t allocate_busy(uint64_t stream, uint64_t bytes)
{
  uint64_t address = allocate_in(order(stream), bytes);
  fake_submit_on(&driver, 0, address, bytes);
  return address;
}

static long calls_for_memory(void)
{
  return driver.count[FAKE_ALLOC] + driver.count[FAKE_ALLOC_IN] + driver.count[FAKE_CREATE];
}

START_TEST(test_memory_of_streams_is_cut)
{
  gp_part_t part;

  start_type(_i);
  uint64_t plain = allocate(BYTES);
  long calls = calls_for_memory();
  uint64_t address = allocate_in(order(FIRST), 3 * BYTES);
  ck_assert(gp_engine_part(engine, address, &part));
  ck_assert_uint_eq(address, plain + BYTES);
  ck_assert_int_eq(calls_for_memory(), calls);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).live, 3 * BYTES);
  stop();
}
END_TEST

START_TEST(test_a_stream_grows_the_pool_in_its_own_context)
{
  start_type(0);
  (void)allocate_in(order(FIRST), BYTES);
  ck_assert_int_eq(driver.count[FAKE_ALLOC_IN], 1);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 0);
  stop();
}
END_TEST

/* Freed one after the other in a stream, three parts serve one larger request there; its rest serves, too. */
START_TEST(test_a_stream_has_its_neighbours_as_one_piece)
{
  uint64_t parts[3];

  start_type(_i);
  for (int i = 0; i < 3; i++)
    parts[i] = allocate_busy(FIRST, BYTES);
  uint64_t behind = allocate(BYTES);
  for (int i = 0; i < 3; i++)
    free_in(order(FIRST), parts[(i + 1) % 3]);
  ck_assert(gp_engine_check(engine));
  long calls = driver.calls;
  ck_assert_uint_eq(allocate_in(order(FIRST), 2 * BYTES), parts[0]);
  ck_assert(gp_engine_check(engine));
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), parts[2]);
  ck_assert_int_eq(driver.calls, calls);
  ck_assert_uint_eq(stats().cache_misses, 1);
  ck_assert_int_eq(free_code(behind), 0);
  stop();
}
END_TEST

START_TEST(test_nobody_else_has_them_before_the_device_is_done)
{
  start_type(_i);
  uint64_t address = allocate_busy(FIRST, BYTES);
  (void)allocate(BYTES);
  free_in(order(FIRST), address);
  ck_assert_uint_ne(allocate_in(order(SECOND), BYTES), address);
  ck_assert_uint_ne(allocate(BYTES), address);
  synchronize();
  ck_assert_uint_eq(allocate_in(order(SECOND), BYTES), address);
  stop();
}
END_TEST

/* Parts of two streams, and of none, lie side by side: each is apart until the device is done, then all are
 * one piece. */
START_TEST(test_what_is_done_is_joined_whatever_its_stream)
{
  start_type(_i);
  uint64_t first = allocate_busy(FIRST, BYTES), second = allocate_busy(SECOND, BYTES);
  uint64_t third = allocate(BYTES), last = allocate(BYTES);
  free_in(order(FIRST), first);
  free_in(order(SECOND), second);
  ck_assert_int_eq(free_code(third), 0);
  ck_assert(gp_engine_check(engine));
  ck_assert_uint_ne(allocate_in(order(FIRST), 2 * BYTES), first);
  synchronize();
  ck_assert_uint_eq(allocate(3 * BYTES), first);
  ck_assert_int_eq(free_code(last), 0);
  stop();
}
END_TEST

/* For the program's figures the owner's use ends with the free. For the pool the memory waits. */
START_TEST(test_what_the_statistics_say)
{
  start_type(_i);
  (void)allocate(BYTES);
  uint64_t idle = stats().cached_bytes.current, pieces = stats().inactive_split_bytes.current;
  uint64_t address = allocate_busy(FIRST, BYTES);
  (void)allocate(BYTES);
  free_in(order(FIRST), address);
  ck_assert_uint_eq(stats().deferred_bytes.current, 0);
  ck_assert_uint_eq(stats().cached_bytes.current, idle - BYTES);
  if (_i == 0)
    ck_assert_uint_eq(stats().inactive_split_bytes.current, pieces - BYTES);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).live, 0);
  ck_assert_uint_eq(context->device->bound_bytes, BYTES);
  synchronize();
  (void)stats(); /* drains */
  ck_assert_uint_eq(context->device->bound_bytes, 0);
  stop();
}
END_TEST

/* A large piece of the stream stays whole where a smaller idle one will do. */
START_TEST(test_the_smaller_piece_serves)
{
  start_type(_i);
  uint64_t small = allocate(BYTES);
  (void)allocate(BYTES);
  uint64_t large = allocate_busy(FIRST, 8 * BYTES);
  (void)allocate(BYTES);
  ck_assert_int_eq(free_code(small), 0);
  synchronize();
  fake_submit_on(&driver, 0, large, BYTES);
  free_in(order(FIRST), large);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), small);
  ck_assert_uint_eq(allocate_in(order(FIRST), 8 * BYTES), large);
  stop();
}
END_TEST

/* Then no stream may have its parts before the device is done with them. */
START_TEST(test_a_stream_ends)
{
  start_type(_i);
  uint64_t first = allocate_busy(FIRST, BYTES), second = allocate_busy(FIRST, BYTES);
  (void)allocate(BYTES);
  free_in(order(FIRST), first);
  gp_stream_record_end(engine, FIRST);
  ck_assert(gp_engine_check(engine));
  gp_stream_record_begin(engine, context, FIRST, false);
  free_in(order(FIRST), second);
  ck_assert_uint_ne(allocate_in(order(FIRST), 2 * BYTES), first);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), second);
  synchronize();
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), first);
  stop();
}
END_TEST

START_TEST(test_a_context_ends)
{
  start_type(_i);
  uint64_t address = allocate_busy(FIRST, BYTES);
  (void)allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), address);
  fake_complete(&driver, 0);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  ck_assert_uint_eq(context->device->bound_bytes, 0);
  stop();
}
END_TEST

static int refuse_to_enter(void *self, const gp_driver_context_t *of, uint64_t stream, void **event)
{
  (void)self;
  (void)of;
  (void)stream;
  (void)event;
  return FAKE_OUT_OF_MEMORY;
}

/* Natively the free in the legacy stream comes behind all blocking ones: so does the next use. */
START_TEST(test_a_blocking_stream_has_an_operation_in_between)
{
  start_type(_i);
  int (*enter_stream)(void *, const gp_driver_context_t *, uint64_t, void **) = driver.ops.enter_stream;
  uint64_t address = allocate_busy(LEGACY, BYTES);
  (void)allocate(BYTES);
  driver.ops.enter_stream = refuse_to_enter;
  free_in(order(LEGACY), address);
  ck_assert_uint_ne(allocate_in(order(LEGACY), BYTES), address);
  driver.ops.enter_stream = enter_stream;
  ck_assert_uint_eq(allocate_in(order(LEGACY), BYTES), address);
  stop();
}
END_TEST

/* But not what is freed behind the point that it waits for. */
START_TEST(test_a_stream_that_waits_for_the_free_has_them)
{
  start_type(_i);
  uint64_t address = allocate_busy(FIRST, BYTES);
  (void)allocate(BYTES);
  uint64_t later = allocate_busy(FIRST, BYTES);
  (void)allocate(BYTES);
  free_in(order(FIRST), address);
  gp_stream_point_t point = gp_stream_record_point(order(FIRST).stream_record, true);
  free_in(order(FIRST), later);
  gp_stream_point_awaited(order(SECOND).stream_record, &point);
  ck_assert_uint_eq(allocate_in(order(SECOND), BYTES), address);
  ck_assert_uint_ne(allocate_in(order(SECOND), BYTES), later);
  stop();
}
END_TEST

/* Once the device has passed a point behind the free, every request may have the memory. */
START_TEST(test_a_passed_point_makes_them_idle)
{
  start_type(_i);
  uint64_t first = allocate_busy(FIRST, BYTES);
  uint64_t apart = allocate(BYTES);
  uint64_t second = allocate_busy(FIRST, BYTES);
  (void)allocate(BYTES);
  free_in(order(FIRST), first);
  gp_stream_point_t point = gp_stream_record_point(order(FIRST).stream_record, true);
  free_in(order(FIRST), second);
  gp_stream_point_passed(&point);
  (void)stats(); /* drains */
  ck_assert_uint_eq(allocate_in(order(SECOND), BYTES), first);
  ck_assert_uint_ne(allocate_in(order(SECOND), BYTES), second);
  ck_assert_int_eq(free_code(apart), 0);
  stop();
}
END_TEST

/* "Callers must ensure that all accesses to these pointer have completed" (cuda.h at cuMemFree). */
START_TEST(test_a_free_without_a_stream_says_that_all_is_complete)
{
  start_type(_i);
  uint64_t address = allocate_in(order(FIRST), BYTES);
  (void)allocate(BYTES);
  ck_assert_int_eq(free_code(address), 0);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).live, 0);
  ck_assert_uint_eq(allocate_in(order(SECOND), BYTES), address);
  stop();
}
END_TEST

START_TEST(test_a_second_free_is_refused)
{
  start_type(_i);
  driver_free_t call = {.address = allocate_busy(FIRST, BYTES)};
  (void)allocate(BYTES);
  free_in(order(FIRST), call.address);
  ck_assert_int_eq(free_with(order(FIRST), &call), driver.ops.code_invalid_value);
  ck_assert_int_eq(call.calls, 0);
  stop();
}
END_TEST

/* An export closes the segment: no stream gets a part of it any more. */
START_TEST(test_an_exported_segment_is_nobodys)
{
  start_type(0);
  uint64_t address = allocate_busy(FIRST, BYTES), exported = allocate(BYTES);
  free_in(order(FIRST), address);
  gp_engine_taint(engine, exported);
  ck_assert(gp_engine_check(engine));
  ck_assert_uint_ne(allocate_in(order(FIRST), BYTES), address);
  uint64_t other = allocate_in(order(FIRST), BYTES);
  gp_engine_taint(engine, other);
  free_in(order(FIRST), other);
  ck_assert_uint_ne(allocate_in(order(FIRST), BYTES), other);
  stop();
}
END_TEST

START_TEST(test_a_trim_gives_back_what_is_whole)
{
  start_type(_i);
  free_in(order(FIRST), allocate_busy(FIRST, 64 * GP_MIB));
  gp_engine_async_trim(engine, context);
  ck_assert_uint_ge(driver.used, 64 * GP_MIB);
  fake_complete(&driver, 0);
  gp_engine_async_trim(engine, context);
  ck_assert_uint_eq(driver.used, 0);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).kept, 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("bound_parts");
  TCase *tests = tcase_create("bound_parts");
  tcase_add_loop_test(tests, test_memory_of_streams_is_cut, 0, TYPES);
  tcase_add_test(tests, test_a_stream_grows_the_pool_in_its_own_context);
  tcase_add_loop_test(tests, test_a_stream_has_its_neighbours_as_one_piece, 0, TYPES);
  tcase_add_loop_test(tests, test_nobody_else_has_them_before_the_device_is_done, 0, TYPES);
  tcase_add_loop_test(tests, test_what_is_done_is_joined_whatever_its_stream, 0, TYPES);
  tcase_add_loop_test(tests, test_what_the_statistics_say, 0, TYPES);
  tcase_add_loop_test(tests, test_the_smaller_piece_serves, 0, TYPES);
  tcase_add_loop_test(tests, test_a_stream_ends, 0, TYPES);
  tcase_add_loop_test(tests, test_a_context_ends, 0, TYPES);
  tcase_add_loop_test(tests, test_a_blocking_stream_has_an_operation_in_between, 0, TYPES);
  tcase_add_loop_test(tests, test_a_stream_that_waits_for_the_free_has_them, 0, TYPES);
  tcase_add_loop_test(tests, test_a_passed_point_makes_them_idle, 0, TYPES);
  tcase_add_loop_test(tests, test_a_free_without_a_stream_says_that_all_is_complete, 0, TYPES);
  tcase_add_loop_test(tests, test_a_second_free_is_refused, 0, TYPES);
  tcase_add_test(tests, test_an_exported_segment_is_nobodys);
  tcase_add_loop_test(tests, test_a_trim_gives_back_what_is_whole, 0, TYPES);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
