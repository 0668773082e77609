/*
 * GPUPOOL_CHECK and the supply of memory: shortage, requests to release memory, stream-ordered memory,
 * threads.
 */
#include <sched.h>
#include <semaphore.h>
#include <string.h>

#include "test/pool/damage_fixture.h"
#include "test/pool/run_together.h"

/* --- memory is short --- */

/* Quarantined blocks are searched and released before a request fails, of a class that none of them serves.
 */
START_TEST(test_limit)
{
  begin(SETTINGS(BOTH, "GPUPOOL_LIMIT=64MiB", types[_i]));
  uint64_t small[4];
  for (int i = 0; i < 4; i++)
    small[i] = allocate(10 * GP_MIB);
  for (int i = 0; i < 4; i++)
    release(small[i]);
  ck_assert_uint_eq(quarantined(), 4);
  fake_overwrite(&driver, small[3] + 10 * GP_MIB - 1, 1);
  (void)allocate(50 * GP_MIB);
  ck_assert_uint_eq(quarantined(), 0);
  expect_damage(GP_DAMAGE_STALE, small[3], 10 * GP_MIB - 1, 1);
  stop();
}
END_TEST

/* Also what was not filled yet. */
START_TEST(test_limit_with_unfilled_blocks)
{
  uint64_t address = 0;

  begin(SETTINGS(BOTH, "GPUPOOL_LIMIT=64MiB", types[_i]));
  uint64_t small[4];
  for (int i = 0; i < 4; i++)
    small[i] = allocate(10 * GP_MIB);
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(free_code(small[i]), 0);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 50 * GP_MIB, &address), 0);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

/* And what other contexts of the device have. */
START_TEST(test_full_device_with_two_contexts)
{
  gp_driver_context_t key = fake_context(1, 0);
  uint64_t address[2];

  begin_with(SETTINGS(BOTH, types[_i]), 64 * GP_MIB);
  gp_context_t *other = gp_engine_context(engine, &key);
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(gp_engine_alloc(engine, other, 20 * GP_MIB, &address[i]), 0);
  ck_assert_int_eq(free_code(address[0]), 0);
  gp_engine_search(engine, other); /* filled */
  ck_assert_int_eq(free_code(address[1]), 0);
  fake_overwrite(&driver, address[0], 1);
  (void)allocate(50 * GP_MIB);
  ck_assert_uint_eq(quarantined_in(other), 0);
  expect_damage(GP_DAMAGE_STALE, address[0], 0, 1);
  stop();
}
END_TEST

/* The device completes it while the request waits. */
START_TEST(test_full_device_with_pending_memory)
{
  begin_with((const char *const[]){"GPUPOOL_RESERVE=0", BOTH, NULL}, 64 * GP_MIB);
  uint64_t in_stream = allocate_in(order(FIRST), 40 * GP_MIB);
  fake_submit_on(&driver, 0, in_stream, 40 * GP_MIB);
  free_in(order(FIRST), in_stream);
  fake_complete_in(&driver, 0, 3000000);
  uint64_t address = 0;
  int code = -1;
  gp_stream_order_t in = order(SECOND);
  ck_assert(gp_engine_alloc_async(engine, &in, 50 * GP_MIB, &address, &code));
  ck_assert_int_eq(code, 0);
  stop_sound();
}
END_TEST

/* Memory that the pool gives back on request. */
START_TEST(test_empty_cache)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(10 * GP_MIB), second = allocate(20 * GP_MIB);
  release(address);
  ck_assert_int_eq(free_code(second), 0);
  fake_overwrite(&driver, address, 1);
  ck_assert_uint_ge(gp_engine_empty_cache(engine), 30 * GP_MIB);
  ck_assert_uint_eq(quarantined(), 0);
  ck_assert_uint_eq(driver.used, 0);
  expect_damage(GP_DAMAGE_STALE, address, 0, 1);
  stop();
}
END_TEST

START_TEST(test_trim)
{
  begin(SETTINGS(BOTH, types[_i]));
  release(allocate(10 * GP_MIB));
  ck_assert_uint_ge(gp_engine_trim(engine, context, UINT64_MAX, GP_TRIM_REQUESTED), 10 * GP_MIB);
  ck_assert_uint_eq(driver.used, 0);
  stop_sound();
}
END_TEST

/* A call of the program that the driver has no memory for. */
START_TEST(test_room_for_a_call)
{
  begin_with(SETTINGS(BOTH, types[_i]), 64 * GP_MIB);
  release(allocate(40 * GP_MIB));
  ck_assert(gp_engine_make_room(engine, context));
  gp_engine_room_used(context);
  ck_assert_uint_eq(driver.used, 0);
  stop_sound();
}
END_TEST

/* After pooling has stopped nothing is searched, and all is released. */
START_TEST(test_pooling_stops)
{
  begin(SETTINGS(BOTH, types[_i]));
  release(allocate(10 * GP_MIB));
  uint64_t address = allocate(3 * GP_MIB), live = allocate(GP_MIB);
  ck_assert_int_eq(free_code(address), 0);
  gp_engine_stop_pooling(engine);
  ck_assert_int_eq(free_code(live), 0);
  synchronize_and_search();
  ck_assert_uint_eq(quarantined(), 0);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  stop_sound();
}
END_TEST

/* A block that is larger than a new one would be counts so until it has left quarantine. */
START_TEST(test_borrowed_block)
{
  begin(SETTINGS(STALE, "GPUPOOL_TYPE=round", "GPUPOOL_SLACK=0"));
  uint64_t large = allocate(40 * GP_MIB);
  release(large);
  gp_damage_flush(engine, context);
  ck_assert_uint_eq(allocate(22 * GP_MIB), large);
  ck_assert_uint_gt(context->device->borrowed_bytes, 0);
  release(large);
  ck_assert_uint_eq(quarantined(), 1);
  ck_assert_uint_gt(context->device->borrowed_bytes, 0);
  ck_assert(gp_engine_check(engine));
  gp_damage_flush(engine, context);
  ck_assert_uint_eq(context->device->borrowed_bytes, 0);
  stop_sound();
}
END_TEST

/* Prewarmed memory has no owner: it is idle at once, and watched from its first one on. */
START_TEST(test_prewarmed_memory)
{
  begin(SETTINGS(BOTH, "GPUPOOL_PREWARM=2MiB*4", types[_i]));
  uint64_t address = allocate(GP_MIB);
  ck_assert_uint_eq(quarantined(), 0);
  fake_overwrite(&driver, address + GP_MIB, 1);
  release(address);
  expect_damage(GP_DAMAGE_EDGE, address, GP_MIB, 1);
  stop();
}
END_TEST

/* --- stream-ordered memory --- */

/* It is not reused in its own stream either, before it is complete and searched. */
START_TEST(test_stream_ordered_memory)
{
  static const char *const modes[] = {"GPUPOOL_ASYNC=pool", "GPUPOOL_ASYNC=plain"};

  begin(SETTINGS(BOTH, modes[_i]));
  uint64_t address = allocate_in(order(FIRST), BYTES);
  ck_assert_uint_eq(fake_fill_at(&driver, address + BYTES)->stream, FIRST);
  fake_submit_on(&driver, 0, address, BYTES);
  free_in(order(FIRST), address);
  gp_engine_search(engine, context);
  uint64_t second = allocate_in(order(FIRST), BYTES);
  ck_assert_uint_ne(second, address);
  ck_assert_uint_eq(quarantined(), 0); /* deferred */
  synchronize_and_search();
  ck_assert_uint_eq(quarantined(), 1);
  fake_overwrite(&driver, address + 5, 1);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  expect_damage(GP_DAMAGE_STALE, address, 5, 1);
  free_in(order(FIRST), second);
  stop();
}
END_TEST

START_TEST(test_zone_of_stream_ordered_memory)
{
  begin(SETTINGS(EDGES));
  uint64_t address = allocate_in(order(FIRST), 5000);
  fake_overwrite(&driver, address + 5000, 1);
  free_in(order(FIRST), address);
  synchronize_and_search();
  expect_damage(GP_DAMAGE_EDGE, address, 5000, 1);
  stop();
}
END_TEST

/* Exported memory may be written to by others. */
START_TEST(test_exported_memory)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(2 * GP_MIB);
  gp_engine_taint(engine, address);
  fake_overwrite(&driver, address + 2 * GP_MIB, 1);
  gp_engine_search_ending(engine, context);
  int code = 0;
  (void)gp_engine_free(engine, address, &code);
  gp_engine_search(engine, context);
  gp_damage_flush(engine, context);
  stop_sound();
}
END_TEST

/* A second free of a block in quarantine is refused, and changes nothing. */
START_TEST(test_double_free)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(100000);
  release(address);
  ck_assert_int_eq(free_code(address), FAKE_INVALID_VALUE);
  ck_assert_uint_eq(quarantined(), 1);
  ck_assert_int_eq(gp_engine_owner(engine, address), GP_OWNER_POOL);
  ck_assert_uint_eq(gp_engine_checked_size(engine, 12345), 0);
  stop_sound();
}
END_TEST

static void free_again(void)
{
  int code = 0;
  driver.on_pause = NULL;
  (void)gp_engine_free(engine, damages[7].address, &code);
}

START_TEST(test_double_free_during_a_search)
{
  begin(SETTINGS(STALE));
  uint64_t address = allocate(100000);
  damages[7].address = address;
  driver.fill_takes = 5000000;
  driver.on_pause = free_again;
  release(address);
  ck_assert_uint_eq(quarantined(), 1);
  stop_sound();
}
END_TEST

/* --- threads --- */

#define THREADS 4
#define ROUNDS  60

static atomic_int failures; /* Check's asserts are for one thread */

static void use_memory(uintptr_t number)
{
  uint64_t blocks[4] = {0};
  int code;

  for (int round = 0; round < ROUNDS; round++) {
    uint64_t *block = &blocks[round % 4];
    if (*block) {
      failures += gp_engine_free(engine, *block, &code) != GP_FREE_DONE;
      gp_engine_search(engine, context);
    }
    uint64_t bytes = (uint64_t)(round % 3 + 1) * 100000 + number;
    failures += gp_engine_alloc(engine, context, bytes, block) != 0;
    if (round % 16 == 0)
      gp_damage_flush(engine, context);
  }
  for (int i = 0; i < 4; i++)
    if (blocks[i])
      failures += gp_engine_free(engine, blocks[i], &code) != GP_FREE_DONE;
}

/* Several threads search the same arena: each block is in one search at a time. */
START_TEST(test_threads)
{
  begin(SETTINGS(_i % 2 ? FULL : BOTH, types[_i / 2], "GPUPOOL_LIMIT=64MiB"));
  driver.locked = true;
  driver.fill_takes = 3000;
  failures = 0;
  gp_run_together(THREADS, use_memory);
  ck_assert_int_eq(failures, 0);
  gp_engine_search(engine, context);
  gp_damage_flush(engine, context);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

static void allocate_all(uintptr_t number)
{
  int code;

  (void)number;
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t address = 0;
    failures += gp_engine_alloc(engine, context, 20 * GP_MIB, &address) != 0;
    failures += address && gp_engine_free(engine, address, &code) != GP_FREE_DONE;
    gp_engine_search(engine, context);
  }
}

/* Otherwise a waiting thread could use up its patience, which is virtual time, before the others have run. */
static void let_others_run(void)
{
  sched_yield();
}

/* No request fails because another thread searches the memory that would serve it. */
START_TEST(test_threads_that_need_all_memory)
{
  begin_with((const char *const[]){"GPUPOOL_RESERVE=0", STALE, types[_i], NULL}, 3 * 22 * GP_MIB);
  driver.locked = true;
  driver.fill_takes = 3000;
  driver.on_pause = let_others_run;
  failures = 0;
  gp_run_together(3, allocate_all);
  ck_assert_int_eq(failures, 0);
  stop_sound();
}
END_TEST

static sem_t is_searching, has_waited;
static _Thread_local bool searches;

/* The search is not complete before the other thread waits for it, or has failed. */
static void pause_of_both(void)
{
  if (!searches) {
    sem_post(&has_waited);
    let_others_run();
  } else if (driver.fill_takes > 0) {
    sem_post(&is_searching);
    sem_wait(&has_waited);
    pthread_mutex_lock(&driver.mutex);
    driver.fill_takes = 0;
    pthread_mutex_unlock(&driver.mutex);
  }
}

static void search_or_allocate(uintptr_t number)
{
  uint64_t address = 0;

  searches = number == 0;
  if (searches) {
    gp_engine_search(engine, context);
    return;
  }
  sem_wait(&is_searching);
  failures += gp_engine_alloc(engine, context, 50 * GP_MIB, &address) != 0;
  sem_post(&has_waited);
}

/* The memory that a request needs is in the search of another thread, which freed it before. */
START_TEST(test_waits_for_the_search_of_another_thread)
{
  begin_with(SETTINGS(STALE, types[_i]), 64 * GP_MIB);
  ck_assert_int_eq(free_code(allocate(50 * GP_MIB)), 0);
  sem_init(&is_searching, 0, 0);
  sem_init(&has_waited, 0, 0);
  driver.locked = true;
  driver.fill_takes = 1000000000;
  driver.on_pause = pause_of_both;
  failures = 0;
  gp_run_together(2, search_or_allocate);
  ck_assert_int_eq(failures, 0);
  stop_sound();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("damage_memory");
  TCase *tests = tcase_create("damage_memory");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, test_limit, 0, TYPES);
  tcase_add_loop_test(tests, test_limit_with_unfilled_blocks, 0, TYPES);
  tcase_add_loop_test(tests, test_full_device_with_two_contexts, 0, TYPES);
  tcase_add_test(tests, test_full_device_with_pending_memory);
  tcase_add_loop_test(tests, test_empty_cache, 0, TYPES);
  tcase_add_loop_test(tests, test_trim, 0, TYPES);
  tcase_add_loop_test(tests, test_room_for_a_call, 0, TYPES);
  tcase_add_loop_test(tests, test_pooling_stops, 0, TYPES);
  tcase_add_test(tests, test_borrowed_block);
  tcase_add_loop_test(tests, test_prewarmed_memory, 0, TYPES);
  tcase_add_loop_test(tests, test_stream_ordered_memory, 0, 2);
  tcase_add_test(tests, test_zone_of_stream_ordered_memory);
  tcase_add_loop_test(tests, test_exported_memory, 0, TYPES);
  tcase_add_loop_test(tests, test_double_free, 0, TYPES);
  tcase_add_test(tests, test_double_free_during_a_search);
  tcase_add_loop_test(tests, test_threads, 0, 2 * TYPES);
  tcase_add_loop_test(tests, test_threads_that_need_all_memory, 0, TYPES);
  tcase_add_loop_test(tests, test_waits_for_the_search_of_another_thread, 0, TYPES);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
