/*
 * Stream-ordered memory beside stream captures, in streams that are not captured: the pool serves it from
 * what it has, whomever the capture reaches, and puts nothing into a stream.
 */
#include "test/pool/check_main.h"
#define BYTES (UINT64_C(2) << 20) /* whole chunks of mapped memory: none has an idle rest */
#include "test/pool/async_fixture.h"

#define BLOCKING UINT64_C(0x3000)
#define UNSEEN   UINT64_C(0x4000)

static gp_suspension_t capture;
static long calls;

static void begin(gp_reach_t reach)
{
  capture = gp_engine_suspend_in(engine, context, reach);
  calls = driver.calls;
}

static void end(void)
{
  gp_engine_resume_in(engine, &capture);
}

static bool serves(gp_stream_order_t in, uint64_t bytes, uint64_t *ret_address)
{
  int code = -1;
  bool served = gp_engine_alloc_async(engine, &in, bytes, ret_address, &code);
  ck_assert(!served || code == 0);
  return served;
}

static const gp_reach_t reaches[] = {GP_REACH_NONE, GP_REACH_THREAD, GP_REACH_THREADS};

/* Its own memory, although the device is not done with it. */
START_TEST(test_a_stream_has_its_memory_again)
{
  start_streams(NULL, GP_GIB);
  uint64_t address = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), address);
  begin(reaches[_i]);
  for (int i = 0; i < 3; i++) {
    ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
    free_in(order(FIRST), address);
  }
  ck_assert_int_eq(driver.calls, calls);
  end();
  stop();
}
END_TEST

START_TEST(test_another_stream_has_what_is_complete)
{
  uint64_t address, got;

  start_streams(NULL, GP_GIB);
  address = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), address);
  begin(GP_REACH_THREADS);
  ck_assert(!serves(order(SECOND), BYTES, &got));
  end();
  synchronize();
  begin(GP_REACH_THREADS);
  ck_assert(serves(order(SECOND), BYTES, &got));
  ck_assert_uint_eq(got, address);
  ck_assert(!serves(order(SECOND), BYTES, &got)); /* a miss */
  ck_assert_int_eq(driver.calls, calls);
  end();
  stop();
}
END_TEST

START_TEST(test_where_nothing_is_known_nothing_is_served)
{
  uint64_t address;

  start_streams(NULL, GP_GIB);
  free_in(order(FIRST), allocate_in(order(FIRST), BYTES));
  begin(GP_REACH_EVERYTHING);
  ck_assert(!gp_engine_serves_async(engine));
  ck_assert(!serves(order(FIRST), BYTES, &address));
  end();
  ck_assert(gp_engine_serves_async(engine));
  stop();
}
END_TEST

/* Between the free and the next use an operation has to enter the stream, which waits
 * for the capture's end. */
START_TEST(test_nothing_enters_a_blocking_stream)
{
  uint64_t address, got;

  start_streams(NULL, GP_GIB);
  gp_stream_record_begin(engine, context, BLOCKING, true);
  address = allocate_in(order(BLOCKING), BYTES);
  begin(GP_REACH_NONE);
  free_in(order(BLOCKING), address);
  ck_assert(!serves(order(BLOCKING), BYTES, &got));
  ck_assert_int_eq(driver.calls, calls);
  end();
  ck_assert_uint_eq(allocate_in(order(BLOCKING), BYTES), address);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  stop();
}
END_TEST

/* In the legacy stream the two calls order others, and in an unknown one nothing can be kept in order: a free
 * takes its place in the stream by the hook's operation. */
START_TEST(test_what_needs_a_call_is_forwarded)
{
  static const uint64_t streams[] = {GP_STREAM_LEGACY, UNSEEN};
  uint64_t address;

  start_streams(NULL, GP_GIB);
  gp_stream_record_begin(engine, context, BLOCKING, true);
  gp_stream_order_t in = order(streams[_i]);
  driver_free_t call = {.address = allocate_in(in, BYTES)};
  free_in(order(FIRST), allocate_in(order(FIRST), BYTES));
  synchronize();
  begin(GP_REACH_NONE);
  ck_assert(!serves(in, BYTES, &address));
  ck_assert_int_eq(driver.calls, calls);
  ck_assert_int_eq(free_with(in, &call), 0);
  ck_assert_int_eq(call.calls, 1);
  ck_assert_int_eq(call.places, 1);
  ck_assert_int_eq(gp_engine_owner(engine, call.address), GP_OWNER_POOL);
  end();
  stop();
}
END_TEST

/* A launch that overlaps the one before it, after memory was handed on: an operation comes in between, as the
 * launch does, unless that is captured. */
START_TEST(test_an_early_launch_has_its_operation)
{
  start_streams(NULL, GP_GIB);
  uint64_t address = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), address);
  begin(GP_REACH_THREADS);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  gp_stream_record_prevent_overlap(engine, order(FIRST).stream_record, true);
  ck_assert_int_eq(driver.calls, calls);
  gp_stream_record_prevent_overlap(engine, order(FIRST).stream_record, false);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  ck_assert_uint_eq(driver.entered, FIRST);
  gp_stream_record_prevent_overlap(engine, order(FIRST).stream_record, false);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  end();
  stop();
}
END_TEST

/* Memory of cudaMalloc, too, which stays in the pool; the hook puts an operation into the stream. */
START_TEST(test_plain_memory_is_kept)
{
  start_streams(NULL, GP_GIB);
  driver_free_t call = {.address = allocate(GP_KIB)};
  begin(GP_REACH_THREADS);
  ck_assert_int_eq(free_with(order(FIRST), &call), 0);
  ck_assert_int_eq(call.calls, 1);
  ck_assert_int_eq(call.places, 1);
  end();
  synchronize();
  ck_assert_uint_eq(allocate(GP_KIB), call.address);
  stop();
}
END_TEST

START_TEST(test_much_memory_goes_back)
{
  start_streams(WHOLE, 16 * GP_GIB);
  driver_free_t much = {.address = allocate_in(order(FIRST), 256 * GP_MIB)}; /* a 64th of the device */
  uint64_t little = allocate_in(order(FIRST), GP_MIB);
  begin(GP_REACH_THREADS);
  ck_assert_int_eq(free_with(order(FIRST), &much), 0);
  ck_assert_int_eq(much.calls, 1);
  ck_assert_int_eq(much.places, 0);
  free_in(order(FIRST), little);
  end();
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("during_capture_async");
  TCase *tests = tcase_create("captures");
  tcase_add_loop_test(tests, test_a_stream_has_its_memory_again, 0, (int)(sizeof reaches / sizeof *reaches));
  tcase_add_test(tests, test_another_stream_has_what_is_complete);
  tcase_add_test(tests, test_where_nothing_is_known_nothing_is_served);
  tcase_add_test(tests, test_nothing_enters_a_blocking_stream);
  tcase_add_loop_test(tests, test_what_needs_a_call_is_forwarded, 0, 2);
  tcase_add_test(tests, test_an_early_launch_has_its_operation);
  tcase_add_test(tests, test_plain_memory_is_kept);
  tcase_add_test(tests, test_much_memory_goes_back);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
