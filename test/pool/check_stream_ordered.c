/*
 * Stream-ordered memory of the pool beside everything else: other frees, captures, limits, out of memory,
 * what the program may ask of the driver's pool. When it may be used again: reuse/check_identities.c. Over
 * the fake driver.
 */
#include "pool/engine_record.h"
#include "test/pool/check_main.h"
#include "test/pool/ordered_fixture.h"

START_TEST(test_an_option_leaves_it_to_the_driver)
{
  start_streams((const char *const[]){"GPUPOOL_ASYNC=driver", NULL}, GP_GIB);
  gp_order_t in = order(FIRST);
  uint64_t address;
  int code;
  ck_assert_ptr_null(in.identity);
  ck_assert(!gp_engine_keeps_ordered(engine));
  ck_assert(!gp_engine_alloc_ordered(engine, &in, BYTES, &address, &code));
  stop();
}
END_TEST

START_TEST(test_types_without_a_pool_leave_it_to_the_driver)
{
  start_streams((const char *const[]){"GPUPOOL_TYPE=unpooled", NULL}, GP_GIB);
  ck_assert(!gp_engine_keeps_ordered(engine));
  stop();
}
END_TEST

START_TEST(test_types_of_whole_blocks_keep_the_drivers)
{
  static const char *const types[] = {"GPUPOOL_TYPE=round", "GPUPOOL_TYPE=naive"};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    start_streams((const char *const[]){types[i], NULL}, GP_GIB);
    uint64_t plain = allocate(BYTES);
    uint64_t address = allocate_in(order(FIRST), 3 * BYTES);
    ck_assert_int_eq(driver.count[FAKE_ALLOC_ORDERED], 1);
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
  uint64_t ordered = allocate_in(order(FIRST), BYTES);
  ck_assert_int_eq(free_code(plain), 0);
  free_in(order(FIRST), ordered);
  synchronize();
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), ordered);
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
  fake_submit(&driver, 0, other);
  ck_assert_int_eq(free_code(address), 0);
  ck_assert_int_eq(driver.count[FAKE_WAIT] + driver.count[FAKE_RECORD], 0);
  ck_assert_uint_eq(allocate_in(order(SECOND), BYTES), address);
  driver_free_t call = {.address = address}; /* not so what a stream frees that is not known */
  gp_order_t unknown = {.context = context, .stream = 0x3000};
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
  fake_submit(&driver, 0, address);
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

/* While streams are captured the driver answers, for memory that the pool has, too. */
START_TEST(test_beside_a_capture_the_driver_answers)
{
  start_streams(NULL, GP_GIB);
  driver_free_t call = {.address = allocate_in(order(FIRST), BYTES), .code = FAKE_INVALID_VALUE};
  driver_free_t other = {.address = allocate_in(order(FIRST), BYTES)};
  uint64_t address;
  int code;
  gp_engine_suspend(engine);
  gp_order_t in = order(FIRST);
  ck_assert(!gp_engine_alloc_ordered(engine, &in, BYTES, &address, &code));
  ck_assert_int_eq(free_with(in, &call), FAKE_INVALID_VALUE);
  ck_assert_int_eq(call.calls, 1);
  ck_assert_int_eq(call.places, 0);
  ck_assert_int_eq(gp_engine_owner(engine, call.address), GP_OWNER_PROGRAM);
  ck_assert_int_eq(free_with(in, &other), 0);
  ck_assert_int_eq(gp_engine_owner(engine, other.address), GP_OWNER_UNKNOWN);
  gp_engine_resume(engine);
  call.code = 0;
  ck_assert_int_eq(free_with(order(FIRST), &call), 0);
  stop();
}
END_TEST

START_TEST(test_what_the_program_may_ask)
{
  start_streams(NULL, GP_GIB);
  uint64_t first = allocate_in(order(FIRST), BYTES);
  uint64_t second = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), first);
  gp_ordered_use_t use = gp_engine_ordered_use(engine, 0);
  ck_assert_uint_eq(use.live, BYTES);
  ck_assert_uint_eq(use.kept, BYTES);
  ck_assert_uint_eq(use.peak, 2 * BYTES);
  gp_engine_ordered_reset_peak(engine, 0, false);
  ck_assert_uint_eq(gp_engine_ordered_use(engine, 0).peak, BYTES);
  free_in(order(FIRST), second);
  ck_assert_uint_eq(gp_engine_ordered_use(engine, 0).peak, BYTES);
  ck_assert_uint_eq(gp_engine_ordered_use(engine, 0).live, 0);
  stop();
}
END_TEST

START_TEST(test_a_trim_gives_back_what_is_complete)
{
  start_streams(NULL, GP_GIB);
  uint64_t plain = allocate(BYTES);
  uint64_t first = allocate_in(order(FIRST), BYTES);
  ck_assert_int_eq(free_code(plain), 0);
  fake_submit(&driver, 0, first);
  free_in(order(FIRST), first);
  gp_engine_ordered_trim(engine, context);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  fake_complete(&driver, 0);
  gp_engine_ordered_trim(engine, context);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1); /* the plain one stays */
  ck_assert_uint_eq(gp_engine_ordered_use(engine, 0).kept, 0);
  ck_assert_int_eq(driver.count[FAKE_WAIT] + driver.count[FAKE_WAIT_AS_FREE], 0);
  stop();
}
END_TEST

/* Before 12.5 nothing tells what the device has finished: the driver gets it in the stream's order. */
START_TEST(test_a_trim_without_fences_goes_by_the_stream)
{
  start(NULL, GP_GIB, false);
  gp_identity_created(engine, context, FIRST, false);
  uint64_t freed = allocate_in(order(FIRST), BYTES);
  uint64_t unordered = allocate_in(order(FIRST), BYTES);
  uint64_t own = allocate_in(order(GP_STREAM_PER_THREAD), BYTES);
  fake_submit(&driver, 0, freed);
  free_in(order(FIRST), freed);
  free_in((gp_order_t){.context = context, .stream = 0x3000}, unordered); /* a stream that is not known */
  free_in(order(GP_STREAM_PER_THREAD), own);
  driver.fail_at = driver.calls + 1;
  driver.fail_stays = true;
  driver.fail_code = FAKE_INVALID_VALUE;
  gp_engine_ordered_trim(engine, context);
  driver.fail_at = 0;
  ck_assert_uint_eq(gp_engine_ordered_use(engine, 0).kept, 3 * BYTES);
  gp_engine_ordered_trim(engine, context);
  ck_assert_int_eq(driver.count[FAKE_FREE_ORDERED], 1); /* after a refusal it only waits for its facts */
  synchronize();
  gp_engine_ordered_trim(engine, context);
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

START_TEST(test_a_trim_without_fences_gives_back_all)
{
  start(NULL, GP_GIB, false);
  gp_identity_created(engine, context, FIRST, false);
  uint64_t blocks[3];
  for (int i = 0; i < 3; i++)
    blocks[i] = allocate_in(order(FIRST), BYTES);
  for (int i = 0; i < 3; i++) {
    fake_submit(&driver, 0, blocks[i]);
    free_in(order(FIRST), blocks[i]);
  }
  gp_engine_ordered_trim(engine, context);
  ck_assert_int_eq(driver.count[FAKE_FREE_ORDERED], 3);
  stop();
}
END_TEST

/* An operation that comes now would put a blocking stream behind others, and others behind it: none comes,
 * but its answer that it has no work counts. */
START_TEST(test_a_trim_asks_blocking_streams)
{
  const uint64_t streams[] = {FIRST, SECOND, GP_STREAM_LEGACY};

  start(NULL, GP_GIB, false);
  gp_identity_created(engine, context, FIRST, false);
  gp_identity_created(engine, context, SECOND, true);
  for (int i = 0; i < 3; i++) {
    free_in(order(streams[i]), allocate_in(order(streams[i]), BYTES));
    gp_engine_ordered_trim(engine, context);
    ck_assert_int_eq(driver.count[FAKE_FREE], 1 + i);
  }
  for (int i = 1; i < 3; i++) {
    uint64_t block = allocate_in(order(streams[i]), BYTES);
    fake_submit(&driver, 0, block);
    free_in(order(streams[i]), block);
  }
  gp_engine_ordered_trim(engine, context);
  ck_assert_uint_eq(gp_engine_ordered_use(engine, 0).kept, 2 * BYTES);
  fake_complete(&driver, 0);
  gp_engine_ordered_trim(engine, context);
  ck_assert_uint_eq(driver.used, 0);
  ck_assert_int_eq(driver.count[FAKE_FREE_ORDERED], 0);
  stop();
}
END_TEST

/* Its free came without an operation, which failed: what its stream answers tells nothing of what it would
 * have waited for. */
START_TEST(test_a_blocking_stream_tells_of_frees_with_an_operation)
{
  start(NULL, GP_GIB, false);
  gp_identity_created(engine, context, SECOND, true);
  uint64_t block = allocate_in(order(SECOND), BYTES);
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_INVALID_VALUE;
  free_in(order(SECOND), block);
  ck_assert_int_eq(driver.fail_at, driver.calls);
  gp_engine_ordered_trim(engine, context);
  ck_assert_uint_eq(gp_engine_ordered_use(engine, 0).kept, BYTES);
  stop();
}
END_TEST

/* No context is left that could give it back later. */
START_TEST(test_the_last_context_leaves_nothing_behind)
{
  start_streams(NULL, GP_GIB);
  const gp_driver_context_t second = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &second);
  free_in(order(FIRST), allocate_in(order(FIRST), BYTES));
  gp_engine_ordered_leave(engine, NULL);
  gp_engine_ordered_leave(engine, other);
  ck_assert_uint_eq(driver.used, BYTES);
  gp_engine_context_lost(engine, other);
  driver.fail_at = driver.calls + 3; /* a fence, a question, the free */
  driver.fail_code = FAKE_INVALID_VALUE;
  gp_engine_ordered_leave(engine, context);
  ck_assert_int_eq(driver.count[FAKE_FREE], 2); /* refused once */
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

START_TEST(test_a_program_that_changes_the_drivers_pool_has_it_for_itself)
{
  start_streams(NULL, GP_GIB);
  uint64_t address = allocate_in(order(FIRST), BYTES);
  ck_assert(gp_engine_ordered_bar(engine, 0));
  gp_order_t in = order(FIRST);
  uint64_t other;
  int code;
  ck_assert(!gp_engine_alloc_ordered(engine, &in, BYTES, &other, &code));
  free_in(order(FIRST), address); /* what the pool had */
  stop();
}
END_TEST

START_TEST(test_the_limit_counts_both_kinds)
{
  start_streams((const char *const[]){"GPUPOOL_LIMIT=96MiB", NULL}, GP_GIB);
  gp_order_t in = order(FIRST);
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

/* They grow by 32 MiB: where a limit has no room for that, the caller asks for plain memory. */
START_TEST(test_pools_do_not_grow_close_to_the_limit)
{
  start_streams((const char *const[]){"GPUPOOL_LIMIT=36MiB", NULL}, GP_GIB);
  gp_order_t in = order(FIRST);
  uint64_t other;
  int code = 0;
  ck_assert(!gp_engine_lacks_piece(engine, context, 4 * GP_MIB));
  uint64_t address = allocate_in(in, 4 * GP_MIB);
  (void)allocate(2 * GP_MIB);
  ck_assert(gp_engine_lacks_piece(engine, context, 4 * GP_MIB));
  ck_assert(!gp_engine_alloc_ordered(engine, &in, 4 * GP_MIB, &other, &code));
  free_in(in, address);
  ck_assert_uint_eq(allocate_in(in, 4 * GP_MIB), address); /* what the pool has needs no piece */
  free_in(in, address);
  fake_submit_on(&driver, 0, 1, 1);
  ck_assert(!gp_engine_alloc_ordered(
      engine, &(gp_order_t){.context = context, .stream = SECOND}, 4 * GP_MIB, &other, &code));
  synchronize();
  ck_assert_uint_eq(allocate_in(order(SECOND), 4 * GP_MIB), address);
  stop();
}
END_TEST

START_TEST(test_each_kind_makes_room_for_the_other)
{
  start_streams((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, 64 * GP_MIB);
  uint64_t plain = allocate(48 * GP_MIB);
  ck_assert_int_eq(free_code(plain), 0);
  synchronize();
  uint64_t ordered = allocate_in(order(FIRST), 40 * GP_MIB);
  free_in(order(FIRST), ordered);
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

/* A program that synchronizes streams only: the free in order finds what fences have shown. */
START_TEST(test_a_free_in_order_gives_back_too)
{
  start_streams((const char *const[]){"GPUPOOL_IDLE_RELEASE=1", NULL}, GP_GIB);
  uint64_t first = allocate_in(order(FIRST), BYTES);
  uint64_t second = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), first);
  synchronize();
  driver.now_ns += 3 * UINT64_C(1000000000);
  free_in(order(FIRST), second); /* moves the first into what is idle */
  driver.now_ns += 3 * UINT64_C(1000000000);
  uint64_t third = allocate_in(order(SECOND), 4 * BYTES);
  free_in(order(SECOND), third);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  stop();
}
END_TEST

/* Idle memory of other sizes goes back first where the pool would grow beyond its budget. */
START_TEST(test_new_use_takes_the_place_of_what_is_idle)
{
  static const char *const types[] = {"GPUPOOL_TYPE=round", "GPUPOOL_TYPE=naive"};

  for (int bounded = 0; bounded < 2; bounded++)
    for (int type = 0; type < 2; type++) {
      const char *const settings[] = {bounded ? "GPUPOOL_SLACK=0" : "GPUPOOL_SLACK=none", types[type], NULL};
      start_streams(settings, GP_GIB);
      uint64_t held = allocate(512); /* what is cut has its own bound */
      uint64_t others = driver.used;
      free_in(order(FIRST), allocate_in(order(FIRST), 200 * GP_MIB));
      synchronize();
      (void)allocate_in(order(SECOND), 300 * GP_MIB);
      ck_assert_uint_eq(driver.used - others, (bounded ? 300 : 500) * GP_MIB);
      ck_assert_int_eq(free_code(held), 0);
      stop();
    }
}
END_TEST

/* What a stream freed and may have again at once is no use that the budget allows for, until the stream ends.
 */
START_TEST(test_what_serves_its_stream_is_no_use)
{
  const gp_device_t *device;

  start_streams((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, GP_GIB);
  device = &engine->devices[0];
  uint64_t large = allocate_in(order(FIRST), 200 * GP_MIB);
  free_in(order(FIRST), large);
  uint64_t other = allocate_in(order(FIRST), 60 * GP_MIB); /* too small for the idle block without a budget */
  ck_assert_uint_ne(other, large);
  ck_assert_uint_eq(device->highest_whole, 200 * GP_MIB);
  ck_assert_uint_eq(allocate_in(order(FIRST), 200 * GP_MIB), large); /* both in use now */
  ck_assert_uint_eq(device->highest_whole, 260 * GP_MIB);
  fake_submit(&driver, 0, large);
  free_in(order(FIRST), large);
  (void)allocate_in(order(SECOND), 90 * GP_MIB); /* the other stream's cannot serve this one at once */
  ck_assert_uint_eq(device->highest_whole, 260 * GP_MIB);
  gp_identity_ends(engine, FIRST);
  ck_assert_uint_eq(device->highest_whole, 350 * GP_MIB);
  stop();
}
END_TEST

/* The same of cut memory. */
START_TEST(test_parts_that_serve_their_stream_are_no_use)
{
  start_streams((const char *const[]){"GPUPOOL_TYPE=segment", "GPUPOOL_RESERVE=0", NULL}, GP_GIB);
  uint64_t first = allocate_in(order(FIRST), 100 * GP_MIB);
  (void)allocate_in(order(FIRST), 100 * GP_MIB);
  fake_submit(&driver, 0, first);
  free_in(order(FIRST), first);
  (void)allocate_in(order(SECOND), 100 * GP_MIB);
  ck_assert_uint_eq(engine->devices[0].bound_bytes, 100 * GP_MIB);
  ck_assert_uint_eq(engine->devices[0].highest_parts, 200 * GP_MIB);
  stop();
}
END_TEST

/* Where memory of cudaMalloc is what is too much, stream-ordered memory does not make up for it. */
START_TEST(test_growth_takes_the_place_of_as_much)
{
  enum { IDLE = 8, BLOCKS = 3 };
  uint64_t blocks[IDLE];

  start_streams((const char *const[]){"GPUPOOL_SLACK=0", "GPUPOOL_RESERVE=0", NULL}, 4 * GP_GIB);
  for (int i = 0; i < IDLE; i++)
    blocks[i] = allocate(40 * GP_MIB);
  for (int i = 0; i < IDLE; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  synchronize();
  (void)allocate(300 * GP_MIB);
  for (int i = 0; i < BLOCKS; i++)
    blocks[i] = allocate_in(order(FIRST), 50 * GP_MIB);
  fake_submit(&driver, 0, blocks[0]);
  for (int i = 0; i < BLOCKS; i++)
    free_in(order(FIRST), blocks[i]);
  fake_complete(&driver, 0);
  long before = driver.count[FAKE_FREE];
  (void)allocate_in(order(SECOND), 20 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_FREE], before + 1);
  stop();
}
END_TEST

START_TEST(test_the_driver_has_no_memory)
{
  start_streams(NULL, 8 * GP_MIB);
  gp_order_t in = order(FIRST);
  uint64_t address = 7;
  int code = 0;
  (void)allocate_in(in, 6 * GP_MIB);
  ck_assert(gp_engine_alloc_ordered(engine, &in, 6 * GP_MIB, &address, &code));
  ck_assert_int_eq(code, FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(address, 7);
  ck_assert_uint_eq(stats().num_ooms, 1);
  stop();
}
END_TEST

static uint64_t freed_later;

static int free_later(void *self, const gp_driver_context_t *of, uint64_t stream, uint64_t address)
{
  (void)self;
  ck_assert(of->handle && stream == FIRST);
  freed_later = address;
  return 0;
}

/* The driver's pool has all that is used, and says nothing of streams. */
static int tell_idle(void *self, const gp_driver_context_t *of, uint64_t *ret_bytes, uint64_t *ret_used)
{
  (void)self;
  (void)of;
  *ret_bytes = driver.used;
  *ret_used = freed_later ? 0 : driver.used;
  return 0;
}

/* The driver had what the program freed from that point of the stream on; what the pool gives back has a
 * later one. Until the stream is there the driver would wait for it, where natively it had the memory. */
START_TEST(test_beside_what_the_pool_gave_late_the_driver_is_not_asked)
{
  start_streams((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_PATIENCE=0", NULL}, 8 * GP_MIB);
  int (*free_ordered)(void *, const gp_driver_context_t *, uint64_t, uint64_t) = driver.ops.free_ordered;
  gp_order_t in = order(SECOND);
  uint64_t address = 0;
  int code = 0;
  driver.ops.free_ordered = free_later;
  driver.ops.async_reserved = tell_idle;
  freed_later = 0;
  uint64_t first = allocate_in(order(FIRST), 6 * GP_MIB);
  fake_submit(&driver, 0, first);
  free_in(order(FIRST), first);
  ck_assert(gp_engine_alloc_ordered(engine, &in, 4 * GP_MIB, &address, &code));
  ck_assert_int_eq(code, FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(freed_later, first);
  ck_assert_int_eq(driver.count[FAKE_ALLOC_ORDERED], 1);
  fake_complete(&driver, 0);
  ck_assert_int_eq(free_ordered(&driver, &(gp_driver_context_t){.handle = &driver}, FIRST, first), 0);
  ck_assert(gp_engine_alloc_ordered(engine, &in, 4 * GP_MIB, &address, &code));
  ck_assert_int_eq(code, 0);
  stop();
}
END_TEST

/* Beside a capture, too, where the driver cannot be asked how much that is. */
START_TEST(test_beside_a_capture_what_the_pool_gave_late_is_no_room)
{
  start_streams((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_PATIENCE=0", NULL}, 8 * GP_MIB);
  gp_order_t in = order(SECOND);
  uint64_t address = 0;
  int code = 0;
  driver.ops.free_ordered = free_later;
  driver.ops.async_reserved = tell_idle;
  freed_later = 0;
  uint64_t first = allocate_in(order(FIRST), 6 * GP_MIB);
  fake_submit(&driver, 0, first);
  free_in(order(FIRST), first);
  ck_assert(gp_engine_alloc_ordered(engine, &in, 4 * GP_MIB, &address, &code));
  ck_assert_int_eq(code, FAKE_OUT_OF_MEMORY);
  gp_engine_suspend(engine);
  ck_assert(!gp_engine_forwarded_reserve(engine, context, 4 * GP_MIB, GP_FORWARDED_ASYNC));
  gp_engine_resume(engine);
  fake_complete(&driver, 0);
  synchronize();
  gp_engine_suspend(engine);
  ck_assert(gp_engine_forwarded_reserve(engine, context, 4 * GP_MIB, GP_FORWARDED_ASYNC));
  gp_engine_forwarded_cancel(engine, context, 4 * GP_MIB, GP_FORWARDED_ASYNC);
  gp_engine_resume(engine);
  stop();
}
END_TEST

START_TEST(test_no_bytes_and_too_many_are_the_drivers_to_refuse)
{
  start_streams(NULL, GP_GIB);
  gp_order_t in = order(FIRST);
  uint64_t address;
  int code;
  ck_assert(!gp_engine_alloc_ordered(engine, &in, 0, &address, &code));
  ck_assert(!gp_engine_alloc_ordered(engine, &in, UINT64_MAX - 1, &address, &code));
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stream_ordered");
  TCase *tests = tcase_create("stream_ordered");
  tcase_add_test(tests, test_an_option_leaves_it_to_the_driver);
  tcase_add_test(tests, test_types_without_a_pool_leave_it_to_the_driver);
  tcase_add_test(tests, test_types_of_whole_blocks_keep_the_drivers);
  tcase_add_test(tests, test_the_two_kinds_stay_apart);
  tcase_add_test(tests, test_plain_memory_freed_in_order);
  tcase_add_test(tests, test_plain_memory_whose_stream_refuses_stays_the_programs);
  tcase_add_test(tests, test_a_second_free_is_refused);
  tcase_add_loop_test(tests, test_what_the_host_frees_is_complete, 0, 3);
  tcase_add_test(tests, test_a_holder_keeps_it);
  tcase_add_test(tests, test_beside_a_capture_the_driver_answers);
  tcase_add_test(tests, test_what_the_program_may_ask);
  tcase_add_test(tests, test_a_trim_gives_back_what_is_complete);
  tcase_add_test(tests, test_a_trim_without_fences_goes_by_the_stream);
  tcase_add_test(tests, test_a_trim_without_fences_gives_back_all);
  tcase_add_test(tests, test_a_trim_asks_blocking_streams);
  tcase_add_test(tests, test_a_blocking_stream_tells_of_frees_with_an_operation);
  tcase_add_test(tests, test_the_last_context_leaves_nothing_behind);
  tcase_add_test(tests, test_a_program_that_changes_the_drivers_pool_has_it_for_itself);
  tcase_add_test(tests, test_the_limit_counts_both_kinds);
  tcase_add_test(tests, test_pools_do_not_grow_close_to_the_limit);
  tcase_add_test(tests, test_each_kind_makes_room_for_the_other);
  tcase_add_test(tests, test_memory_that_nobody_uses_goes_back);
  tcase_add_test(tests, test_a_free_in_order_gives_back_too);
  tcase_add_test(tests, test_new_use_takes_the_place_of_what_is_idle);
  tcase_add_test(tests, test_what_serves_its_stream_is_no_use);
  tcase_add_test(tests, test_parts_that_serve_their_stream_are_no_use);
  tcase_add_test(tests, test_growth_takes_the_place_of_as_much);
  tcase_add_test(tests, test_the_driver_has_no_memory);
  tcase_add_test(tests, test_beside_what_the_pool_gave_late_the_driver_is_not_asked);
  tcase_add_test(tests, test_beside_a_capture_what_the_pool_gave_late_is_no_room);
  tcase_add_test(tests, test_no_bytes_and_too_many_are_the_drivers_to_refuse);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
