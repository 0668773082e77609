/*
 * Stream-ordered memory of the pool beside everything else: other frees, captures, limits, out of memory,
 * what the program may ask of the driver's pool. When it may be used again: reuse/check_stream_records.c.
 * Over the fake driver.
 */
#include "pool/engine_record.h"
#include "test/pool/check_main.h"
#define BYTES (UINT64_C(2) << 20) /* whole chunks of mapped memory: none has an idle rest */
#include "test/pool/async_fixture.h"

START_TEST(test_an_option_leaves_it_to_the_driver)
{
  start_streams((const char *const[]){"GPUPOOL_ASYNC=driver", NULL}, GP_GIB);
  gp_stream_order_t in = order(FIRST);
  uint64_t address;
  int code;
  ck_assert_ptr_null(in.stream_record);
  ck_assert(!gp_engine_serves_async(engine));
  ck_assert(!gp_engine_alloc_async(engine, &in, BYTES, &address, &code));
  stop();
}
END_TEST

START_TEST(test_types_without_a_pool_leave_it_to_the_driver)
{
  start_streams((const char *const[]){"GPUPOOL_TYPE=unpooled", NULL}, GP_GIB);
  ck_assert(!gp_engine_serves_async(engine));
  stop();
}
END_TEST

START_TEST(test_types_of_whole_blocks_map_memory)
{
  static const char *const types[] = {"GPUPOOL_TYPE=round", "GPUPOOL_TYPE=naive"};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    start_streams((const char *const[]){types[i], NULL}, GP_GIB);
    uint64_t plain = allocate(BYTES);
    uint64_t address = allocate_in(order(FIRST), 3 * BYTES);
    ck_assert_int_eq(driver.count[FAKE_ALLOC] + driver.count[FAKE_ALLOC_IN], 1); /* the plain one */
    ck_assert(fake_may_use(&driver, address, 3 * BYTES, 0));
    free_in(order(FIRST), address);
    ck_assert_uint_eq(allocate_in(order(FIRST), 3 * BYTES), address);
    ck_assert_int_eq(free_code(plain), 0);
    stop();
  }
}
END_TEST

START_TEST(test_the_two_kinds_stay_apart)
{
  start_streams(NULL, GP_GIB);
  uint64_t plain = allocate(BYTES);
  uint64_t async_context = allocate_in(order(FIRST), BYTES);
  ck_assert_int_eq(free_code(plain), 0);
  free_in(order(FIRST), async_context);
  synchronize();
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), async_context);
  ck_assert_uint_eq(allocate(BYTES), plain);
  stop();
}
END_TEST

/* cudaFreeAsync of cudaMalloc's memory: it stays, and waits for the facts. */
START_TEST(test_plain_memory_freed_in_order)
{
  start_streams(NULL, GP_GIB);
  driver_free_t call = {.address = allocate(BYTES)};
  fake_submit(&driver, 0, call.address);
  ck_assert_int_eq(free_with(order(FIRST), &call), 0);
  ck_assert_int_eq(call.places, 1);
  ck_assert_int_eq(call.calls, 1);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  ck_assert_uint_ne(allocate(BYTES), call.address);
  synchronize();
  ck_assert_uint_eq(allocate(BYTES), call.address);
  stop();
}
END_TEST

START_TEST(test_plain_memory_whose_stream_refuses_stays_the_programs)
{
  start_streams(NULL, GP_GIB);
  driver_free_t call = {.address = allocate(BYTES), .code = FAKE_INVALID_VALUE};
  ck_assert_int_eq(free_with(order(FIRST), &call), FAKE_INVALID_VALUE);
  ck_assert_int_eq(gp_engine_owner(engine, call.address), GP_OWNER_PROGRAM);
  ck_assert_int_eq(free_code(call.address), 0);
  stop();
}
END_TEST

START_TEST(test_a_second_free_is_refused)
{
  start_streams(NULL, GP_GIB);
  driver_free_t call = {.address = allocate_in(order(FIRST), BYTES)};
  ck_assert_int_eq(free_with(order(FIRST), &call), 0);
  ck_assert_int_eq(free_with(order(FIRST), &call), FAKE_INVALID_VALUE);
  ck_assert_int_eq(free_code(call.address), FAKE_INVALID_VALUE);
  ck_assert_int_eq(call.calls, 0);
  stop();
}
END_TEST

/* Whatever the device does: cudaFree of such memory promises that its uses are over. */
START_TEST(test_what_the_host_frees_is_complete)
{
  static const char *const settings[][2] = {
      {NULL}, {"GPUPOOL_ASYNC=plain", NULL}, {"GPUPOOL_REUSE=strict", NULL}};
  start_streams(settings[_i], GP_GIB);
  uint64_t other = allocate_in(order(FIRST), 3 * BYTES), address = allocate_in(order(FIRST), BYTES);
  fake_submit_on(&driver, 0, other, BYTES);
  ck_assert_int_eq(free_code(address), 0);
  ck_assert_int_eq(driver.count[FAKE_WAIT] + driver.count[FAKE_RECORD], 0);
  ck_assert_uint_eq(allocate_in(order(SECOND), BYTES), address);
  driver_free_t call = {.address = address}; /* not so what a stream frees that is not known */
  gp_stream_order_t unknown = {.context = context, .stream = 0x3000};
  ck_assert_int_eq(free_with(unknown, &call), 0);
  ck_assert_uint_ne(allocate_in(order(SECOND), BYTES), address);
  ck_assert(gp_engine_check(engine));
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_a_holder_keeps_it)
{
  start_streams(NULL, GP_GIB);
  uint64_t address = allocate_in(order(FIRST), BYTES);
  fake_submit_on(&driver, 0, address, BYTES);
  ck_assert(gp_engine_retain(engine, address));
  free_in(order(FIRST), address);
  ck_assert_uint_ne(allocate_in(order(FIRST), BYTES), address);
  ck_assert(gp_engine_release(engine, address));
  ck_assert_uint_ne(allocate_in(order(FIRST), BYTES), address); /* a release has no stream */
  synchronize();
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  stop();
}
END_TEST

/* During captures the pool maps no memory. */
START_TEST(test_during_a_capture_a_miss_is_forwarded)
{
  start_streams(NULL, GP_GIB);
  uint64_t kept = allocate_in(order(FIRST), BYTES), address;
  int code;
  gp_engine_suspend(engine);
  gp_stream_order_t in = order(FIRST);
  long calls = driver.calls;
  ck_assert(!gp_engine_alloc_async(engine, &in, 64 * BYTES, &address, &code));
  free_in(in, kept);
  ck_assert_int_eq(gp_engine_owner(engine, kept), GP_OWNER_POOL);
  ck_assert_int_eq(driver.calls, calls);
  gp_engine_resume(engine);
  stop();
}
END_TEST

START_TEST(test_what_the_program_may_ask)
{
  start_streams(NULL, GP_GIB);
  uint64_t first = allocate_in(order(FIRST), BYTES);
  uint64_t second = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), first);
  gp_async_use_t use = gp_engine_async_use(engine, 0);
  ck_assert_uint_eq(use.live, BYTES);
  ck_assert_uint_eq(use.kept, BYTES);
  ck_assert_uint_eq(use.peak, 2 * BYTES);
  gp_engine_async_reset_peak(engine, 0, false);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).peak, BYTES);
  free_in(order(FIRST), second);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).peak, BYTES);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).live, 0);
  stop();
}
END_TEST

START_TEST(test_a_trim_gives_back_what_is_complete)
{
  start_streams(NULL, GP_GIB);
  uint64_t plain = allocate(BYTES);
  uint64_t first = allocate_in(order(FIRST), BYTES);
  ck_assert_int_eq(free_code(plain), 0);
  fake_submit_on(&driver, 0, first, BYTES);
  free_in(order(FIRST), first);
  long unmapped = driver.count[FAKE_UNMAP];
  gp_engine_async_trim(engine, context);
  ck_assert_uint_ge(gp_engine_async_use(engine, 0).kept, BYTES);
  fake_complete(&driver, 0);
  gp_engine_async_trim(engine, context);
  ck_assert_int_gt(driver.count[FAKE_UNMAP], unmapped);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0); /* the plain one stays */
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).kept, 0);
  ck_assert_int_eq(driver.count[FAKE_WAIT] + driver.count[FAKE_WAIT_AS_FREE], 0);
  stop();
}
END_TEST

/* Before 12.5 only streams prove that work is complete. */
START_TEST(test_a_trim_without_fences_goes_by_the_stream)
{
  start(NULL, GP_GIB, false);
  gp_stream_record_begin(engine, context, FIRST, false);
  uint64_t freed = allocate_in(order(FIRST), BYTES);
  uint64_t unordered = allocate_in(order(FIRST), BYTES);
  uint64_t own = allocate_in(order(GP_STREAM_PER_THREAD), BYTES);
  fake_submit_on(&driver, 0, freed, BYTES);
  free_in(order(FIRST), freed);
  free_in(
      (gp_stream_order_t){.context = context, .stream = 0x3000}, unordered); /* a stream that is not known */
  free_in(order(GP_STREAM_PER_THREAD), own);
  gp_engine_async_trim(engine, context);
  ck_assert_uint_eq(driver.used, 3 * BYTES);
  fake_complete(&driver, 0);
  gp_engine_async_trim(engine, context);
  ck_assert_uint_eq(driver.used, BYTES);
  synchronize();
  gp_engine_async_trim(engine, context);
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

/* Before 12.5, of a program that frees in another stream than it allocates in, and never synchronizes. */
START_TEST(test_without_fences_streams_are_asked_before_the_pool_grows)
{
  start(NULL, GP_GIB, false);
  gp_stream_record_begin(engine, context, FIRST, false);
  gp_stream_record_begin(engine, context, SECOND, false);
  for (int i = 0; i < 40; i++) {
    uint64_t block = allocate_in(order(FIRST), 16 * GP_MIB);
    fake_submit_on(&driver, 0, block, BYTES);
    free_in(order(SECOND), block);
    fake_complete(&driver, 0);
  }
  ck_assert_uint_le(driver.peak, 80 * GP_MIB); /* the bound is 32 MiB at least */
  stop();
}
END_TEST

/* An operation that comes now would put a blocking stream behind others, and others behind it: none comes,
 * but its answer that it has no work counts. */
START_TEST(test_a_trim_asks_blocking_streams)
{
  const uint64_t streams[] = {FIRST, SECOND, GP_STREAM_LEGACY};

  start(NULL, GP_GIB, false);
  gp_stream_record_begin(engine, context, FIRST, false);
  gp_stream_record_begin(engine, context, SECOND, true);
  for (int i = 0; i < 3; i++) {
    free_in(order(streams[i]), allocate_in(order(streams[i]), BYTES));
    gp_engine_async_trim(engine, context);
    ck_assert_uint_eq(driver.used, 0);
  }
  for (int i = 1; i < 3; i++) {
    uint64_t block = allocate_in(order(streams[i]), BYTES);
    fake_submit_on(&driver, 0, block, BYTES);
    free_in(order(streams[i]), block);
  }
  gp_engine_async_trim(engine, context);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).kept, 2 * BYTES);
  fake_complete(&driver, 0);
  gp_engine_async_trim(engine, context);
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

/* Its free came without an operation, which failed: what its stream answers tells nothing of what it would
 * have waited for. */
START_TEST(test_a_blocking_stream_tells_of_frees_with_an_operation)
{
  start(NULL, GP_GIB, false);
  gp_stream_record_begin(engine, context, SECOND, true);
  uint64_t block = allocate_in(order(SECOND), BYTES);
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_INVALID_VALUE;
  free_in(order(SECOND), block);
  ck_assert_int_eq(driver.fail_at, driver.calls);
  gp_engine_async_trim(engine, context);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).kept, BYTES);
  stop();
}
END_TEST

START_TEST(test_the_last_context_leaves_nothing_behind)
{
  start_streams(NULL, GP_GIB);
  const gp_driver_context_t second = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &second);
  free_in(order(FIRST), allocate_in(order(FIRST), BYTES));
  gp_engine_async_leave(engine, NULL);
  gp_engine_async_leave(engine, other);
  ck_assert_uint_eq(driver.used, BYTES);
  gp_engine_context_lost(engine, other);
  gp_engine_async_leave(engine, context);
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

START_TEST(test_the_limit_counts_both_kinds)
{
  start_streams((const char *const[]){"GPUPOOL_LIMIT=96MiB", NULL}, GP_GIB);
  gp_stream_order_t in = order(FIRST);
  uint64_t plain = allocate(48 * GP_MIB);
  uint64_t address = allocate_in(in, 16 * GP_MIB);
  uint64_t other;
  ck_assert_int_eq(gp_engine_alloc(engine, context, 40 * GP_MIB, &other), FAKE_OUT_OF_MEMORY);
  ck_assert_int_eq(free_code(plain), 0);
  synchronize();
  (void)allocate(40 * GP_MIB); /* what was kept makes room */
  free_in(in, address);
  stop();
}
END_TEST

/* Its driver's free might wait for the device. */
START_TEST(test_under_a_limit_idle_memory_of_malloc_serves)
{
  start_streams((const char *const[]){"GPUPOOL_LIMIT=64MiB", "GPUPOOL_PATIENCE=0", NULL}, GP_GIB);
  uint64_t busy = allocate_in(order(SECOND), BYTES), plain = allocate(48 * GP_MIB);
  ck_assert_int_eq(free_code(plain), 0);
  synchronize();
  fake_submit_on(&driver, 0, busy, BYTES);
  uint64_t address = allocate_in(order(FIRST), 48 * GP_MIB);
  ck_assert_uint_eq(address, plain);
  free_in(order(FIRST), address);
  ck_assert(gp_engine_check(engine));
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_each_kind_makes_room_for_the_other)
{
  start_streams((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, 64 * GP_MIB);
  uint64_t plain = allocate(48 * GP_MIB);
  ck_assert_int_eq(free_code(plain), 0);
  synchronize();
  uint64_t async_context = allocate_in(order(FIRST), 40 * GP_MIB);
  free_in(order(FIRST), async_context);
  synchronize();
  (void)allocate(48 * GP_MIB);
  ck_assert_uint_eq(driver.used, 48 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_memory_that_nobody_uses_goes_back)
{
  start_streams((const char *const[]){"GPUPOOL_MAX_CACHED=0", NULL}, GP_GIB);
  uint64_t first = allocate_in(order(FIRST), BYTES);
  uint64_t second = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), first);
  synchronize();
  ck_assert_uint_eq(driver.used, BYTES);
  free_in(order(SECOND), second);
  synchronize();
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

/* As the driver's own pool does whose release threshold is 0. */
START_TEST(test_a_synchronization_of_its_stream_gives_back)
{
  start_streams((const char *const[]){"GPUPOOL_MAX_CACHED=0", NULL}, GP_GIB);
  uint64_t busy = allocate_in(order(SECOND), BYTES), freed = allocate_in(order(FIRST), BYTES);
  fake_submit_on(&driver, 0, busy, BYTES);
  free_in(order(FIRST), freed);
  ck_assert_uint_eq(driver.used, 2 * BYTES);
  gp_stream_point_t none = gp_stream_record_point(NULL, false),
                    point = gp_stream_record_point(order(FIRST).stream_record, false);
  gp_engine_stream_passed(engine, &none);
  ck_assert_uint_eq(driver.used, 2 * BYTES);
  gp_engine_stream_passed(engine, &point);
  ck_assert_uint_eq(driver.used, BYTES);
  ck_assert_int_eq(driver.count[FAKE_WAIT] + driver.count[FAKE_WAIT_AS_FREE], 0);
  stop();
}
END_TEST

/* A program that synchronizes streams only: the free in order finds what fences have shown. */
START_TEST(test_a_free_in_order_gives_back_too)
{
  start_streams((const char *const[]){"GPUPOOL_IDLE_RELEASE=1", NULL}, GP_GIB);
  uint64_t first = allocate_in(order(FIRST), BYTES);
  (void)allocate_in(order(FIRST), BYTES);
  uint64_t second = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), first);
  synchronize();
  driver.now_ns += 3 * UINT64_C(1000000000);
  free_in(order(FIRST), second); /* moves the first into what is idle */
  driver.now_ns += 3 * UINT64_C(1000000000);
  long unmapped = driver.count[FAKE_UNMAP];
  uint64_t third = allocate_in(order(SECOND), 4 * BYTES);
  free_in(order(SECOND), third);
  ck_assert_int_gt(driver.count[FAKE_UNMAP], unmapped);
  stop();
}
END_TEST

/* The same of cut memory. */
START_TEST(test_parts_that_serve_their_stream_are_no_use)
{
  start_streams((const char *const[]){"GPUPOOL_TYPE=segment", "GPUPOOL_RESERVE=0", NULL}, GP_GIB);
  uint64_t first = allocate_in(order(FIRST), 100 * GP_MIB);
  (void)allocate_in(order(FIRST), 100 * GP_MIB);
  fake_submit_on(&driver, 0, first, BYTES);
  free_in(order(FIRST), first);
  (void)allocate_in(order(SECOND), 100 * GP_MIB);
  ck_assert_uint_eq(engine->devices[0].bound_bytes, 100 * GP_MIB);
  ck_assert_uint_eq(engine->devices[0].highest_parts, 200 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_the_driver_has_no_memory)
{
  start_streams(NULL, 8 * GP_MIB);
  gp_stream_order_t in = order(FIRST);
  uint64_t address = 7;
  int code = 0;
  (void)allocate_in(in, 6 * GP_MIB);
  ck_assert(gp_engine_alloc_async(engine, &in, 6 * GP_MIB, &address, &code));
  ck_assert_int_eq(code, FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(address, 7);
  ck_assert_uint_eq(stats().num_ooms, 1);
  stop();
}
END_TEST

START_TEST(test_no_bytes_and_too_many_are_the_drivers_to_refuse)
{
  start_streams(NULL, GP_GIB);
  gp_stream_order_t in = order(FIRST);
  uint64_t address;
  int code;
  ck_assert(!gp_engine_alloc_async(engine, &in, 0, &address, &code));
  ck_assert(!gp_engine_alloc_async(engine, &in, UINT64_MAX - 1, &address, &code));
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stream_ordered");
  TCase *tests = tcase_create("stream_ordered");
  tcase_add_test(tests, test_an_option_leaves_it_to_the_driver);
  tcase_add_test(tests, test_types_without_a_pool_leave_it_to_the_driver);
  tcase_add_test(tests, test_types_of_whole_blocks_map_memory);
  tcase_add_test(tests, test_the_two_kinds_stay_apart);
  tcase_add_test(tests, test_plain_memory_freed_in_order);
  tcase_add_test(tests, test_plain_memory_whose_stream_refuses_stays_the_programs);
  tcase_add_test(tests, test_a_second_free_is_refused);
  tcase_add_loop_test(tests, test_what_the_host_frees_is_complete, 0, 3);
  tcase_add_test(tests, test_a_holder_keeps_it);
  tcase_add_test(tests, test_during_a_capture_a_miss_is_forwarded);
  tcase_add_test(tests, test_what_the_program_may_ask);
  tcase_add_test(tests, test_a_trim_gives_back_what_is_complete);
  tcase_add_test(tests, test_a_trim_without_fences_goes_by_the_stream);
  tcase_add_test(tests, test_without_fences_streams_are_asked_before_the_pool_grows);
  tcase_add_test(tests, test_a_trim_asks_blocking_streams);
  tcase_add_test(tests, test_a_blocking_stream_tells_of_frees_with_an_operation);
  tcase_add_test(tests, test_the_last_context_leaves_nothing_behind);
  tcase_add_test(tests, test_the_limit_counts_both_kinds);
  tcase_add_test(tests, test_under_a_limit_idle_memory_of_malloc_serves);
  tcase_add_test(tests, test_each_kind_makes_room_for_the_other);
  tcase_add_test(tests, test_memory_that_nobody_uses_goes_back);
  tcase_add_test(tests, test_a_synchronization_of_its_stream_gives_back);
  tcase_add_test(tests, test_a_free_in_order_gives_back_too);
  tcase_add_test(tests, test_parts_that_serve_their_stream_are_no_use);
  tcase_add_test(tests, test_the_driver_has_no_memory);
  tcase_add_test(tests, test_no_bytes_and_too_many_are_the_drivers_to_refuse);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
