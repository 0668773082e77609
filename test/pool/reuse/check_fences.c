/*
 * Fences over contexts: which frees record one, the short queue of each context, and what is concluded from
 * the driver's answers. Over the fake driver.
 */
#include "pool/reuse/fences.h"

#include "pool/mode.h"
#include "pool/reclaim.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define MIB(number) ((number)*GP_MIB)

/* A device of 1 GiB; bytes: of frees, one after the other; records: after each, how many fences it has. */
static const struct {
  const char *name;
  const char *settings[4];
  uint64_t held, deferred;
  uint64_t bytes[3];
  int records[3];
} frees[] = {
    {"a 64th of the device, in sum", {"GPUPOOL_RESERVE=0"}, 0, 0, {MIB(12), MIB(4), MIB(12)}, {0, 1, 1}},
    {"at once", {"GPUPOOL_RESERVE=0"}, 0, 0, {MIB(16), MIB(1), MIB(16)}, {1, 1, 2}},
    {"little of what is live", {"GPUPOOL_RESERVE=512MiB"}, MIB(640), 0, {MIB(8), MIB(1), MIB(2)}, {0, 0, 1}},
    {"nearly full", {"GPUPOOL_RESERVE=256MiB"}, MIB(560), 0, {MIB(10), MIB(1), MIB(10)}, {1, 1, 2}},
    {"not nearly", {"GPUPOOL_RESERVE=64MiB"}, MIB(560), 0, {MIB(10), MIB(1), MIB(1)}, {0, 0, 0}},
    {"two MiB at least", {"GPUPOOL_RESERVE=1GiB"}, 0, 0, {MIB(1), MIB(1), MIB(1)}, {0, 1, 1}},
    {"near the limit", {"GPUPOOL_RESERVE=0", "GPUPOOL_LIMIT=640MiB"}, MIB(256), MIB(320),
        {MIB(8), MIB(1), MIB(48)}, {1, 1, 2}},
    {"far from it", {"GPUPOOL_RESERVE=0", "GPUPOOL_LIMIT=640MiB"}, MIB(256), MIB(192),
        {MIB(8), MIB(1), MIB(0)}, {0, 0, 0}},
    {"a 64th of the limit", {"GPUPOOL_RESERVE=0", "GPUPOOL_LIMIT=256MiB"}, 0, 0, {MIB(3), MIB(1), MIB(4)},
        {0, 1, 2}},
};

START_TEST(test_which_frees_record_a_fence)
{
  uint64_t blocks[3] = {0};

  start(frees[_i].settings, GP_GIB, true);
  if (frees[_i].held > 0)
    (void)allocate(frees[_i].held);
  uint64_t deferred = frees[_i].deferred > 0 ? allocate(frees[_i].deferred) : 0;
  for (int i = 0; i < 3; i++)
    if (frees[_i].bytes[i] > 0)
      blocks[i] = allocate(frees[_i].bytes[i]);
  if (deferred) {
    fake_submit(&driver, 0, deferred);
    (void)free_code(deferred);
    ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
    driver.count[FAKE_RECORD] = 0;
  }
  for (int i = 0; i < 3; i++) {
    if (blocks[i] == 0)
      continue;
    fake_submit(&driver, 0, blocks[i]);
    (void)free_code(blocks[i]);
    ck_assert_msg(driver.count[FAKE_RECORD] == frees[_i].records[i], "%s: free %d: %ld records",
        frees[_i].name, i, driver.count[FAKE_RECORD]);
  }
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* A block is freed beside work, without a fence; more of them are there to be freed. */
static uint64_t spare[8];

static void begin(void)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  for (int i = 0; i < 8; i++)
    spare[i] = allocate(4096);
  uint64_t block = allocate(4096);
  fake_submit(&driver, 0, block);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 0);
}

/* One more free with work of its own. */
static void free_next(int i)
{
  fake_submit(&driver, 0, spare[i]);
  ck_assert_int_eq(free_code(spare[i]), 0);
}

static uint64_t completed(void)
{
  return atomic_load(&context->completed);
}

START_TEST(test_a_poll_keeps_one_fence_outstanding)
{
  begin();
  ck_assert(gp_fences_poll(engine));
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  free_next(0);
  ck_assert(gp_fences_poll(engine));
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  driver.completed[0] = driver.submitted[0] - 1; /* all that the fence covers */
  ck_assert(gp_fences_poll(engine));
  ck_assert_int_eq(driver.count[FAKE_RECORD], 2); /* for the block that was freed after it */
  fake_complete(&driver, 0);
  ck_assert(gp_fences_poll(engine));
  ck_assert_int_eq(driver.count[FAKE_RECORD], 2); /* everything freed is covered */
  long queries = driver.count[FAKE_QUERY];
  ck_assert(gp_fences_poll(engine));
  ck_assert_int_eq(driver.count[FAKE_QUERY], queries);
  stop();
}
END_TEST

START_TEST(test_fences_pass_in_their_order)
{
  uint64_t work[4], epochs[4];

  begin();
  for (int i = 0; i < 4; i++) {
    ck_assert(gp_fences_record_at_free(engine, context->device));
    work[i] = driver.submitted[0];
    epochs[i] = atomic_load(&engine->epoch) - 1;
    free_next(i);
  }
  ck_assert_uint_eq(context->fences.count, 4);
  ck_assert_uint_eq(completed(), 0);
  driver.completed[0] = work[1];
  ck_assert(gp_fences_poll(engine));
  ck_assert_uint_eq(completed(), epochs[1]);
  ck_assert_uint_eq(context->fences.count, 2);
  driver.completed[0] = work[3];
  ck_assert(gp_fences_record_at_free(engine, context->device)); /* this asks, too */
  ck_assert_uint_eq(completed(), epochs[3]);
  ck_assert_uint_eq(context->fences.count, 1);
  fake_complete(&driver, 0);
  gp_reclaim_poll(engine);
  ck_assert_uint_eq(stats().deferred_bytes.current, 0);
  ck_assert_int_eq(driver.fence_count, 4); /* used again */
  stop();
}
END_TEST

START_TEST(test_where_the_queue_is_full_the_newest_fence_is_recorded_again)
{
  uint64_t epochs[3], work = 0;

  begin();
  for (int i = 0; i < 7; i++) {
    ck_assert(gp_fences_record_at_free(engine, context->device));
    if (i < 3)
      epochs[i] = atomic_load(&engine->epoch) - 1;
    if (i == 2)
      work = driver.submitted[0];
    free_next(i);
  }
  ck_assert_uint_eq(context->fences.count, 4);
  ck_assert_int_eq(driver.fence_count, 4);
  for (int i = 0; i < 3; i++)
    ck_assert_uint_eq(context->fences.slots[i].epoch, epochs[i]);
  driver.completed[0] = work;
  ck_assert(gp_fences_poll(engine));
  ck_assert_uint_eq(completed(), epochs[2]);
  driver.completed[0] = driver.submitted[0] - 1;
  gp_reclaim_poll(engine);
  ck_assert_uint_eq(stats().deferred_bytes.current, 4096); /* the last one was freed behind all fences */
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_a_fence_at_a_free_is_told_from_others)
{
  begin();
  ck_assert(gp_fences_poll(engine));
  ck_assert_uint_eq(atomic_load(&context->fences.at_free_epoch), 0);
  ck_assert_uint_eq(atomic_load(&context->fences.recorded_ns), driver.now_ns);
  uint64_t first_ns = driver.now_ns;
  driver.now_ns += 1000;
  free_next(0);
  ck_assert(gp_fences_record_at_free(engine, context->device));
  ck_assert_uint_eq(atomic_load(&context->fences.at_free_epoch), atomic_load(&engine->epoch) - 1);
  ck_assert_uint_eq(atomic_load(&context->fences.recorded_ns), first_ns); /* of the oldest */
  fake_complete(&driver, 0);
  ck_assert(gp_fences_poll(engine));
  ck_assert_uint_eq(atomic_load(&context->fences.at_free_epoch), 0);
  ck_assert_uint_eq(atomic_load(&context->fences.recorded_ns), 0);
  stop();
}
END_TEST

START_TEST(test_a_fence_that_fails_says_nothing)
{
  begin();
  ck_assert(gp_fences_poll(engine));
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_INVALID_VALUE;
  driver.completed[0] = driver.submitted[0];
  ck_assert(gp_fences_poll(engine)); /* the query fails: another one is recorded */
  ck_assert_uint_eq(completed(), 0);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 2);
  ck_assert(gp_fences_poll(engine));
  ck_assert_uint_gt(completed(), 0);

  free_next(0);
  uint64_t before = completed();
  driver.fail_at = driver.calls + 1;
  ck_assert(gp_fences_poll(engine)); /* the record fails: none is outstanding */
  ck_assert_uint_eq(context->fences.count, 0);
  fake_complete(&driver, 0);
  ck_assert(gp_fences_poll(engine));
  ck_assert_uint_eq(completed(), before);
  ck_assert(gp_fences_poll(engine));
  ck_assert_uint_gt(completed(), before);
  stop();
}
END_TEST

START_TEST(test_an_error_that_stays_ends_pooling)
{
  begin();
  ck_assert(gp_fences_poll(engine));
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_STICKY;
  ck_assert(gp_fences_poll(engine));
  ck_assert_int_eq(gp_engine_service(engine), GP_SERVICE_DEAD);
  long calls = driver.calls;
  ck_assert(!gp_fences_poll(engine));
  ck_assert(!gp_fences_record_at_free(engine, context->device));
  ck_assert(!gp_fences_are_quiet(engine, NULL));
  ck_assert_int_eq(driver.calls, calls);
  ck_assert_uint_eq(completed(), 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_a_context_that_has_ended_is_asked_once)
{
  begin();
  for (int i = 0; i < 3; i++) {
    ck_assert(gp_fences_record_at_free(engine, context->device));
    free_next(i);
  }
  driver.has_ended[0] = true;
  long queries = driver.count[FAKE_QUERY], records = driver.count[FAKE_RECORD];
  ck_assert(_i ? gp_fences_record_at_free(engine, context->device) : gp_fences_poll(engine));
  ck_assert_int_eq(driver.count[FAKE_QUERY], queries + 1);
  ck_assert_int_eq(driver.count[FAKE_RECORD], records);
  gp_reclaim(engine);
  ck_assert(gp_context_is_lost(context));
  ck_assert(gp_fences_are_quiet(engine, NULL));
  ck_assert_int_eq(driver.count[FAKE_QUERY], queries + 1);
  gp_engine_destroy(engine); /* the driver keeps what the context had */
  fake_driver_fini(&driver);
}
END_TEST

/* Of another thread that is at a driver call about the fences. */
START_TEST(test_fences_of_another_thread_are_left_alone)
{
  begin();
  (void)atomic_flag_test_and_set(&context->fences.busy);
  ck_assert(gp_fences_poll(engine));
  ck_assert(gp_fences_record_at_free(engine, context->device));
  ck_assert(!gp_fences_are_quiet(engine, NULL));
  ck_assert_int_eq(driver.count[FAKE_RECORD] + driver.count[FAKE_QUERY], 0);
  atomic_flag_clear(&context->fences.busy);
  fake_complete(&driver, 0);
  ck_assert(gp_fences_are_quiet(engine, NULL));
  stop();
}
END_TEST

START_TEST(test_the_device_is_quiet_if_every_context_is)
{
  gp_driver_context_t other = fake_context(1, 1); /* on another device: a context reaches all memory */
  start(NULL, GP_GIB, true);
  (void)gp_engine_context(engine, &other);
  uint64_t block = allocate(4096);
  ck_assert(gp_fences_are_quiet(engine, NULL));
  ck_assert_int_eq(driver.count[FAKE_RECORD], 2);
  fake_submit(&driver, _i, block);
  ck_assert(!gp_fences_are_quiet(engine, NULL));
  fake_submit(&driver, _i, block);
  driver.completed[_i] = driver.submitted[_i] - 1;
  ck_assert(!gp_fences_are_quiet(engine, NULL)); /* the old fence has passed, a new one has not */
  fake_complete(&driver, _i);
  ck_assert(gp_fences_are_quiet(engine, NULL));

  driver.fail_at = driver.calls + 1 + 2 * _i; /* record, then query, of each */
  driver.fail_code = FAKE_INVALID_VALUE;
  ck_assert(!gp_fences_are_quiet(engine, NULL));
  driver.fail_at = driver.calls + 2 + 2 * _i;
  ck_assert(!gp_fences_are_quiet(engine, NULL));
  ck_assert(gp_fences_are_quiet(engine, NULL));
  stop();
}
END_TEST

START_TEST(test_when_nothing_is_asked)
{
  begin();
  fake_complete(&driver, 0);
  gp_engine_suspend(engine);
  ck_assert(!gp_fences_poll(engine));
  ck_assert(!gp_fences_record_at_free(engine, context->device));
  ck_assert(!gp_fences_are_quiet(engine, NULL));
  ck_assert_int_eq(driver.count[FAKE_RECORD] + driver.count[FAKE_QUERY], 0);
  gp_engine_resume(engine);
  gp_engine_stop_pooling(engine);
  ck_assert(!gp_fences_poll(engine));
  ck_assert(gp_fences_are_quiet(engine, NULL)); /* what was kept is to go back */
  stop();

  start(NULL, GP_GIB, false);
  ck_assert(!gp_fences_can_poll(engine));
  ck_assert(!gp_fences_record_at_free(engine, context->device));
  ck_assert(!gp_fences_are_quiet(engine, NULL));
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("fences");
  TCase *tests = tcase_create("fences");
  tcase_add_loop_test(tests, test_which_frees_record_a_fence, 0, sizeof frees / sizeof *frees);
  tcase_add_test(tests, test_a_poll_keeps_one_fence_outstanding);
  tcase_add_test(tests, test_fences_pass_in_their_order);
  tcase_add_test(tests, test_where_the_queue_is_full_the_newest_fence_is_recorded_again);
  tcase_add_test(tests, test_a_fence_at_a_free_is_told_from_others);
  tcase_add_test(tests, test_a_fence_that_fails_says_nothing);
  tcase_add_test(tests, test_an_error_that_stays_ends_pooling);
  tcase_add_loop_test(tests, test_a_context_that_has_ended_is_asked_once, 0, 2);
  tcase_add_test(tests, test_fences_of_another_thread_are_left_alone);
  tcase_add_loop_test(tests, test_the_device_is_quiet_if_every_context_is, 0, 2);
  tcase_add_test(tests, test_when_nothing_is_asked);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
