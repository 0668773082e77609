/*
 * GPUPOOL_CHECK where a search cannot end: the device is late, the driver refuses, a capture begins, a
 * context or the engine ends.
 */
#include <string.h>

#include "test/pool/damage_fixture.h"

/* --- the device needs time --- */

/* The copy takes longer than a request waits: the request gets other memory, and the block comes back. */
START_TEST(test_late)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(100000);
  driver.fill_takes = GP_FILL_PATIENCE_NS + 3000000000;
  uint64_t began_ns = driver.now_ns;
  release(address);
  ck_assert_uint_ge(driver.now_ns - began_ns, GP_FILL_PATIENCE_NS);
  ck_assert_uint_lt(driver.now_ns - began_ns, GP_FILL_PATIENCE_NS + 2000000);
  ck_assert_uint_eq(quarantined(), 1);
  ck_assert(gp_engine_check(engine));
  driver.now_ns += 4000000000; /* it is complete, and not known to be */
  driver.fill_takes = 0;
  (void)allocate(100000);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

/* Meanwhile no request waits for it again, and none gets the block. */
START_TEST(test_late_for_ever)
{
  begin(SETTINGS(STALE, types[_i]));
  uint64_t address = allocate(100000);
  uint64_t second = allocate(100000);
  driver.fill_takes = UINT64_MAX;
  release(address);
  ck_assert_uint_eq(quarantined(), 1);
  uint64_t began_ns = driver.now_ns;
  for (int i = 0; i < 3; i++) {
    ck_assert_uint_ne(allocate(100000), address);
    ck_assert(gp_engine_check(engine));
  }
  release(second);
  ck_assert_uint_eq(driver.now_ns, began_ns);
  ck_assert_uint_eq(quarantined(), 2);
  ck_assert(gp_engine_check(engine));
  stop_sound();
}
END_TEST

/* The late copy of a filled block: damage is found when the copy is complete. */
START_TEST(test_damage_in_a_late_copy)
{
  begin(SETTINGS(STALE));
  uint64_t address = allocate(100000);
  release(address);
  fake_overwrite(&driver, address + 17, 1);
  driver.fill_takes = UINT64_MAX;
  ck_assert_uint_ne(allocate(100000), address);
  ck_assert_int_eq(damage_count, 0);
  driver.fill_takes = 0;
  ck_assert_uint_eq(allocate(100000), address);
  expect_damage(GP_DAMAGE_STALE, address, 17, 1);
  stop();
}
END_TEST

/* One chunk of many is late: what has not been compared is not taken for searched. */
START_TEST(test_late_in_chunks)
{
  const uint64_t bytes = 4 * GP_MIB;

  begin(SETTINGS(FULL));
  uint64_t address = allocate(bytes);
  release(address);
  fake_overwrite(&driver, address + bytes - 1, 1);
  driver.fill_takes = UINT64_MAX;
  ck_assert_uint_ne(allocate(bytes), address);
  driver.fill_takes = 0;
  ck_assert_uint_eq(allocate(bytes), address);
  expect_damage(GP_DAMAGE_STALE, address, bytes - 1, 1);
  stop();
}
END_TEST

/* --- the driver refuses --- */

static const char *const checks[] = {EDGES, STALE, BOTH, FULL};

/* Makes the driver refuse a call, after so many others. */
static void refuse_after(long preceding)
{
  driver.fail_code = FAKE_INVALID_VALUE;
  driver.fail_at = driver.calls + preceding + 1;
}

/* Each call of a search in turn is refused. A query is repeated. After the refusal of another call the checks
 * stop, everything is idle, and nothing is taken for damage. */
START_TEST(test_the_driver_refuses)
{
  bool was_refused = true;

  for (long preceding = 0; was_refused; preceding++) {
    begin(SETTINGS(checks[_i]));
    uint64_t address = allocate(100000), second = allocate(9 * GP_MIB);
    ck_assert_int_eq(free_code(second), 0);
    ck_assert_int_eq(free_code(address), 0);
    refuse_after(preceding);
    gp_engine_search(engine, context);
    was_refused = driver.calls >= driver.fail_at;
    driver.fail_at = 0;
    ck_assert(gp_engine_check(engine));
    ck_assert(preceding > 1 || !is_checking()); /* the stream, and the memory */
    if (!is_checking()) {
      ck_assert_uint_eq(quarantined(), 0);
      ck_assert_uint_eq(stats().deferred_bytes.current, 0);
    }
    ck_assert_uint_eq(allocate(100000), address);
    stop_sound();
  }
}
END_TEST

/* So does a refusal in the middle of a block that is searched in chunks. */
START_TEST(test_the_driver_refuses_a_chunk)
{
  const uint64_t bytes = 4 * GP_MIB;

  begin(SETTINGS(FULL));
  uint64_t address = allocate(bytes);
  release(address);
  refuse_after(2 * _i); /* copies and queries alternate */
  while (is_checking() && driver.count[FAKE_COPY_OUT] < 6) {
    uint64_t got = allocate(bytes);
    if (got == address)
      break;
  }
  ck_assert_int_eq(damage_count, 0);
  ck_assert_uint_eq(quarantined(), 0);
  ck_assert(gp_engine_check(engine));
  stop_sound();
}
END_TEST

/* Checks stop on all devices, and no device keeps blocks in quarantine. */
START_TEST(test_checks_stop_on_every_device)
{
  gp_driver_context_t key = fake_context(1, 1);
  uint64_t address = 0;

  begin(SETTINGS(STALE));
  gp_context_t *other = gp_engine_context(engine, &key);
  ck_assert_int_eq(gp_engine_alloc(engine, other, 100000, &address), 0);
  ck_assert_int_eq(free_code(address), 0);
  gp_engine_search(engine, other);
  ck_assert_uint_eq(quarantined_in(other), 1);
  uint64_t own = allocate(100000);
  ck_assert_int_eq(free_code(own), 0);
  refuse_after(0);
  driver.fail_stays = true;
  gp_engine_search(engine, context);
  driver.fail_at = 0;
  ck_assert(!is_checking());
  ck_assert_uint_eq(quarantined_in(other), 0);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

/* Checks stop while a search is late: its blocks come back when it is complete. */
START_TEST(test_checks_stop_while_a_search_is_late)
{
  begin(SETTINGS(STALE));
  uint64_t address = allocate(100000);
  gp_driver_context_t key = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &key);
  uint64_t second = 0;
  ck_assert_int_eq(gp_engine_alloc(engine, other, 100000, &second), 0);
  driver.fill_takes = UINT64_MAX;
  release(address);
  ck_assert_uint_eq(quarantined(), 1);
  ck_assert_int_eq(free_code(second), 0);
  refuse_after(0);
  driver.fail_stays = true;
  gp_engine_search(engine, other);
  driver.fail_at = 0;
  driver.fail_stays = false;
  driver.fill_takes = 0;
  gp_engine_search(engine, context);
  uint64_t again = allocate(100000);
  ck_assert_uint_eq(again, address);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

/* --- captures --- */

START_TEST(test_nothing_during_a_capture)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(100000);
  uint64_t in_stream = allocate_in(order(FIRST), BYTES);
  gp_suspension_t suspension = gp_engine_suspend_in(engine, context, GP_REACH_NONE);
  long copies = driver.count[FAKE_COPY_OUT], fills = driver.count[FAKE_FILL];
  ck_assert_int_eq(free_code(address), 0);
  free_in(order(SECOND), in_stream);
  gp_engine_search(engine, context);
  ck_assert_int_eq(driver.count[FAKE_COPY_OUT], copies);
  ck_assert_int_eq(driver.count[FAKE_FILL], fills);
  ck_assert(gp_engine_check(engine));
  gp_engine_resume_in(engine, &suspension);
  synchronize_and_search();
  ck_assert_int_gt(driver.count[FAKE_COPY_OUT], 0);
  ck_assert_uint_eq(
      quarantined_in(&context->device->async_context) + quarantined_in(context), _i < 2 ? 1 : 2);
  ck_assert(_i < 2 || allocate(100000) == address); /* a whole block went to the driver */
  stop_sound();
}
END_TEST

/* A capture begins while a search waits for the device. */
START_TEST(test_a_capture_begins_meanwhile)
{
  static const char *const kinds[] = {STALE, EDGES, FULL};
  const uint64_t bytes = 4 * GP_MIB;

  begin(SETTINGS(kinds[_i]));
  uint64_t address = allocate(bytes);
  if (_i == 2)
    release(address);
  driver.fill_takes = 5000000;
  driver.on_pause = capture_begins;
  if (_i == 2)
    (void)allocate(bytes);
  else
    release(address);
  ck_assert_ptr_null((void *)driver.on_pause);
  ck_assert(gp_engine_check(engine));
  gp_engine_resume_in(engine, &meanwhile);
  driver.fill_takes = 0;
  gp_engine_search(engine, context);
  ck_assert_uint_eq(allocate(bytes), address);
  stop_sound();
}
END_TEST

static int pauses_before_capture;

static void capture_begins_later(void)
{
  if (pauses_before_capture-- == 0)
    capture_begins();
}

/* It begins between two chunks of a block. */
START_TEST(test_a_capture_begins_between_chunks)
{
  const uint64_t bytes = 4 * GP_MIB;

  begin(SETTINGS(FULL));
  uint64_t address = allocate(bytes);
  release(address);
  driver.fill_takes = 2 * GP_FIRST_PAUSE_NS;
  driver.on_pause = capture_begins_later;
  pauses_before_capture = _i;
  uint64_t got = allocate(bytes);
  if (driver.on_pause) { /* there were fewer pauses */
    driver.on_pause = NULL;
    ck_assert_uint_eq(got, address);
    stop_sound();
    return;
  }
  gp_engine_resume_in(engine, &meanwhile);
  driver.fill_takes = 0;
  if (got != address)
    ck_assert_uint_eq(allocate(bytes), address);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

/* --- contexts --- */

START_TEST(test_context_lost_with_quarantine)
{
  begin(SETTINGS(BOTH, types[_i]));
  release(allocate(100000));
  ck_assert_int_eq(free_code(allocate(300000)), 0);
  ck_assert_uint_ge(quarantined(), 1);
  fake_end_context(&driver, 0);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(quarantined_in(context), 0);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  gp_engine_search(engine, context);
  ck_assert(is_checking());
  stop_sound();
}
END_TEST

START_TEST(test_context_lost_while_a_search_is_late)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(100000);
  driver.fill_takes = UINT64_MAX;
  release(address);
  ck_assert_uint_eq(quarantined(), 1);
  fake_end_context(&driver, 0);
  gp_engine_context_lost(engine, context);
  driver.fill_takes = 0;
  gp_engine_search(engine, context);
  ck_assert_uint_eq(quarantined_in(context), 0);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  ck_assert(is_checking());
  stop_sound();
}
END_TEST

static void context_ends(void)
{
  driver.on_pause = NULL;
  fake_end_context(&driver, 0);
  gp_engine_context_lost(engine, context);
}

/* It ends while a thread waits for a search: the copy is not compared, because its memory has ended. */
START_TEST(test_context_lost_during_a_search)
{
  static const char *const kinds[] = {STALE, FULL};
  const uint64_t bytes = 3 * GP_MIB;
  gp_driver_context_t key = fake_context(1, 0);

  begin(SETTINGS(kinds[_i]));
  (void)gp_engine_context(engine, &key);
  uint64_t address = allocate(bytes);
  if (_i == 1)
    release(address);
  driver.fill_takes = 5000000;
  driver.on_pause = context_ends;
  if (_i == 1)
    gp_damage_flush(engine, context);
  else
    release(address);
  ck_assert_ptr_null((void *)driver.on_pause);
  driver.fill_takes = 0;
  ck_assert(is_checking());
  stop_sound();
}
END_TEST

/* Stream-ordered memory outlives a context that has a late search of it. */
START_TEST(test_stream_ordered_memory_of_a_late_search_in_a_lost_context)
{
  gp_driver_context_t key = fake_context(1, 0);

  begin(SETTINGS(STALE));
  gp_context_t *second = gp_engine_context(engine, &key);
  gp_stream_record_begin(engine, second, UINT64_C(0x3000), false);
  uint64_t address = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), address);
  driver.fill_takes = UINT64_MAX;
  uint64_t token = gp_engine_sync_begin(engine);
  fake_complete(&driver, 0);
  fake_complete(&driver, 1);
  gp_engine_sync_end(engine, context, token);
  token = gp_engine_sync_begin(engine);
  gp_engine_sync_end(engine, second, token);
  gp_engine_search(engine, second);
  ck_assert_uint_eq(quarantined_in(&context->device->async_context), 1);
  fake_end_context(&driver, 1);
  gp_engine_context_lost(engine, second);
  driver.fill_takes = 0;
  gp_engine_search(engine, context);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  ck_assert(gp_engine_check(engine));
  stop_sound();
}
END_TEST

/* An error that says that the context has ended is none of the checks. */
START_TEST(test_a_context_that_is_gone)
{
  begin(SETTINGS(STALE));
  uint64_t address = allocate(100000);
  gp_driver_context_t key = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &key);
  ck_assert_int_eq(free_code(address), 0);
  driver.fail_code = FAKE_GONE;
  driver.fail_at = driver.calls + 1 + _i;
  gp_engine_search(engine, context);
  driver.fail_at = 0;
  ck_assert(is_checking());
  ck_assert(gp_engine_check(engine));
  ck_assert_int_eq(gp_engine_alloc(engine, other, 100000, &address), 0);
  stop_sound();
}
END_TEST

/* Red zones of what is in use, at the end of its context; only of a device that is quiet. */
START_TEST(test_live_blocks_of_an_ending_context)
{
  const bool is_quiet = _i == 0;

  begin(SETTINGS(BOTH));
  uint64_t address = allocate(5000);
  (void)allocate(7000);
  fake_overwrite(&driver, address + 5000, 2);
  uint64_t other = allocate(2 * GP_MIB);
  if (!is_quiet)
    fake_submit_on(&driver, 0, other, 100);
  gp_engine_search_ending(engine, context);
  if (is_quiet) {
    expect_damage(GP_DAMAGE_EDGE, address, 5000, 2);
    ck_assert_uint_eq(stats().allocation.current, 3);
    gp_engine_search_ending(engine, context); /* once */
    ck_assert_uint_eq(stats().num_damages, 1);
  } else {
    ck_assert_int_eq(damage_count, 0);
  }
  fake_complete(&driver, 0);
  gp_engine_context_lost(engine, context);
  stop();
}
END_TEST

START_TEST(test_many_live_blocks)
{
  begin(SETTINGS(EDGES));
  for (int i = 0; i < MANY; i++)
    fake_overwrite(&driver, allocate(3000) + 3000, 1);
  gp_engine_search_ending(engine, context);
  ck_assert_uint_eq(stats().num_damages, MANY);
  stop();
}
END_TEST

/* Stream-ordered memory of the device stays in use when another context ends, with its zone. */
START_TEST(test_stream_ordered_memory_outlives_a_context)
{
  gp_driver_context_t key = fake_context(1, 0);

  key.is_primary = false;
  begin(SETTINGS(EDGES));
  uint64_t address = allocate_in(order(FIRST), 5000);
  gp_context_t *other = gp_engine_context(engine, &key);
  gp_engine_search_ending(engine, other);
  gp_engine_context_lost(engine, other);
  fake_overwrite(&driver, address + 5000, 1);
  free_in(order(FIRST), address);
  synchronize_and_search();
  expect_damage(GP_DAMAGE_EDGE, address, 5000, 1);
  stop();
}
END_TEST

START_TEST(test_engine_ends_with_quarantine)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(100000);
  release(address);
  driver.fill_takes = UINT64_MAX;
  release(allocate(5 * GP_MIB));
  ck_assert_uint_ge(quarantined(), 1);
  stop_sound();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("damage_interrupted");
  TCase *tests = tcase_create("damage_interrupted");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, test_late, 0, TYPES);
  tcase_add_loop_test(tests, test_late_for_ever, 0, TYPES);
  tcase_add_test(tests, test_damage_in_a_late_copy);
  tcase_add_test(tests, test_late_in_chunks);
  tcase_add_loop_test(tests, test_the_driver_refuses, 0, 4);
  tcase_add_loop_test(tests, test_the_driver_refuses_a_chunk, 0, 6);
  tcase_add_test(tests, test_checks_stop_on_every_device);
  tcase_add_test(tests, test_checks_stop_while_a_search_is_late);
  tcase_add_loop_test(tests, test_nothing_during_a_capture, 0, TYPES);
  tcase_add_loop_test(tests, test_a_capture_begins_meanwhile, 0, 3);
  tcase_add_loop_test(tests, test_a_capture_begins_between_chunks, 0, 12);
  tcase_add_loop_test(tests, test_context_lost_with_quarantine, 0, TYPES);
  tcase_add_loop_test(tests, test_context_lost_while_a_search_is_late, 0, TYPES);
  tcase_add_loop_test(tests, test_context_lost_during_a_search, 0, 2);
  tcase_add_test(tests, test_stream_ordered_memory_of_a_late_search_in_a_lost_context);
  tcase_add_loop_test(tests, test_a_context_that_is_gone, 0, 4);
  tcase_add_loop_test(tests, test_live_blocks_of_an_ending_context, 0, 2);
  tcase_add_test(tests, test_many_live_blocks);
  tcase_add_test(tests, test_stream_ordered_memory_outlives_a_context);
  tcase_add_loop_test(tests, test_engine_ends_with_quarantine, 0, TYPES);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
