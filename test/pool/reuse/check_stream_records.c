/*
 * Memory that was freed in the order of a stream is used there again at once, and nowhere else before its
 * facts: each condition of pool/reuse/stream_records.h. Over the fake driver; its work is never complete
 * unless a test says so.
 */
#include <pthread.h>

#include "test/pool/check_main.h"
#include "test/pool/async_fixture.h"

/* Allocated in one stream, given work that does not end, and freed in another. */
static uint64_t used_and_freed(gp_stream_order_t in, gp_stream_order_t freed_in)
{
  uint64_t address = allocate_in(in, BYTES);
  fake_submit(&driver, 0, address);
  free_in(freed_in, address);
  return address;
}

START_TEST(test_the_same_stream_gets_it_at_once)
{
  start_streams(WHOLE, GP_GIB);
  uint64_t address = used_and_freed(order(FIRST), order(FIRST));
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  ck_assert_int_eq(driver.count[FAKE_ALLOC_IN], 1);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 0);
  ck_assert_uint_eq(stats().cache_hits, 1);
  stop();
}
END_TEST

START_TEST(test_another_stream_waits_for_all_work)
{
  start_streams(WHOLE, GP_GIB);
  uint64_t address = used_and_freed(order(FIRST), order(FIRST));
  uint64_t other = allocate_in(order(SECOND), BYTES);
  ck_assert_uint_ne(other, address);
  synchronize();
  ck_assert_uint_eq(allocate_in(order(SECOND), BYTES), address);
  stop();
}
END_TEST

START_TEST(test_the_stream_of_the_free_counts)
{
  start_streams(WHOLE, GP_GIB);
  uint64_t address = used_and_freed(order(FIRST), order(SECOND));
  ck_assert_uint_ne(allocate_in(order(FIRST), BYTES), address);
  ck_assert_uint_eq(allocate_in(order(SECOND), BYTES), address);
  stop();
}
END_TEST

START_TEST(test_a_stream_without_a_record_has_only_proofs)
{
  start(WHOLE, GP_GIB, true);
  gp_stream_order_t unknown = order(FIRST);
  ck_assert_ptr_null(unknown.stream_record);
  uint64_t address = used_and_freed(unknown, unknown);
  ck_assert_uint_ne(allocate_in(unknown, BYTES), address);
  synchronize();
  ck_assert_uint_eq(allocate_in(unknown, BYTES), address);
  stop();
}
END_TEST

START_TEST(test_another_stream_of_the_same_handle)
{
  start_streams(WHOLE, GP_GIB);
  uint64_t address = used_and_freed(order(FIRST), order(FIRST));
  gp_stream_record_end(engine, FIRST);
  ck_assert_ptr_null(order(FIRST).stream_record);
  gp_stream_record_begin(engine, context, FIRST, false);
  ck_assert_uint_ne(allocate_in(order(FIRST), BYTES), address);
  synchronize(); /* it was not lost with the stream */
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  stop();
}
END_TEST

/* The end of the first one was not seen. */
START_TEST(test_a_handle_that_comes_again)
{
  start_streams(WHOLE, GP_GIB);
  uint64_t address = used_and_freed(order(FIRST), order(FIRST));
  gp_stream_record_begin(engine, context, FIRST, false);
  ck_assert_uint_ne(allocate_in(order(FIRST), BYTES), address);
  stop();
}
END_TEST

START_TEST(test_the_end_of_a_context_ends_its_streams)
{
  start_streams(NULL, GP_GIB); /* mapped memory, which outlives contexts */
  const gp_driver_context_t second = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &second);
  gp_stream_record_begin(engine, other, 0x3000, false);
  gp_stream_order_t in = order(0x3000);
  in.context = other;
  uint64_t live = allocate_in(in, BYTES), address = allocate_in(in, BYTES);
  fake_submit_on(&driver, 0, address, BYTES);
  free_in(in, address);
  gp_engine_context_lost(engine, other);
  ck_assert_ptr_null(gp_stream_record_of(engine, 0x3000));
  ck_assert_uint_ne(allocate_in(order(FIRST), BYTES), address);
  free_in(order(FIRST), live);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), live);
  stop();
}
END_TEST

static void *use_own_stream(void *arg)
{
  uint64_t *address = arg;
  *address = used_and_freed(order(GP_STREAM_PER_THREAD), order(GP_STREAM_PER_THREAD));
  ck_assert_uint_eq(allocate_in(order(GP_STREAM_PER_THREAD), BYTES), *address);
  free_in(order(GP_STREAM_PER_THREAD), *address);
  return NULL;
}

static uint64_t used_in_a_thread(void)
{
  pthread_t thread;
  uint64_t address;

  ck_assert_int_eq(pthread_create(&thread, NULL, use_own_stream, &address), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  return address;
}

START_TEST(test_each_thread_has_its_own_stream)
{
  start(WHOLE, GP_GIB, true);
  uint64_t own = used_and_freed(order(GP_STREAM_PER_THREAD), order(GP_STREAM_PER_THREAD));
  ck_assert_uint_ne(used_in_a_thread(), own);
  ck_assert_uint_eq(allocate_in(order(GP_STREAM_PER_THREAD), BYTES), own);
  stop();
}
END_TEST

/* A thread takes over what an ended one leaves behind in the library, but not its memory. */
START_TEST(test_a_thread_that_comes_later_is_another_one)
{
  start(WHOLE, GP_GIB, true);
  uint64_t first = used_in_a_thread();
  uint64_t second = used_in_a_thread();
  ck_assert_uint_ne(first, second);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 2 * BYTES);
  stop();
}
END_TEST

/* The same thread, in two contexts. */
START_TEST(test_each_context_has_its_own_default_streams)
{
  start(WHOLE, GP_GIB, true);
  const gp_driver_context_t second = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &second);
  for (uint64_t stream = GP_STREAM_LEGACY; stream <= GP_STREAM_PER_THREAD; stream++) {
    gp_stream_order_t here = order(stream);
    gp_stream_order_t there = order_in(other, stream);
    ck_assert_ptr_ne(here.stream_record, there.stream_record);
    uint64_t address = used_and_freed(here, here);
    ck_assert_uint_ne(allocate_in(there, BYTES), address);
    ck_assert_uint_eq(allocate_in(order(stream), BYTES), address);
  }
  stop();
}
END_TEST

static gp_driver_ops_t fake_ops;

static int refuse_to_enter(void *self, const gp_driver_context_t *of, uint64_t stream, void **event)
{
  (void)self;
  (void)of;
  (void)stream;
  (void)event;
  return FAKE_INVALID_VALUE;
}

/* Where that could not be put at the frees, one before the next use will do for all of them. */
START_TEST(test_a_blocking_stream_gets_one_operation_for_several)
{
  start(WHOLE, GP_GIB, true);
  gp_stream_record_begin(engine, context, FIRST, true);
  uint64_t addresses[3];
  for (int i = 0; i < 3; i++)
    addresses[i] = allocate_in(order(FIRST), BYTES);
  fake_ops = driver.ops;
  driver.ops.enter_stream = refuse_to_enter;
  for (int i = 0; i < 3; i++) {
    fake_submit(&driver, 0, addresses[i]);
    free_in(order(FIRST), addresses[i]);
  }
  driver.ops.enter_stream = fake_ops.enter_stream;
  for (int i = 2; i >= 0; i--)
    ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), addresses[i]);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  ck_assert_uint_eq(driver.entered, FIRST);
  stop();
}
END_TEST

static uint64_t freed_meanwhile;

/* Another thread frees a block when the operation is in the stream already. That free gets none itself. */
static int free_meanwhile(void *self, const gp_driver_context_t *of, uint64_t stream, void **event)
{
  int code = fake_ops.enter_stream(self, of, stream, event);
  driver.ops.enter_stream = refuse_to_enter;
  free_in(order(FIRST), freed_meanwhile);
  return code;
}

START_TEST(test_what_is_freed_behind_an_operation_gets_another_one)
{
  start(WHOLE, GP_GIB, true);
  gp_stream_record_begin(engine, context, FIRST, true);
  uint64_t address = allocate_in(order(FIRST), BYTES);
  freed_meanwhile = allocate_in(order(FIRST), BYTES);
  fake_submit(&driver, 0, address);
  fake_submit(&driver, 0, freed_meanwhile);
  fake_ops = driver.ops;
  driver.ops.enter_stream = free_meanwhile;
  free_in(order(FIRST), address);
  driver.ops.enter_stream = fake_ops.enter_stream;
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), freed_meanwhile);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 2);
  stop();
}
END_TEST

START_TEST(test_without_that_operation_the_legacy_stream_has_the_facts_only)
{
  start(WHOLE, GP_GIB, true);
  driver.ops.enter_stream = refuse_to_enter;
  uint64_t address = used_and_freed(order(GP_STREAM_LEGACY), order(GP_STREAM_LEGACY));
  ck_assert_uint_ne(allocate_in(order(GP_STREAM_LEGACY), BYTES), address);
  stop();
}
END_TEST

/* The program may order blocking streams by them, and by nothing else: threads' own, too, of which the
 * library sees nothing. */
START_TEST(test_each_call_in_the_legacy_stream_takes_its_place)
{
  start_streams(WHOLE, GP_GIB);
  uint64_t address = allocate_in(order(GP_STREAM_LEGACY), BYTES);
  long before = driver.count[FAKE_ENTER_STREAM];
  free_in(order(GP_STREAM_LEGACY), address);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], before + 1);
  synchronize();
  ck_assert_uint_eq(allocate_in(order(GP_STREAM_LEGACY), BYTES), address);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], before + 2);
  ck_assert_uint_eq(driver.entered, GP_STREAM_LEGACY);
  free_in(order(GP_STREAM_LEGACY), address);
  ck_assert_uint_eq(allocate_in(order(GP_STREAM_LEGACY), BYTES), address); /* the one of the free will do */
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], before + 4);
  free_in(order(FIRST), allocate_in(order(FIRST), BYTES));
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], before + 4);
  stop();
}
END_TEST

/* Work in the legacy stream before the free is behind what follows in a blocking one, but for this no host
 * that waits for that stream would know. */
START_TEST(test_a_blocking_stream_gets_an_operation_in_between)
{
  start(WHOLE, GP_GIB, true);
  gp_stream_record_begin(engine, context, FIRST, true);
  uint64_t address = used_and_freed(order(FIRST), order(FIRST));
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1); /* where natively the free is one */
  ck_assert_uint_eq(driver.entered, FIRST);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  address = used_and_freed(order(GP_STREAM_PER_THREAD), order(GP_STREAM_PER_THREAD));
  ck_assert_uint_eq(allocate_in(order(GP_STREAM_PER_THREAD), BYTES), address);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 2);
  ck_assert_uint_eq(driver.entered, GP_STREAM_PER_THREAD);
  stop();
}
END_TEST

/* What is complete needs none but that of the free. */
START_TEST(test_idle_memory_enters_no_operation)
{
  start(WHOLE, GP_GIB, true);
  gp_stream_record_begin(engine, context, FIRST, true);
  uint64_t address = used_and_freed(order(FIRST), order(FIRST));
  synchronize();
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  stop();
}
END_TEST

/* The driver has the first launch's operation not yet when another thread launches, too. */
static int launch_meanwhile(void *self, const gp_driver_context_t *of, uint64_t stream, void **event)
{
  static bool is_second;
  if (!is_second) {
    is_second = true;
    gp_stream_record_prevent_overlap(engine, order(stream).stream_record, false);
  }
  return fake_ops.enter_stream(self, of, stream, event);
}

START_TEST(test_two_launches_at_once_are_both_behind_an_operation)
{
  start_streams(WHOLE, GP_GIB);
  uint64_t address = used_and_freed(order(FIRST), order(FIRST));
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  fake_ops = driver.ops;
  driver.ops.enter_stream = launch_meanwhile;
  gp_stream_record_prevent_overlap(engine, order(FIRST).stream_record, false);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 2);
  gp_stream_record_prevent_overlap(engine, order(FIRST).stream_record, false);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 2); /* nothing was handed on since */
  stop();
}
END_TEST

START_TEST(test_a_programmatic_launch_ends_it)
{
  start_streams(WHOLE, GP_GIB);
  uint64_t address = used_and_freed(order(FIRST), order(FIRST));
  gp_stream_record_prevent_overlap(engine, order(FIRST).stream_record, false);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 0); /* nothing was handed on */
  ck_assert_uint_ne(allocate_in(order(FIRST), BYTES), address);
  synchronize();
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  stop();
}
END_TEST

/* The owner that got memory just before may be the one that launches. */
START_TEST(test_what_was_handed_on_before_it_is_over)
{
  start_streams(WHOLE, GP_GIB);
  uint64_t address = used_and_freed(order(FIRST), order(FIRST));
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  gp_stream_record_prevent_overlap(engine, order(SECOND).stream_record, false);
  gp_stream_record_prevent_overlap(engine, NULL, false);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 0);
  gp_stream_record_prevent_overlap(engine, order(FIRST).stream_record, false);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  ck_assert_uint_eq(driver.entered, FIRST);
  gp_stream_record_prevent_overlap(engine, order(FIRST).stream_record, false); /* once */
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  stop();
}
END_TEST

/* A stream of another device's context. */
START_TEST(test_a_stream_of_another_device_has_the_facts_only)
{
  start_streams(WHOLE, GP_GIB);
  const gp_driver_context_t second = fake_context(1, 1);
  gp_context_t *other = gp_engine_context(engine, &second);
  gp_stream_record_begin(engine, other, 0x3000, false);
  uint64_t address = used_and_freed(order(FIRST), order_in(other, 0x3000));
  ck_assert_uint_ne(allocate_in(order(FIRST), BYTES), address);
  ck_assert_uint_ne(allocate_in(order_in(other, 0x3000), BYTES), address);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stream_records");
  TCase *tests = tcase_create("stream_records");
  tcase_add_test(tests, test_the_same_stream_gets_it_at_once);
  tcase_add_test(tests, test_another_stream_waits_for_all_work);
  tcase_add_test(tests, test_the_stream_of_the_free_counts);
  tcase_add_test(tests, test_a_stream_without_a_record_has_only_proofs);
  tcase_add_test(tests, test_another_stream_of_the_same_handle);
  tcase_add_test(tests, test_a_handle_that_comes_again);
  tcase_add_test(tests, test_the_end_of_a_context_ends_its_streams);
  tcase_add_test(tests, test_each_thread_has_its_own_stream);
  tcase_add_test(tests, test_a_thread_that_comes_later_is_another_one);
  tcase_add_test(tests, test_each_context_has_its_own_default_streams);
  tcase_add_test(tests, test_a_blocking_stream_gets_one_operation_for_several);
  tcase_add_test(tests, test_what_is_freed_behind_an_operation_gets_another_one);
  tcase_add_test(tests, test_without_that_operation_the_legacy_stream_has_the_facts_only);
  tcase_add_test(tests, test_each_call_in_the_legacy_stream_takes_its_place);
  tcase_add_test(tests, test_a_blocking_stream_gets_an_operation_in_between);
  tcase_add_test(tests, test_idle_memory_enters_no_operation);
  tcase_add_test(tests, test_a_programmatic_launch_ends_it);
  tcase_add_test(tests, test_two_launches_at_once_are_both_behind_an_operation);
  tcase_add_test(tests, test_what_was_handed_on_before_it_is_over);
  tcase_add_test(tests, test_a_stream_of_another_device_has_the_facts_only);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
