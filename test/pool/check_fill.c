/*
 * GPUPOOL_FILL in the engine: what is filled, with what and when, and what happens where it cannot be.
 */
#include <string.h>

#include "pool/serve/fill.h"
#include "pool/reuse/mode.h"
#include "pool/engine_record.h"
#include "test/pool/check_main.h"
#include "test/pool/async_fixture.h"

#define SETTINGS(...) ((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_PATIENCE=0", __VA_ARGS__, NULL})

static void begin(const char *const *settings)
{
  start_streams(settings, GP_GIB);
}

/* The memory is filled with that, and was when it was handed out. */
static void expect_filled(uint64_t address, uint64_t bytes, uint8_t value)
{
  const fake_fill_t *fill = fake_fill_at(&driver, address);
  ck_assert_ptr_nonnull(fill);
  ck_assert_uint_eq(fill->bytes, bytes);
  ck_assert_uint_eq(fill->value, value);
  ck_assert(fill->is_done);
}

START_TEST(test_off)
{
  begin(SETTINGS("GPUPOOL_FILL=off"));
  (void)allocate(1000);
  (void)allocate_in(order(FIRST), 1000);
  ck_assert_int_eq(driver.fill_count, 0);
  ck_assert_int_eq(driver.fill_streams, 0);
  stop();
}
END_TEST

static const char *const types[] = {"GPUPOOL_TYPE=round", "GPUPOOL_TYPE=naive", "GPUPOOL_TYPE=segment",
    "GPUPOOL_TYPE=vmm", "GPUPOOL_TYPE=unpooled"};

/* Memory that the driver has just given, and what the program has freed: each byte that was asked for. */
START_TEST(test_new_and_used_memory)
{
  begin(SETTINGS("GPUPOOL_FILL=zero", types[_i]));
  uint64_t address = allocate(100000);
  expect_filled(address, 100000, 0);
  ck_assert_int_eq(free_code(address), 0);
  synchronize();
  address = allocate(99999);
  expect_filled(address, 99999, 0);
  ck_assert_uint_eq(stats().cache_hits, _i < 4);
  ck_assert_int_eq(driver.fill_count, 2);
  ck_assert_int_eq(driver.fill_streams, 1);
  stop();
}
END_TEST

START_TEST(test_poison_is_not_a_number)
{
  float number;
  unsigned char bytes[sizeof(number)];

  begin(SETTINGS("GPUPOOL_FILL=poison"));
  expect_filled(allocate(512), 512, GP_FILL_POISON_BYTE);
  memset(bytes, GP_FILL_POISON_BYTE, sizeof(bytes));
  memcpy(&number, bytes, sizeof(number));
  ck_assert(number != number);
  stop();
}
END_TEST

/* What takes no call of the driver does not fill: it is left to gp_engine_alloc. */
START_TEST(test_kept_memory_is_not_handed_out_as_it_is)
{
  uint64_t address = 0;

  begin(SETTINGS("GPUPOOL_FILL=zero"));
  ck_assert_int_eq(free_code(allocate(512)), 0);
  synchronize();
  ck_assert(!gp_engine_alloc_kept(engine, context, 512, &address));
  ck_assert_uint_eq(stats().cache_hits, 0);
  stop();
}
END_TEST

/* Memory that is ahead of need is filled when it is handed out. */
START_TEST(test_prewarmed_memory)
{
  begin(SETTINGS("GPUPOOL_FILL=zero", "GPUPOOL_PREWARM=2MiB*4"));
  expect_filled(allocate(2 * GP_MIB), 2 * GP_MIB, 0);
  ck_assert_int_eq(driver.fill_count, 1);
  stop();
}
END_TEST

/* The device needs time. */
START_TEST(test_waits_until_it_is_filled)
{
  begin(SETTINGS("GPUPOOL_FILL=zero"));
  driver.fill_takes = 3000000;
  uint64_t began_ns = driver.now_ns;
  expect_filled(allocate(512), 512, 0);
  ck_assert_uint_ge(driver.now_ns - began_ns, 3000000);
  ck_assert_uint_lt(driver.now_ns - began_ns, 5000000);
  ck_assert_uint_eq(stats().host_waits, 0);
  stop();
}
END_TEST

/* In the order of the stream that asks, without a wait, in new and in used memory. */
START_TEST(test_in_the_order_of_a_stream)
{
  static const char *const modes[] = {"GPUPOOL_ASYNC=pool", "GPUPOOL_ASYNC=plain"};

  begin(SETTINGS("GPUPOOL_FILL=poison", modes[_i]));
  driver.fill_takes = UINT64_MAX;
  for (int round = 0; round < 2; round++) {
    uint64_t address = allocate_in(order(FIRST), BYTES);
    const fake_fill_t *fill = fake_fill_at(&driver, address);
    ck_assert_ptr_nonnull(fill);
    ck_assert_uint_eq(fill->stream, FIRST);
    ck_assert_uint_eq(fill->bytes, BYTES);
    ck_assert_uint_eq(fill->value, 0xff);
    free_in(order(FIRST), address);
  }
  ck_assert_int_eq(driver.fill_count, 2);
  ck_assert_uint_eq(stats().cache_hits, 1);
  uint64_t address = allocate_in(order(GP_STREAM_PER_THREAD), BYTES);
  ck_assert_uint_eq(fake_fill_at(&driver, address)->stream, GP_STREAM_PER_THREAD);
  ck_assert_int_eq(driver.count[FAKE_FILL_QUERY], 0);
  ck_assert_int_eq(driver.fill_streams, 0);
  stop();
}
END_TEST

/* Beside a capture the library makes no call: what is kept is handed out as it is, which is said. */
START_TEST(test_beside_a_capture)
{
  begin(SETTINGS("GPUPOOL_FILL=zero"));
  uint64_t address = allocate(512);
  uint64_t in_stream = allocate_in(order(FIRST), BYTES);
  ck_assert_int_eq(free_code(address), 0);
  free_in(order(FIRST), in_stream);
  synchronize();
  long calls = driver.calls;
  gp_suspension_t suspension = gp_engine_suspend_in(engine, context, GP_REACH_NONE);
  ck_assert_uint_eq(allocate(512), address);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), in_stream);
  ck_assert_int_eq(driver.calls, calls);
  ck_assert_uint_ne(atomic_load(&engine->fills_omitted), 0);
  gp_engine_resume_in(engine, &suspension);
  expect_filled(allocate(700), 700, 0);
  stop();
}
END_TEST

/* A capture begins while the fill is waited for: it begins at once, and nothing more is asked. */
START_TEST(test_a_capture_begins_meanwhile)
{
  begin(SETTINGS("GPUPOOL_FILL=zero"));
  uint64_t spare = allocate(512);
  ck_assert_int_eq(free_code(spare), 0);
  synchronize();
  driver.fill_takes = UINT64_MAX;
  driver.on_pause = capture_begins;
  long asked = driver.count[FAKE_FILL_QUERY];
  uint64_t address = allocate(512);
  ck_assert_int_eq(driver.count[FAKE_FILL_QUERY], asked + 1);
  ck_assert_uint_ne(address, spare); /* that one is being filled */
  ck_assert(gp_engine_check(engine));
  gp_engine_resume_in(engine, &meanwhile);
  driver.fill_takes = 0;
  uint64_t next = allocate(512);
  ck_assert_uint_ne(next, spare); /* freed, and no fact says that the device is done with it */
  expect_filled(next, 512, 0);
  synchronize();
  ck_assert_uint_eq(allocate(512), spare);
  stop();
}
END_TEST

/* The device does not get on: the program gets other memory in the end, and the one that may be filled at any
 * time is kept from everyone until it is. */
START_TEST(test_late)
{
  begin(SETTINGS("GPUPOOL_FILL=zero", types[_i]));
  driver.fill_takes = UINT64_MAX;
  uint64_t began_ns = driver.now_ns;
  uint64_t first = allocate(512);
  ck_assert_uint_ge(driver.now_ns - began_ns, GP_FILL_PATIENCE_NS);
  ck_assert_uint_lt(driver.now_ns - began_ns, GP_FILL_PATIENCE_NS + 2000000);
  ck_assert_int_eq(driver.fill_count, 1);
  uint64_t late = driver.fills[0].address;
  ck_assert_uint_ne(first, late);
  began_ns = driver.now_ns;
  uint64_t second = allocate(512);
  ck_assert_uint_eq(driver.now_ns, began_ns); /* not a second time for the same */
  ck_assert_uint_ne(second, late);
  ck_assert_uint_eq(stats().allocation.current, 3);
  ck_assert(gp_engine_check(engine));
  driver.fill_takes = 0;
  expect_filled(allocate(512), 512, 0);
  if (_i < 4) { /* the block is the pool's again */
    ck_assert_uint_eq(stats().allocation.current, 3);
    synchronize();
    ck_assert_uint_eq(allocate(512), late);
    expect_filled(late, 512, 0);
  } else { /* the driver's free might wait */
    ck_assert_uint_eq(stats().allocation.current, 4);
    ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  }
  stop();
}
END_TEST

/* What may be filled at any time ends with its context. */
START_TEST(test_late_in_a_context_that_ends)
{
  begin(SETTINGS("GPUPOOL_FILL=zero"));
  driver.fill_takes = UINT64_MAX;
  (void)allocate(512);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(stats().allocation.current, 0);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  stop();
}
END_TEST

/* Any call that a fill makes is refused: the program has its memory all the same. */
START_TEST(test_the_driver_refuses)
{
  static const fake_call_t refused[] = {FAKE_FILL_STREAM, FAKE_FILL, FAKE_FILL_QUERY};

  begin(SETTINGS("GPUPOOL_FILL=zero"));
  driver.fail_code = FAKE_INVALID_VALUE;
  driver.fail_at = driver.calls + 2 + _i; /* behind the allocation */
  uint64_t address = allocate(512);
  ck_assert_int_ge(driver.count[refused[_i]], 1);
  if (refused[_i] == FAKE_FILL_QUERY) { /* it is asked again */
    expect_filled(address, 512, 0);
    ck_assert_int_eq(driver.fill_count, 1);
  } else {
    ck_assert_ptr_null(fake_fill_at(&driver, address));
    ck_assert_uint_ne(atomic_load(&engine->fills_omitted), 0);
  }
  expect_filled(allocate(512), 512, 0);
  stop();
}
END_TEST

START_TEST(test_the_driver_refuses_in_a_stream)
{
  begin(SETTINGS("GPUPOOL_FILL=zero"));
  free_in(order(FIRST), allocate_in(order(FIRST), BYTES));
  driver.fail_code = FAKE_INVALID_VALUE;
  driver.fail_at = driver.calls + 1;
  (void)allocate_in(order(FIRST), BYTES);
  ck_assert_int_eq(driver.fill_count, 1); /* of the first allocation */
  ck_assert_uint_ne(atomic_load(&engine->fills_omitted), 0);
  stop();
}
END_TEST

/* A context that has ended unseen is not asked for ever. */
START_TEST(test_a_context_that_is_gone)
{
  uint64_t address = 0;

  begin(SETTINGS("GPUPOOL_FILL=zero"));
  uint64_t began_ns = driver.now_ns;
  driver.has_ended[0] = true;
  driver.fail_code = FAKE_GONE;
  driver.fail_at = driver.calls + 5; /* the next allocation */
  ck_assert_int_eq(gp_engine_alloc(engine, context, 512, &address), FAKE_GONE);
  ck_assert_uint_lt(driver.now_ns - began_ns, 1000000);
  ck_assert(gp_context_is_lost(context));
  stop();
}
END_TEST

/* An error that stays: the driver's own answer is the program's. */
START_TEST(test_an_error_that_stays)
{
  begin(SETTINGS("GPUPOOL_FILL=zero"));
  driver.fail_code = FAKE_STICKY;
  driver.fail_at = driver.calls + 4; /* the query */
  driver.fail_stays = true;
  uint64_t address = 17;
  ck_assert_int_eq(gp_engine_alloc(engine, context, 512, &address), FAKE_STICKY);
  ck_assert_uint_eq(address, 17);
  driver.fail_at = 0;
  stop();
}
END_TEST

/* Memory that is not the pool's: pooling has stopped. */
START_TEST(test_forwarded_memory)
{
  begin(SETTINGS("GPUPOOL_FILL=zero"));
  gp_engine_stop_pooling(engine);
  (void)allocate(512);
  ck_assert_int_eq(driver.fill_count, 0);
  ck_assert_uint_ne(atomic_load(&engine->fills_omitted), 0);
  stop();
}
END_TEST

/* A driver that fills nothing is none to ask. */
START_TEST(test_a_driver_without_fills)
{
  static gp_options_t options;

  fake_driver_init(&driver, GP_GIB, true);
  driver.ops.fill = NULL;
  fake_options(&options, SETTINGS("GPUPOOL_FILL=zero"));
  gp_driver_t table = fake_driver_table(&driver);
  engine = gp_engine_create(&table, NULL, &options);
  ck_assert_ptr_nonnull(engine);
  gp_driver_context_t first = fake_context(0, 0);
  context = gp_engine_context(engine, &first);
  (void)allocate(512);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("fill");
  TCase *tests = tcase_create("fill");
  tcase_add_test(tests, test_off);
  tcase_add_loop_test(tests, test_new_and_used_memory, 0, 5);
  tcase_add_test(tests, test_poison_is_not_a_number);
  tcase_add_test(tests, test_kept_memory_is_not_handed_out_as_it_is);
  tcase_add_test(tests, test_prewarmed_memory);
  tcase_add_test(tests, test_waits_until_it_is_filled);
  tcase_add_loop_test(tests, test_in_the_order_of_a_stream, 0, 2);
  tcase_add_test(tests, test_beside_a_capture);
  tcase_add_test(tests, test_a_capture_begins_meanwhile);
  tcase_add_loop_test(tests, test_late, 0, 5);
  tcase_add_test(tests, test_late_in_a_context_that_ends);
  tcase_add_loop_test(tests, test_the_driver_refuses, 0, 3);
  tcase_add_test(tests, test_the_driver_refuses_in_a_stream);
  tcase_add_test(tests, test_a_context_that_is_gone);
  tcase_add_test(tests, test_an_error_that_stays);
  tcase_add_test(tests, test_forwarded_memory);
  tcase_add_test(tests, test_a_driver_without_fills);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
