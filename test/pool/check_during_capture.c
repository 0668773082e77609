/*
 * What the pool does beside stream captures, by whom they reach: it serves the threads to which CUDA
 * prohibits nothing from what it has, and calls the driver for the program only.
 */
#include "pool/engine_record.h"
#include "pool/records.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define BLOCK (GP_MIB / 2)

static gp_suspension_t capture;
static gp_reach_t next_reach;

static void *begin_capture(void *in)
{
  capture = gp_engine_suspend_in(engine, in, next_reach);
  return NULL;
}

/* In this thread, or in one that ends at once. */
static void begin(gp_reach_t reach, gp_context_t *in, bool in_this_thread)
{
  pthread_t thread;

  next_reach = reach;
  if (in_this_thread) {
    (void)begin_capture(in);
    return;
  }
  ck_assert_int_eq(pthread_create(&thread, NULL, begin_capture, in), 0);
  pthread_join(thread, NULL);
}

static void end(void)
{
  gp_engine_resume_in(engine, &capture);
}

/* So many idle blocks; two at most. */
static void make_idle(int count)
{
  uint64_t blocks[2];

  for (int i = 0; i < count; i++)
    blocks[i] = allocate(BLOCK);
  for (int i = 0; i < count; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  synchronize();
}

/* A free by the program; what is not the pool's the hook passes to the driver. */
static void free_as_program(uint64_t address)
{
  gp_forwarded_t memory;
  int code = 0;

  if (gp_engine_free(engine, address, &code) == GP_FREE_UNKNOWN) {
    ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, address, &memory));
    gp_driver_context_t current = fake_context(0, 0);
    code = driver.ops.free(&driver, &current, address);
    gp_engine_forwarded_freed(engine, &memory, 0, 0);
  }
  ck_assert_int_eq(code, 0);
}

/* Whether this thread's requests are served now, which takes no call of the driver, from an idle block. What
 * it frees is not idle then. */
static bool is_served(void)
{
  long calls = driver.calls;
  long fences = driver.count[FAKE_RECORD] + driver.count[FAKE_QUERY];
  uint64_t hits = stats().cache_hits;
  uint64_t block = allocate(BLOCK);

  bool hit = stats().cache_hits > hits;
  ck_assert_int_eq(driver.calls > calls, !hit);
  calls = driver.calls;
  free_as_program(block);
  ck_assert_int_eq(driver.calls > calls, !hit);
  ck_assert_int_eq(driver.count[FAKE_RECORD] + driver.count[FAKE_QUERY], fences);
  return hit;
}

static const struct {
  gp_reach_t reach;
  bool by_this_thread;
  bool is_served;
} captures[] = {
    {GP_REACH_NONE, false, true},
    {GP_REACH_NONE, true, true},
    {GP_REACH_THREAD, false, true},
    {GP_REACH_THREAD, true, false},
    {GP_REACH_THREADS, false, false},
    {GP_REACH_THREADS, true, false},
    {GP_REACH_EVERYTHING, false, false},
};

static const char *const types[][2] = {{NULL}, {"GPUPOOL_TYPE=segment", NULL}};

#define CAPTURES (int)(sizeof captures / sizeof *captures)

START_TEST(test_whom_a_capture_reaches)
{
  start(types[_i / CAPTURES], GP_GIB, true);
  make_idle(1);
  begin(captures[_i % CAPTURES].reach, context, captures[_i % CAPTURES].by_this_thread);
  ck_assert(gp_engine_is_suspended(engine)); /* for the engine's own calls */
  ck_assert_int_eq(is_served(), captures[_i % CAPTURES].is_served);
  end();
  ck_assert(!gp_engine_is_suspended(engine));
  synchronize();
  ck_assert(is_served());
  stop();
}
END_TEST

/* Where cudaFree waits, a capture reaches everything. */
START_TEST(test_strict_has_no_pool_beside_a_capture)
{
  static const char *const strict[] = {"GPUPOOL_REUSE=strict", NULL};
  start(strict, GP_GIB, true);
  make_idle(1);
  begin(GP_REACH_NONE, context, false);
  ck_assert(!is_served());
  end();
  stop();
}
END_TEST

/* Nothing tells that the device has finished, so a block that was freed beside a capture stays deferred. */
START_TEST(test_what_is_freed_beside_a_capture_waits)
{
  start(types[_i], GP_GIB, true);
  uint64_t block = allocate(BLOCK);
  fake_submit(&driver, 0, block);
  begin(GP_REACH_THREAD, context, false);
  long calls = driver.calls;
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_int_eq(driver.calls, calls);
  ck_assert_int_eq(free_code(block), FAKE_INVALID_VALUE); /* a double free */
  ck_assert_uint_ne(allocate(BLOCK), block);
  synchronize(); /* it could be one that CUDA calls invalid */
  ck_assert_uint_ne(allocate(BLOCK), block);
  end();
  synchronize();
  ck_assert_uint_eq(allocate(BLOCK), block);
  stop();
}
END_TEST

#define MISSED (100 * GP_MIB + 1)

/* The driver makes what is missing: a block that the pool does not keep, of the size that was asked for. */
START_TEST(test_a_miss_is_forwarded)
{
  start(types[_i], GP_GIB, true);
  make_idle(1);
  begin(GP_REACH_THREAD, context, false);
  uint64_t used = driver.used;
  long calls = driver.calls;
  uint64_t missed = allocate(MISSED);
  ck_assert_uint_eq(driver.used - used, MISSED);
  ck_assert_int_eq(driver.calls, calls + 1);
  ck_assert_int_eq(gp_engine_owner(engine, missed), GP_OWNER_UNKNOWN);
  ck_assert_uint_eq(stats().passthrough_bytes.current, MISSED);
  end();
  stop();
}
END_TEST

/* Known to be complete before the capture began, and in the queue still. */
START_TEST(test_what_was_complete_is_handed_out)
{
  uint64_t blocks[12];

  start(NULL, GP_GIB, true);
  for (int i = 0; i < 12; i++)
    blocks[i] = allocate(i == 11 ? BLOCK : 4096);
  for (int i = 0; i < 12; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  synchronize();
  begin(GP_REACH_NONE, context, false);
  ck_assert_uint_eq(allocate(BLOCK), blocks[11]);
  end();
  stop();
}
END_TEST

/* The driver may refuse the free of a thread that captures, of a part of a segment, too. */
START_TEST(test_a_thread_that_captures_has_the_driver_answer)
{
  start(types[_i], GP_GIB, true);
  uint64_t block = allocate(BLOCK);
  begin(GP_REACH_THREAD, context, true);
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_STICKY + 200;
  ck_assert_int_eq(free_code(block), FAKE_STICKY + 200);
  ck_assert_int_eq(gp_engine_owner(engine, block), GP_OWNER_PROGRAM);
  end();
  ck_assert_int_eq(free_code(block), 0);
  stop();
}
END_TEST

/* Captures of several threads; where the places for these are full all threads are reached. */
START_TEST(test_more_captures_than_places)
{
  gp_suspension_t all[GP_CAPTURERS + 1];

  start(NULL, GP_GIB, true);
  make_idle(2);
  for (int i = 0; i < GP_CAPTURERS; i++) {
    begin(GP_REACH_THREAD, context, i == 0);
    all[i] = capture;
  }
  ck_assert(!is_served());
  gp_engine_resume_in(engine, &all[0]);
  ck_assert(is_served());
  begin(GP_REACH_THREAD, NULL, false);
  all[0] = capture;
  begin(GP_REACH_THREAD, context, false);
  all[GP_CAPTURERS] = capture;
  ck_assert(!is_served());
  gp_engine_resume_in(engine, &all[GP_CAPTURERS]);
  ck_assert(is_served());
  for (int i = 0; i < GP_CAPTURERS; i++)
    gp_engine_resume_in(engine, &all[i]);
  ck_assert(!gp_engine_is_suspended(engine));
  stop();
}
END_TEST

/* The thread goes on with another context. */
START_TEST(test_a_capture_goes_with_its_context)
{
  gp_driver_context_t other = fake_context(1, 0);

  start(NULL, GP_GIB, true);
  gp_context_t *second = gp_engine_context(engine, &other);
  make_idle(1);
  begin(GP_REACH_THREAD, second, true);
  gp_suspension_t first = capture;
  begin(GP_REACH_THREAD, second, false);
  gp_engine_context_lost(engine, second);
  ck_assert(!gp_engine_is_suspended(engine));
  end();
  gp_engine_resume_in(engine, &first);
  begin(GP_REACH_NONE, context, false);
  ck_assert(is_served());
  end();
  stop();
}
END_TEST

static const char *const whole[] = {"GPUPOOL_TYPE=round", NULL};

/* A free of much memory records no fence beside a capture: it is the driver's. What was freed before the
 * capture, and beside it, counts. */
START_TEST(test_much_memory_goes_back)
{
  uint64_t blocks[12];

  start(whole, 16 * GP_GIB, true);
  for (int i = 0; i < 12; i++)
    blocks[i] = allocate(32 * GP_MIB);
  begin(GP_REACH_NONE, context, false);
  for (int i = 0; i < 12; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 5); /* 256 MiB are a 64th of the device */
  ck_assert_uint_eq(stats().deferred_bytes.current, 224 * GP_MIB);
  end();
  stop();
}
END_TEST

/* The wish for a fence is not lost: the first free after the capture records one. */
START_TEST(test_the_first_free_afterwards_records_a_fence)
{
  uint64_t blocks[9];

  start(types[1], GP_GIB, true);
  for (int i = 0; i < 9; i++)
    blocks[i] = allocate(2 * GP_MIB);
  fake_submit(&driver, 0, blocks[0]);
  begin(GP_REACH_NONE, context, false);
  for (int i = 0; i < 8; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  end();
  ck_assert_int_eq(driver.count[FAKE_RECORD], 0);
  ck_assert_int_eq(free_code(blocks[8]), 0);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("during_capture");
  TCase *tests = tcase_create("captures");
  tcase_add_loop_test(tests, test_whom_a_capture_reaches, 0, 2 * CAPTURES);
  tcase_add_test(tests, test_strict_has_no_pool_beside_a_capture);
  tcase_add_loop_test(tests, test_what_is_freed_beside_a_capture_waits, 0, 2);
  tcase_add_loop_test(tests, test_a_miss_is_forwarded, 0, 2);
  tcase_add_test(tests, test_what_was_complete_is_handed_out);
  tcase_add_loop_test(tests, test_a_thread_that_captures_has_the_driver_answer, 0, 2);
  tcase_add_test(tests, test_more_captures_than_places);
  tcase_add_test(tests, test_a_capture_goes_with_its_context);
  tcase_add_test(tests, test_much_memory_goes_back);
  tcase_add_test(tests, test_the_first_free_afterwards_records_a_fence);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
