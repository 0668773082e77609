/*
 * GPUPOOL_ASYNC=plain: what is asked for in streams is memory of cudaMalloc. Over the fake driver.
 */
#include "pool/limits/reclaim.h"
#include "pool/reuse/fences.h"
#include "pool/engine_record.h"
#include "test/pool/check_main.h"
#include "test/pool/async_fixture.h"

#define PLAIN "GPUPOOL_ASYNC=plain"

static void start_plain(void)
{
  start_streams((const char *const[]){PLAIN, NULL}, GP_GIB);
}

static void give_up(uint64_t address)
{
  ck_assert_int_eq(free_code(address), 0);
}

/* Which context is current says nothing: the driver is asked for memory of the stream's. */
START_TEST(test_a_miss_is_made_in_the_streams_context)
{
  start_plain();
  uint64_t address = allocate_in(order(FIRST), BYTES);
  ck_assert_int_eq(driver.count[FAKE_ALLOC_IN], 1);
  ck_assert_int_eq(driver.count[FAKE_ALLOC] + driver.count[FAKE_CREATE], 0);
  free_in(order(FIRST), address);
  stop();
}
END_TEST

/* Its place there may order other work: of threads' own streams, say, which the library has not seen. */
START_TEST(test_a_miss_in_the_legacy_stream_takes_its_place)
{
  start_plain();
  uint64_t address = allocate_in(order(GP_STREAM_LEGACY), BYTES);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1);
  ck_assert_uint_eq(driver.entered, GP_STREAM_LEGACY);
  free_in(order(GP_STREAM_LEGACY), address);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 2);
  (void)allocate_in(order(FIRST), BYTES);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 2);
  stop();
}
END_TEST

START_TEST(test_the_same_stream_has_it_again_at_once)
{
  start_plain();
  uint64_t address = allocate_in(order(FIRST), BYTES);
  fake_submit(&driver, 0, address);
  free_in(order(FIRST), address);
  uint64_t other = allocate_in(order(SECOND), BYTES);
  ck_assert_uint_ne(other, address);
  ck_assert_uint_ne(allocate(BYTES), address); /* cudaMalloc's next owner may use it at once */
  long calls = driver.calls;
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  ck_assert_int_eq(driver.calls, calls);
  stop();
}
END_TEST

/* The stream got it early, and its owner frees it without having used it. That says nothing about the work of
 * the owner before. */
START_TEST(test_a_free_by_the_host_proves_nothing_of_the_earlier_owner)
{
  static const char *const types[] = {"GPUPOOL_TYPE=round", "GPUPOOL_TYPE=segment", "GPUPOOL_TYPE=vmm"};
  static const char *const supplies[] = {PLAIN, "GPUPOOL_ASYNC=pool"};

  start_streams((const char *const[]){supplies[_i / 3], types[_i % 3], NULL}, GP_GIB);
  uint64_t address = allocate_in(order(FIRST), BYTES);
  fake_submit_on(&driver, 0, address, BYTES);
  free_in(order(FIRST), address);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  give_up(address);
  ck_assert_uint_ne(allocate_in(order(SECOND), BYTES), address);
  ck_assert_uint_ne(allocate(BYTES), address);
  synchronize();
  ck_assert_uint_eq(allocate_in(order(SECOND), BYTES), address);
  give_up(address); /* all is complete by now */
  ck_assert_uint_eq(allocate_in(order(SECOND), BYTES), address);
  stop();
}
END_TEST

START_TEST(test_what_is_idle_serves_both_kinds)
{
  start_plain();
  uint64_t of_malloc = allocate(BYTES);
  uint64_t of_stream = allocate_in(order(FIRST), 2 * BYTES);
  give_up(of_malloc);
  free_in(order(FIRST), of_stream);
  synchronize();
  ck_assert_uint_eq(allocate(2 * BYTES), of_stream);
  ck_assert_uint_eq(allocate_in(order(SECOND), BYTES), of_malloc);
  ck_assert_int_eq(driver.count[FAKE_ALLOC] + driver.count[FAKE_ALLOC_IN], 2);
  stop();
}
END_TEST

/* The driver could not give an idle small block to one large request while its page has memory in use. */
START_TEST(test_small_blocks_beside_parts_are_not_free)
{
  uint64_t small[8], free_bytes = 100 * GP_MIB, total = GP_GIB;

  start_streams((const char *const[]){PLAIN, "GPUPOOL_TYPE=segment", NULL}, GP_GIB);
  for (int i = 0; i < 8; i++)
    small[i] = allocate_in(order(FIRST), 256 * GP_KIB);
  for (int i = 1; i < 8; i++)
    free_in(order(FIRST), small[i]);
  synchronize();
  gp_engine_translate_info(engine, context, &free_bytes, &total);
  ck_assert_uint_eq(free_bytes, 100 * GP_MIB);
  stop();
}
END_TEST

/* What cudaMalloc has of a stream's memory is cudaMalloc's. */
START_TEST(test_the_next_owner_says_what_it_is)
{
  start_plain();
  uint64_t address = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), address);
  synchronize();
  driver_free_t call = {.address = allocate(BYTES)};
  ck_assert_uint_eq(call.address, address);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).live, 0);
  fake_submit(&driver, 0, address);
  ck_assert_int_eq(free_with(order(FIRST), &call), 0);
  ck_assert_int_eq(call.places, 1);
  ck_assert_uint_ne(allocate_in(order(FIRST), BYTES), address); /* only when the device is done with it */
  stop();
}
END_TEST

/* Natively it does not wait for such memory, so that it must not wait here either. */
START_TEST(test_a_free_without_a_stream_does_not_wait)
{
  start_streams((const char *const[]){PLAIN, "GPUPOOL_REUSE=strict", NULL}, GP_GIB);
  uint64_t address = allocate_in(order(FIRST), BYTES);
  fake_submit(&driver, 0, allocate_in(order(FIRST), 2 * BYTES));
  give_up(address);
  ck_assert_int_eq(driver.count[FAKE_WAIT_AS_FREE] + driver.count[FAKE_WAIT], 0);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address); /* its uses are over */
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* The driver's free of such memory may wait, and the program's free in a stream does not. */
START_TEST(test_only_calls_that_may_wait_give_memory_back)
{
  start_streams((const char *const[]){PLAIN, "GPUPOOL_MAX_CACHED=0", NULL}, GP_GIB);
  uint64_t first = allocate_in(order(FIRST), BYTES);
  uint64_t second = allocate_in(order(FIRST), 2 * BYTES);
  uint64_t third = allocate_in(order(FIRST), 3 * BYTES);
  uint64_t of_malloc = allocate(4 * BYTES);
  free_in(order(FIRST), first);
  give_up(second);
  (void)gp_engine_largest_idle(engine, 0);
  ck_assert_uint_eq(stats().cached_bytes.current, 2 * BYTES); /* cudaFree says that it is complete */
  ck_assert(gp_fences_poll_twice(engine));
  gp_reclaim(engine);
  ck_assert_uint_eq(stats().cached_bytes.current, 3 * BYTES); /* more than MAX_CACHED */
  fake_submit(&driver, 0, third);
  free_in(order(FIRST), third);
  gp_engine_async_trim(engine, context);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  fake_complete(&driver, 0);
  give_up(of_malloc);
  ck_assert_int_eq(driver.count[FAKE_FREE], 4);
  ck_assert_int_eq(driver.busy_frees, 0);
  stop();
}
END_TEST

/* It ends with its context, which the other one's stream outlives. */
START_TEST(test_a_stream_of_another_context_has_no_say)
{
  start_plain();
  const gp_driver_context_t second = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &second);
  gp_stream_record_begin(engine, other, 0x3000, false);
  gp_stream_order_t there = order_in(other, 0x3000);
  uint64_t address = allocate_in(order(FIRST), BYTES);
  free_in(there, address);
  ck_assert_uint_ne(allocate_in(there, BYTES), address);
  uint64_t kept = allocate_in(there, 2 * BYTES);
  free_in(there, kept);
  gp_engine_context_lost(engine, other);
  ck_assert_int_eq(gp_engine_owner(engine, kept), GP_OWNER_UNKNOWN);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).live, 0);
  synchronize();
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  stop();
}
END_TEST

START_TEST(test_what_the_program_may_ask)
{
  start_plain();
  (void)allocate(8 * BYTES); /* is no pool's */
  uint64_t first = allocate_in(order(FIRST), BYTES);
  uint64_t second = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), first);
  gp_async_use_t use = gp_engine_async_use(engine, 0);
  ck_assert_uint_eq(use.kept, BYTES);
  ck_assert_uint_eq(use.live, BYTES);
  ck_assert_uint_eq(use.peak, 2 * BYTES);
  gp_engine_async_reset_peak(engine, 0, false);
  use = gp_engine_async_use(engine, 0);
  ck_assert_uint_eq(use.peak, BYTES);
  ck_assert_uint_eq(use.reserved_peak, 2 * BYTES);
  gp_engine_async_reset_peak(engine, 0, true);
  give_up(second);
  use = gp_engine_async_use(engine, 0);
  ck_assert_uint_eq(use.live, 0);
  ck_assert_uint_eq(use.peak, BYTES);
  ck_assert_uint_eq(use.kept, 2 * BYTES);
  ck_assert_uint_eq(use.reserved_peak, 2 * BYTES);
  stop();
}
END_TEST

/* What is kept for requests in streams and what is not: its last owner says. */
START_TEST(test_what_is_kept_changes_sides_with_its_owner)
{
  start_plain();
  uint64_t first = allocate_in(order(FIRST), BYTES);
  uint64_t second = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), first);
  free_in(order(FIRST), second);
  synchronize();
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).kept, 2 * BYTES);
  uint64_t lent = allocate(BYTES);
  ck_assert(lent == first || lent == second);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).kept, BYTES);
  give_up(lent);
  synchronize();
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).kept, BYTES);
  gp_engine_async_reset_peak(engine, 0, true);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).reserved_peak, BYTES);
  first = allocate_in(order(FIRST), BYTES);
  second = allocate_in(order(FIRST), BYTES);
  gp_async_use_t use = gp_engine_async_use(engine, 0);
  ck_assert_uint_eq(use.kept, 0);
  ck_assert_uint_eq(use.live, 2 * BYTES);
  ck_assert_uint_eq(use.reserved_peak, 2 * BYTES);
  ck_assert_uint_eq(stats().driver_allocs, 2);
  stop();
}
END_TEST

/* A trim must not wait, and the driver's free of such memory may. */
START_TEST(test_a_trim_gives_back_what_is_kept_if_no_device_has_work)
{
  start_plain();
  uint64_t of_malloc = allocate(BYTES);
  uint64_t busy = allocate(2 * BYTES);
  uint64_t address = allocate_in(order(FIRST), 3 * BYTES);
  give_up(of_malloc);
  free_in(order(FIRST), address);
  synchronize();
  fake_submit(&driver, 0, busy);
  gp_engine_async_trim(engine, context);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  fake_complete(&driver, 0);
  gp_engine_async_trim(engine, context);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  ck_assert_int_eq(driver.busy_frees, 0);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).kept, 0);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).reserved_peak, 3 * BYTES);
  ck_assert_uint_eq(allocate(BYTES), of_malloc); /* which was no pool's */
  stop();
}
END_TEST

static int free_in_driver(void *arg, bool is_cut)
{
  driver_free_t *call = arg;

  ck_assert(!is_cut);
  call->calls++;
  return driver.ops.free(&driver, &(gp_driver_context_t){.handle = fake_context(0, 0).handle}, call->address);
}

/* The driver's own free in stream order takes memory of any kind. */
START_TEST(test_what_was_exported_goes_to_the_driver)
{
  start_plain();
  driver_free_t call = {.address = allocate_in(order(FIRST), BYTES)};
  gp_stream_order_t in = order(FIRST);
  int code = -1;
  gp_engine_taint(engine, call.address);
  ck_assert_int_eq(
      gp_engine_free_async(engine, &in, call.address, free_in_driver, &call, &code), GP_FREE_DONE);
  ck_assert_int_eq(code, 0);
  ck_assert_int_eq(call.calls, 1);
  ck_assert_uint_eq(driver.used, 0);
  ck_assert_uint_eq(gp_engine_async_use(engine, 0).live, 0);
  stop();
}
END_TEST

/* Once the program exports memory, large blocks are whole allocations, which can be exported. */
START_TEST(test_after_an_export_large_blocks_are_whole)
{
  static const char *const types[] = {"GPUPOOL_TYPE=segment", "GPUPOOL_TYPE=vmm"};
  gp_part_t found;

  start_streams((const char *const[]){PLAIN, types[_i], NULL}, GP_GIB);
  uint64_t part = allocate_in(order(FIRST), 38 * GP_MIB);
  ck_assert(gp_engine_part(engine, part, &found));
  gp_engine_expect_exports(engine);
  uint64_t large = allocate(46 * GP_MIB), async_context = allocate_in(order(FIRST), 38 * GP_MIB);
  ck_assert(!gp_engine_part(engine, async_context, &found));
  ck_assert(gp_engine_check(engine));
  give_up(large);
  free_in(order(FIRST), async_context);
  free_in(order(FIRST), part);
  ck_assert_uint_eq(allocate_in(order(FIRST), 38 * GP_MIB), async_context);
  ck_assert(gp_engine_check(engine));
  stop();
}
END_TEST

START_TEST(test_the_limit_and_the_driver_say_no)
{
  start_streams((const char *const[]){PLAIN, "GPUPOOL_LIMIT=96MiB", NULL}, 64 * GP_MIB);
  gp_stream_order_t in = order(FIRST);
  uint64_t address = 7, of_malloc = allocate(40 * GP_MIB);
  int code = 0;
  ck_assert(gp_engine_alloc_async(engine, &in, 40 * GP_MIB, &address, &code));
  ck_assert_int_eq(code, FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(address, 7);
  ck_assert(gp_engine_alloc_async(engine, &in, 100 * GP_MIB, &address, &code));
  ck_assert_int_eq(code, FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(stats().num_ooms, 2);
  give_up(of_malloc);
  synchronize();
  free_in(in, allocate_in(in, 48 * GP_MIB)); /* what was kept of the one makes room for the other */
  synchronize();
  (void)allocate(56 * GP_MIB);
  stop();
}
END_TEST

/* The thread's heap counts the free, and the device the allocation in a stream. */
START_TEST(test_peaks_of_one_thread_are_exact)
{
  start_streams((const char *const[]){PLAIN, "GPUPOOL_TYPE=naive", NULL}, GP_GIB);
  uint64_t blocks[] = {allocate(BYTES), allocate(BYTES)};
  give_up(blocks[0]);
  give_up(blocks[1]);
  synchronize();
  give_up(allocate(BYTES)); /* the heap is open */
  synchronize();
  gp_engine_reset_peaks(engine, 1);
  give_up(allocate(BYTES));
  synchronize();
  give_up(allocate(BYTES));
  (void)allocate_in(order(FIRST), BYTES);
  ck_assert_uint_eq(stats().allocation.peak, 1);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("plain_order");
  TCase *tests = tcase_create("plain_order");
  tcase_add_test(tests, test_a_miss_is_made_in_the_streams_context);
  tcase_add_test(tests, test_a_miss_in_the_legacy_stream_takes_its_place);
  tcase_add_test(tests, test_the_same_stream_has_it_again_at_once);
  tcase_add_loop_test(tests, test_a_free_by_the_host_proves_nothing_of_the_earlier_owner, 0, 6);
  tcase_add_test(tests, test_what_is_idle_serves_both_kinds);
  tcase_add_test(tests, test_small_blocks_beside_parts_are_not_free);
  tcase_add_test(tests, test_the_next_owner_says_what_it_is);
  tcase_add_test(tests, test_a_free_without_a_stream_does_not_wait);
  tcase_add_test(tests, test_only_calls_that_may_wait_give_memory_back);
  tcase_add_test(tests, test_a_stream_of_another_context_has_no_say);
  tcase_add_test(tests, test_what_the_program_may_ask);
  tcase_add_test(tests, test_what_is_kept_changes_sides_with_its_owner);
  tcase_add_test(tests, test_a_trim_gives_back_what_is_kept_if_no_device_has_work);
  tcase_add_test(tests, test_what_was_exported_goes_to_the_driver);
  tcase_add_loop_test(tests, test_after_an_export_large_blocks_are_whole, 0, 2);
  tcase_add_test(tests, test_the_limit_and_the_driver_say_no);
  tcase_add_test(tests, test_peaks_of_one_thread_are_exact);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
