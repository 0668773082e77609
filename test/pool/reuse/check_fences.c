/*
 * Fences over contexts: which frees record one, the short queue of each context, and what is concluded from
 * the driver's answers. Over the fake driver.
 */
#include "pool/reuse/fences.h"

#include "pool/reuse/mode.h"
#include "pool/limits/reclaim.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define MIB(number) ((number)*GP_MIB)

/* A call of the driver takes so long, where a test wants that. */
static int (*real_record)(void *self, const gp_driver_context_t *key, void **fence);
static uint64_t record_ns;

static int record_slowly(void *self, const gp_driver_context_t *key, void **fence)
{
  driver.now_ns += record_ns;
  return real_record(self, key, fence);
}

static void let_records_take(uint64_t ns)
{
  real_record = driver.ops.fence_record;
  driver.ops.fence_record = record_slowly;
  record_ns = ns;
}

/* The time budget of early fences is used up permanently. */
static void spend_all_time(void)
{
  atomic_store(&engine->fences_due_ns, UINT64_MAX);
}

/*
 * Which frees need a fence. A device of 1 GiB; bytes: of frees, one after the other; records: after each, how
 * many fences it has.
 */
static const struct {
  const char *name;
  const char *settings[2];
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
    {"a 64th of the limit", {"GPUPOOL_RESERVE=0", "GPUPOOL_LIMIT=512MiB"}, 0, 0, {MIB(6), MIB(2), MIB(8)},
        {0, 1, 2}},
};

START_TEST(test_which_frees_need_a_fence)
{
  uint64_t blocks[3] = {0};

  const char *settings[4] = {"GPUPOOL_MAX_DEFERRED=none"};
  for (int i = 0; i < 2 && frees[_i].settings[i]; i++)
    settings[i + 1] = frees[_i].settings[i];
  start(settings, GP_GIB, true);
  spend_all_time();
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

static void free_with_work(uint64_t block)
{
  fake_submit(&driver, 0, block);
  ck_assert_int_eq(free_code(block), 0);
}

/* Ahead of need: of two MiB in sum, and a 64th of what is live, on a device that is far from full. */
START_TEST(test_frees_record_fences_ahead_of_need)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_MAX_DEFERRED=none", NULL}, 64 * GP_GIB, true);
  uint64_t held = allocate(MIB(512)), first = allocate(MIB(6)), second = allocate(MIB(2));
  uint64_t third = allocate(MIB(4));
  free_with_work(first);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 0); /* less than a 64th */
  free_with_work(second);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 0); /* eight MiB of 516 */
  free_with_work(third);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  free_with_work(held);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 2);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_no_fence_ahead_of_need_while_more_is_idle_than_deferred)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_MAX_DEFERRED=none", NULL}, 64 * GP_GIB, true);
  uint64_t idle = allocate(MIB(16)), little = allocate(MIB(12)), more = allocate(MIB(5));
  ck_assert_int_eq(free_code(idle), 0);
  synchronize();
  long records = driver.count[FAKE_RECORD];
  free_with_work(little);
  ck_assert_int_eq(driver.count[FAKE_RECORD], records);
  free_with_work(more);
  ck_assert_int_eq(driver.count[FAKE_RECORD], records + 1);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_what_a_synchronization_has_covered_does_not_count)
{
  static uint64_t little[300];

  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_MAX_DEFERRED=none", NULL}, 64 * GP_GIB, true);
  (void)allocate(MIB(640)); /* a 64th is ten MiB */
  for (int i = 0; i < 300; i++)
    little[i] = allocate(32768);
  uint64_t last = allocate(MIB(1));
  for (int i = 0; i < 300; i++)
    free_with_work(little[i]);
  synchronize();
  free_with_work(last);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_fences_ahead_of_need_take_a_hundredth_of_the_time)
{
  uint64_t blocks[4];

  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_MAX_DEFERRED=none", NULL}, 64 * GP_GIB, true);
  for (int i = 0; i < 4; i++)
    blocks[i] = allocate(MIB(4));
  driver.now_ns = UINT64_C(1000000000);
  let_records_take(1000);
  atomic_store(&engine->fences_due_ns, driver.now_ns); /* nothing is saved up */
  free_with_work(blocks[0]);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  free_with_work(blocks[1]);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  driver.now_ns = UINT64_C(1000000000) + 100 * 1000 - 1;
  free_with_work(blocks[2]);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  driver.now_ns++;
  free_with_work(blocks[3]);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 2);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* One that is needed is recorded all the same, and is not on their account. */
START_TEST(test_fences_ahead_of_need_do_not_pay_for_others)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_MAX_DEFERRED=none", NULL}, GP_GIB, true);
  uint64_t needed = allocate(MIB(64)), ahead = allocate(MIB(2));
  driver.now_ns = UINT64_C(1000000000);
  let_records_take(1000000);
  atomic_store(&engine->fences_due_ns, driver.now_ns + 1);
  free_with_work(needed);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  free_with_work(ahead);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 2);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_a_program_that_rests_saves_up_for_an_instant)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_MAX_DEFERRED=none", NULL}, 256 * GP_GIB, true);
  driver.now_ns = UINT64_C(1000000000000);
  let_records_take(1000);
  for (int i = 0; i < 600; i++)
    free_with_work(allocate(MIB(4)));
  ck_assert_int_ge(driver.count[FAKE_RECORD], 500); /* half a millisecond in all */
  ck_assert_int_le(driver.count[FAKE_RECORD], 510);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* 0: the device has no work. */
START_TEST(test_a_miss_asks_where_blocks_of_its_size_are_deferred)
{
  start(NULL, GP_GIB, true);
  uint64_t block = allocate(4096);
  (void)allocate(8192);
  if (_i)
    fake_submit(&driver, 0, block);
  ck_assert_int_eq(free_code(block), 0);
  uint64_t other = allocate(8192);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 0);
  ck_assert_int_eq(free_code(other), 0);
  uint64_t second = allocate(4096);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  ck_assert(_i ? second != block : second == block);
  fake_complete(&driver, 0);
  if (_i)
    ck_assert_uint_eq(allocate(4096), block);
  ck_assert_uint_eq(allocate(8192), other); /* what was freed before the fence */
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  stop();
}
END_TEST

/* However little is deferred, and of whatever sizes: it would grow by a segment. */
START_TEST(test_a_miss_asks_before_the_pool_grows_by_a_segment)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_TYPE=segment", NULL}, 64 * GP_GIB, true);
  spend_all_time();
  uint64_t first = allocate(MIB(1));
  (void)allocate(driver.used - MIB(1)); /* the rest of the segment */
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  ck_assert_int_eq(free_code(first), 0);
  ck_assert_uint_eq(allocate(MIB(1) / 2), first);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  stop();
}
END_TEST

START_TEST(test_beyond_its_time_a_miss_asks_before_the_pool_grows_much)
{
  uint64_t blocks[9];

  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_MAX_DEFERRED=none", NULL}, 64 * GP_GIB, true);
  spend_all_time();
  for (int i = 0; i < 9; i++)
    blocks[i] = allocate(4096);
  uint64_t large = allocate(MIB(2)), larger = allocate(MIB(2));
  for (int i = 0; i < 8; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  (void)allocate(4096);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 0);
  ck_assert_int_eq(free_code(blocks[8]), 0);
  (void)allocate(4096);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);

  ck_assert_int_eq(free_code(large), 0);
  ck_assert_uint_ne(allocate(MIB(2)), large);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 1);
  ck_assert_int_eq(free_code(larger), 0);
  uint64_t again = allocate(MIB(2));
  ck_assert(again == larger || again == large);
  ck_assert_int_eq(driver.count[FAKE_RECORD], 2);
  stop();
}
END_TEST

/* A block is freed beside work, without a fence; more of them are there to be freed. */
static uint64_t spare[8];

static void begin(void)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_MAX_DEFERRED=none", NULL}, GP_GIB, true);
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
  free_with_work(spare[i]);
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

/* All at one time: the newest is recorded again. */
START_TEST(test_a_full_queue_takes_a_fence_all_the_same)
{
  uint64_t epochs[7], work = 0;

  begin();
  for (int i = 0; i < 10; i++) {
    ck_assert(gp_fences_record_at_free(engine, context->device));
    if (i < 7)
      epochs[i] = atomic_load(&engine->epoch) - 1;
    if (i == 6)
      work = driver.submitted[0];
    if (i < 7 || i == 9)
      free_next(i < 7 ? i : 7);
  }
  ck_assert_uint_eq(context->fences.count, 8);
  ck_assert_int_eq(driver.fence_count, 8);
  for (int i = 0; i < 7; i++)
    ck_assert_uint_eq(context->fences.slots[i].epoch, epochs[i]);
  driver.completed[0] = work;
  ck_assert(gp_fences_poll(engine));
  ck_assert_uint_eq(completed(), epochs[6]);
  driver.completed[0] = driver.submitted[0] - 1;
  gp_reclaim_poll(engine);
  ck_assert_uint_eq(stats().deferred_bytes.current, 4096); /* the last one was freed behind all fences */
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* Recorded at these times; what is left is spread over all of the time. */
START_TEST(test_a_full_queue_gives_up_the_fence_that_tells_least)
{
  static const uint64_t times[] = {10, 20, 30, 40, 50, 60, 62, 70, 100, 200, 300};
  static const uint64_t left[] = {10, 20, 30, 50, 70, 100, 200, 300};

  begin();
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    driver.now_ns = 1000 + times[i];
    ck_assert(gp_fences_record_at_free(engine, context->device));
  }
  ck_assert_uint_eq(context->fences.count, 8);
  ck_assert_int_eq(driver.fence_count, 8);
  for (unsigned i = 0; i < 8; i++)
    ck_assert_uint_eq(context->fences.slots[i].recorded_ns, 1000 + left[i]);
  fake_complete(&driver, 0);
  gp_reclaim_poll(engine);
  ck_assert_uint_eq(stats().deferred_bytes.current, 0);
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
  ck_assert(!gp_fences_poll(engine));
  ck_assert(!gp_fences_record_at_free(engine, context->device));
  ck_assert(!gp_fences_are_quiet(engine, NULL));
  stop();
}
END_TEST
/* As by another thread, when the driver has waited and has not returned. */
static int (*real_wait)(void *self, const gp_driver_context_t *key);
static uint64_t freed_meanwhile;

static int wait_then_free(void *self, const gp_driver_context_t *key)
{
  int code = real_wait(self, key);
  fake_submit(&driver, 0, freed_meanwhile);
  ck_assert_int_eq(free_code(freed_meanwhile), 0);
  return code;
}

START_TEST(test_a_free_during_a_wait_is_not_covered)
{
  start(NULL, GP_GIB, false);
  uint64_t before = allocate(4096);
  freed_meanwhile = allocate(8192);
  ck_assert_int_eq(free_code(before), 0);
  real_wait = driver.ops.wait;
  driver.ops.wait = wait_then_free;
  ck_assert_int_eq(gp_fences_wait_context(engine, context), 0);
  gp_reclaim(engine);
  ck_assert_uint_eq(stats().deferred_bytes.current, 8192);
  ck_assert_uint_eq(allocate(4096), before);
  ck_assert_uint_ne(allocate(8192), freed_meanwhile);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("fences");
  TCase *tests = tcase_create("fences");
  tcase_add_loop_test(tests, test_which_frees_need_a_fence, 0, sizeof frees / sizeof *frees);
  tcase_add_test(tests, test_frees_record_fences_ahead_of_need);
  tcase_add_test(tests, test_no_fence_ahead_of_need_while_more_is_idle_than_deferred);
  tcase_add_test(tests, test_what_a_synchronization_has_covered_does_not_count);
  tcase_add_test(tests, test_fences_ahead_of_need_take_a_hundredth_of_the_time);
  tcase_add_test(tests, test_fences_ahead_of_need_do_not_pay_for_others);
  tcase_add_test(tests, test_a_program_that_rests_saves_up_for_an_instant);
  tcase_add_loop_test(tests, test_a_miss_asks_where_blocks_of_its_size_are_deferred, 0, 2);
  tcase_add_test(tests, test_a_miss_asks_before_the_pool_grows_by_a_segment);
  tcase_add_test(tests, test_beyond_its_time_a_miss_asks_before_the_pool_grows_much);
  tcase_add_test(tests, test_a_poll_keeps_one_fence_outstanding);
  tcase_add_test(tests, test_fences_pass_in_their_order);
  tcase_add_test(tests, test_a_full_queue_takes_a_fence_all_the_same);
  tcase_add_test(tests, test_a_full_queue_gives_up_the_fence_that_tells_least);
  tcase_add_test(tests, test_a_fence_at_a_free_is_told_from_others);
  tcase_add_test(tests, test_a_fence_that_fails_says_nothing);
  tcase_add_test(tests, test_an_error_that_stays_ends_pooling);
  tcase_add_loop_test(tests, test_a_context_that_has_ended_is_asked_once, 0, 2);
  tcase_add_test(tests, test_fences_of_another_thread_are_left_alone);
  tcase_add_loop_test(tests, test_the_device_is_quiet_if_every_context_is, 0, 2);
  tcase_add_test(tests, test_when_nothing_is_asked);
  tcase_add_test(tests, test_a_free_during_a_wait_is_not_covered);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
