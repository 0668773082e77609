/*
 * A device that is full: a request gets memory whose stream-ordered free is pending, and its stream waits for
 * that free. Over the fake driver.
 */
#include "pool/engine_record.h"
#include "pool/reuse/wait_in_stream.h"
#include "test/pool/check_main.h"
#include "test/pool/async_fixture.h"

#define CAPACITY (64 * GP_MIB)
#define MOST     (40 * GP_MIB)

static gp_driver_ops_t fake_ops; /* as the fake driver has them */

static const char *const types[][2] = {{"GPUPOOL_TYPE=round", "GPUPOOL_ASYNC=plain"},
    {"GPUPOOL_TYPE=naive", "GPUPOOL_ASYNC=plain"}, {"GPUPOOL_TYPE=segment", "GPUPOOL_ASYNC=plain"},
    {"GPUPOOL_TYPE=vmm", "GPUPOOL_ASYNC=plain"}, {"GPUPOOL_TYPE=round", "GPUPOOL_ASYNC=pool"}};
#define TYPES   5
#define CUTTING 2 /* the first type that cuts */

static void start_full(int type, const char *setting)
{
  start_streams(
      (const char *const[]){types[type][0], types[type][1], "GPUPOOL_PATIENCE=0", setting, NULL}, CAPACITY);
}

/* Freed in the stream while its work is pending. */
static void free_pending(gp_stream_order_t in, uint64_t address)
{
  fake_submit_on(&driver, 0, address, 512);
  free_in(in, address);
}

/* Most of the device, freed in the first stream. */
static uint64_t leave_pending(void)
{
  uint64_t address = allocate_in(order(FIRST), MOST);
  free_pending(order(FIRST), address);
  return address;
}

static int refused_in(gp_stream_order_t in, uint64_t bytes)
{
  uint64_t address = 0;
  int code = -1;
  ck_assert(gp_engine_alloc_async(engine, &in, bytes, &address, &code));
  return code;
}

static int refuse_to_enter(void *self, const gp_driver_context_t *of, uint64_t stream, void **event)
{
  (void)self, (void)of, (void)stream, (void)event;
  return FAKE_NOT_READY;
}

static int refuse_to_wait(void *self, const gp_driver_context_t *of, uint64_t stream, void *event)
{
  (void)fake_ops.stream_wait(self, of, stream, event);
  return FAKE_NOT_READY;
}

/* Pooling stops meanwhile. */
static int refuse_at_the_end(void *self, const gp_driver_context_t *of, uint64_t stream, void *event)
{
  gp_engine_stop_pooling(engine);
  return refuse_to_wait(self, of, stream, event);
}

START_TEST(test_the_stream_waits_for_the_free)
{
  start_full(_i, NULL);
  uint64_t first = leave_pending(), position = driver.submitted[0];
  fake_submit_on(&driver, 0, 0, 512); /* behind the free */
  ck_assert_uint_eq(allocate_in(order(SECOND), MOST), first);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 1);
  ck_assert_uint_eq(driver.waiting, SECOND);
  ck_assert_uint_eq(driver.awaited, position); /* no later than the free */
  ck_assert_int_eq(driver.count[FAKE_WAIT] + driver.count[FAKE_WAIT_AS_FREE], 0);
  stop();
}
END_TEST

START_TEST(test_under_a_limit)
{
  start_streams(
      (const char *const[]){types[_i][0], types[_i][1], "GPUPOOL_PATIENCE=0", "GPUPOOL_LIMIT=64MiB", NULL},
      GP_GIB);
  uint64_t first = leave_pending();
  ck_assert_uint_eq(allocate_in(order(SECOND), MOST), first);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 1);
  stop();
}
END_TEST

/* What is free on the device serves first, and so does a stream of its own, which needs no wait. */
START_TEST(test_nothing_waits_while_there_is_memory)
{
  start_full(_i, NULL);
  uint64_t first = allocate_in(order(FIRST), 24 * GP_MIB);
  free_pending(order(FIRST), first);
  ck_assert_uint_ne(allocate_in(order(SECOND), 24 * GP_MIB), first);
  ck_assert_uint_eq(allocate_in(order(FIRST), 24 * GP_MIB), first);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 0);
  stop();
}
END_TEST

/* Idle memory would serve natively, so the driver would not wait: nor does the library. */
START_TEST(test_only_where_the_driver_would_be_short)
{
  start_full(_i, NULL);
  uint64_t idle[24];
  for (int i = 0; i < 24; i++)
    idle[i] = allocate_in(order(FIRST), GP_MIB + 1);
  uint64_t pending = allocate_in(order(FIRST), 12 * GP_MIB);
  for (int i = 0; i < 24; i++)
    free_in(order(FIRST), idle[i]);
  synchronize();
  free_pending(order(FIRST), pending);
  (void)refused_in(order(SECOND), 12 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 0);
  stop();
}
END_TEST

START_TEST(test_memory_of_malloc_never_serves_so)
{
  start_full(_i, NULL);
  driver_free_t call = {.address = allocate(52 * GP_MIB)};
  (void)allocate_in(order(FIRST), GP_MIB);
  ck_assert(gp_wait_in_stream_needs_events(&engine->devices[0]));
  fake_submit_on(&driver, 0, call.address, 512);
  ck_assert_int_eq(free_with(order(FIRST), &call), 0);
  ck_assert_int_ne(refused_in(order(SECOND), 52 * GP_MIB), 0);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 0);
  stop();
}
END_TEST

START_TEST(test_nothing_is_put_into_the_legacy_stream)
{
  start_full(_i, NULL);
  uint64_t first = leave_pending();
  ck_assert_int_ne(refused_in(order(GP_STREAM_LEGACY), MOST), 0);
  ck_assert_uint_eq(allocate_in(order(FIRST), MOST), first);
  fake_complete(&driver, 0);
  synchronize();
  free_pending(order(GP_STREAM_LEGACY), first);
  ck_assert_int_ne(refused_in(order(SECOND), MOST), 0);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 0);
  stop();
}
END_TEST

START_TEST(test_nothing_waits_during_a_capture)
{
  start_full(_i, NULL);
  gp_stream_order_t in = order(SECOND);
  uint64_t address;
  int code;
  (void)leave_pending();
  gp_suspension_t capture = gp_engine_suspend_in(engine, context, GP_REACH_NONE);
  ck_assert(!gp_engine_alloc_async(engine, &in, MOST, &address, &code)); /* the driver answers */
  gp_engine_resume_in(engine, &capture);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 0);
  stop();
}
END_TEST

/* A free from before the device was short has no event. */
START_TEST(test_a_free_without_an_event_does_not_serve)
{
  start_full(_i, NULL);
  uint64_t first = allocate_in(order(FIRST), MOST);
  driver.ops.enter_stream = refuse_to_enter;
  free_pending(order(FIRST), first);
  ck_assert_int_ne(refused_in(order(SECOND), MOST), 0);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 0);
  stop();
}
END_TEST

/* The memory goes back to the pool, and serves once its work is complete. */
START_TEST(test_a_wait_that_fails)
{
  start_full(_i, NULL);
  uint64_t first = leave_pending();
  fake_ops = driver.ops;
  driver.ops.stream_wait = refuse_to_wait;
  ck_assert_int_ne(refused_in(order(SECOND), MOST), 0);
  ck_assert_uint_eq(stats().allocation.current, 0);
  synchronize();
  ck_assert_uint_eq(allocate_in(order(SECOND), MOST), first);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 1);
  stop();
}
END_TEST

START_TEST(test_a_wait_that_fails_when_pooling_stops)
{
  start_full(_i, NULL);
  (void)leave_pending();
  fake_ops = driver.ops;
  driver.ops.stream_wait = refuse_at_the_end;
  ck_assert_int_ne(refused_in(order(SECOND), MOST), 0);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 1);
  ck_assert_uint_eq(stats().allocation.current, 0);
  stop();
}
END_TEST

/* What another owner has had since is no longer the old free's. */
START_TEST(test_the_event_ends_with_the_next_owner)
{
  start_full(_i, NULL);
  uint64_t first = leave_pending();
  ck_assert_uint_eq(allocate_in(order(FIRST), MOST), first);
  driver.ops.enter_stream = refuse_to_enter;
  free_pending(order(FIRST), first);
  ck_assert_int_ne(refused_in(order(SECOND), MOST), 0);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 0);
  stop();
}
END_TEST

/* Its owner frees it without having used it. The stream still waits for the first one. */
START_TEST(test_a_free_by_the_host_proves_nothing_of_the_earlier_owner)
{
  start_full(_i, NULL);
  uint64_t first = leave_pending();
  ck_assert_uint_eq(allocate_in(order(SECOND), MOST), first);
  ck_assert_int_eq(free_code(first), 0);
  uint64_t address = 0;
  ck_assert_int_ne(gp_engine_alloc(engine, context, MOST, &address), 0);
  synchronize();
  ck_assert_uint_eq(allocate_in(order(FIRST), MOST), first);
  stop();
}
END_TEST

/* Two frees of two streams, next to each other: a request for both waits for both. */
START_TEST(test_pieces_of_several_streams_serve_together)
{
  start_full(_i, NULL);
  gp_stream_record_begin(engine, context, 0x3000, false);
  uint64_t all = allocate_in(order(FIRST), 60 * GP_MIB);
  free_in(order(FIRST), all);
  synchronize();
  uint64_t low = allocate_in(order(FIRST), 30 * GP_MIB), high = allocate_in(order(SECOND), 30 * GP_MIB);
  ck_assert_uint_eq(low, all);
  ck_assert_uint_eq(high, all + 30 * GP_MIB);
  free_pending(order(FIRST), low);
  free_pending(order(SECOND), high);
  ck_assert_uint_eq(allocate_in(order(0x3000), 45 * GP_MIB), all);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 2);
  ck_assert_uint_eq(driver.waiting, 0x3000);
  /* The rest is still the second stream's. */
  ck_assert_uint_eq(allocate_in(order(SECOND), 15 * GP_MIB), all + 45 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 2);
  stop();
}
END_TEST

/* Frees of one stream join. A request for the older one's bytes waits for that one only: work between them
 * may wait for the request. */
START_TEST(test_a_joined_part_keeps_each_event)
{
  start_full(_i, NULL);
  uint64_t all = allocate_in(order(FIRST), 60 * GP_MIB);
  free_in(order(FIRST), all);
  synchronize();
  uint64_t low = allocate_in(order(FIRST), 30 * GP_MIB), high = allocate_in(order(FIRST), 30 * GP_MIB);
  free_pending(order(FIRST), low);
  uint64_t position = driver.submitted[0];
  free_pending(order(FIRST), high);
  ck_assert_uint_eq(allocate_in(order(SECOND), 30 * GP_MIB), low);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 1);
  ck_assert_uint_eq(driver.awaited, position);
  ck_assert_uint_eq(allocate_in(order(SECOND), 30 * GP_MIB), high);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 2);
  ck_assert_uint_gt(driver.awaited, position);
  stop();
}
END_TEST

/* Its memory waits for the event of the free, not for whoever had the stream. */
START_TEST(test_the_stream_of_the_free_has_ended)
{
  start_full(_i, NULL);
  uint64_t first = leave_pending();
  gp_stream_record_end(engine, FIRST);
  ck_assert_uint_eq(allocate_in(order(SECOND), 30 * GP_MIB), first);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 1);
  if (_i >= CUTTING) {
    (void)allocate_in(order(SECOND), 24 * GP_MIB);
    ck_assert_uint_eq(allocate_in(order(SECOND), 10 * GP_MIB), first + 30 * GP_MIB);
    ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 2);
  }
  stop();
}
END_TEST

START_TEST(test_events_are_used_again)
{
  start_full(_i, NULL);
  for (int i = 0; i < 100; i++) {
    gp_stream_order_t in = order(i % 2 ? FIRST : SECOND);
    uint64_t address = allocate_in(in, MOST);
    free_pending(in, address);
  }
  ck_assert_uint_le(context->event_count, 2);
  fake_complete(&driver, 0);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(context->event_count, 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("wait_in_stream");
  TCase *tests = tcase_create("wait_in_stream");
  tcase_add_loop_test(tests, test_the_stream_waits_for_the_free, 0, TYPES);
  tcase_add_loop_test(tests, test_under_a_limit, 0, TYPES);
  tcase_add_loop_test(tests, test_nothing_waits_while_there_is_memory, 0, TYPES);
  tcase_add_loop_test(tests, test_only_where_the_driver_would_be_short, 0, TYPES);
  tcase_add_loop_test(tests, test_memory_of_malloc_never_serves_so, 0, TYPES);
  tcase_add_loop_test(tests, test_nothing_is_put_into_the_legacy_stream, 0, TYPES);
  tcase_add_loop_test(tests, test_nothing_waits_during_a_capture, 0, TYPES);
  tcase_add_loop_test(tests, test_a_free_without_an_event_does_not_serve, 0, TYPES);
  tcase_add_loop_test(tests, test_a_wait_that_fails, 0, TYPES);
  tcase_add_loop_test(tests, test_a_wait_that_fails_when_pooling_stops, 0, TYPES);
  tcase_add_loop_test(tests, test_the_event_ends_with_the_next_owner, 0, TYPES);
  tcase_add_loop_test(tests, test_a_free_by_the_host_proves_nothing_of_the_earlier_owner, 0, TYPES);
  tcase_add_loop_test(tests, test_pieces_of_several_streams_serve_together, CUTTING, TYPES);
  tcase_add_loop_test(tests, test_a_joined_part_keeps_each_event, CUTTING, TYPES);
  tcase_add_loop_test(tests, test_the_stream_of_the_free_has_ended, 0, TYPES);
  tcase_add_loop_test(tests, test_events_are_used_again, 0, TYPES);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
