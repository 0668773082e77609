/* Reuse mode `single`: memory is handed out at once, what ends that for good, and what has to be settled
 * then. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "pool/reuse/single.h"
#include "pool/device_record.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define WHY      "the test says so"
#define STREAM_A UINT64_C(0x10000010)
#define STREAM_B UINT64_C(0x10000020)

static const char *const single_mode[] = {"GPUPOOL_REUSE=single", "GPUPOOL_RESERVE=0", NULL};

static void complete_first(void)
{
  fake_complete(&driver, 0);
}

/* What a thread waits for while it sleeps is complete then. */
static void begin(void)
{
  start(single_mode, GP_GIB, true);
  driver.on_pause = complete_first;
}

static long own_calls(void)
{
  return driver.count[FAKE_RECORD] + driver.count[FAKE_ENTER_STREAM] + driver.count[FAKE_QUERY] +
         driver.count[FAKE_WAIT] + driver.count[FAKE_STREAM_WAIT];
}

/* A block of that size has been used by an owner whose work is pending, and is free. */
static uint64_t used_block(uint64_t bytes)
{
  uint64_t block = allocate(bytes);
  fake_submit(&driver, (int)(uintptr_t)context->driver.handle - 1, block);
  ck_assert_int_eq(free_code(block), 0);
  return block;
}

/* With a size that the test uses nowhere else. */
static bool reuses_at_once(uint64_t bytes)
{
  uint64_t block = used_block(bytes);
  return allocate(bytes) == block;
}

static void run_unordered(void)
{
  ck_assert(reuses_at_once(GP_MIB));
  ck_assert(gp_single_has_unordered(engine));
}

START_TEST(test_freed_memory_is_handed_out_at_once)
{
  begin();
  uint64_t first = allocate(GP_MIB);
  for (int i = 0; i < 100; i++) {
    ck_assert_int_eq(free_code(first), 0);
    ck_assert_uint_eq(allocate(GP_MIB), first);
  }
  ck_assert_int_eq(own_calls(), 0);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  ck_assert_uint_eq(stats().deferred_bytes.peak, GP_MIB); /* between the free and its end */
  stop();
}
END_TEST

START_TEST(test_unordered_is_memory_whose_earlier_owner_may_be_at_work)
{
  begin();
  uint64_t block = allocate(GP_MIB);
  ck_assert(!gp_single_has_unordered(engine));
  ck_assert_int_eq(free_code(block), 0);
  ck_assert(!gp_single_has_unordered(engine)); /* no owner has it */
  ck_assert_uint_eq(allocate(GP_MIB), block);
  ck_assert(gp_single_has_unordered(engine));
  ck_assert(!gp_single_is_over(engine));
  synchronize();
  ck_assert(!gp_single_has_unordered(engine));
  ck_assert_int_eq(free_code(block), 0);
  synchronize();
  ck_assert_uint_eq(allocate(GP_MIB), block);
  ck_assert(!gp_single_has_unordered(engine)); /* all work was over before it was handed out */
  ck_assert_int_eq(gp_single_end(engine, WHY), 0);
  ck_assert(gp_single_is_over(engine));
  ck_assert_int_eq(own_calls(), 0);
  stop();
}
END_TEST

START_TEST(test_a_stream_ends_it)
{
  begin();
  run_unordered();
  uint64_t withheld = used_block(2 * GP_MIB);
  ck_assert_int_eq(gp_single_end_for_stream(engine, STREAM_A, WHY), 0);
  ck_assert_uint_eq(driver.ordered, STREAM_A);
  ck_assert_int_eq(own_calls(), 3);                                     /* fence, question, wait */
  ck_assert(gp_single_has_unordered(engine));                           /* for other streams */
  ck_assert_int_eq(gp_single_end_for_stream(engine, STREAM_B, WHY), 0); /* each stream for itself */
  ck_assert_uint_eq(driver.ordered, STREAM_B);
  ck_assert_int_eq(own_calls(), 5);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 1); /* a later fence would come behind A's work */
  ck_assert(!reuses_at_once(3 * GP_MIB));
  uint64_t other = allocate(2 * GP_MIB);
  ck_assert_uint_ne(other, withheld); /* idle, but handed out only when that work is known to be over */
  ck_assert(!gp_single_is_over(engine));
  long calls = own_calls();
  synchronize();
  ck_assert_int_eq(gp_single_end_for_stream(engine, STREAM_A, WHY), 0);
  ck_assert_int_eq(own_calls(), calls);
  ck_assert_uint_eq(allocate(2 * GP_MIB), withheld);
  ck_assert(!gp_single_has_unordered(engine) && gp_single_is_over(engine));
  ck_assert(!reuses_at_once(5 * GP_MIB)); /* for good */
  stop();
}
END_TEST

/* The fence that the miss asks for has passed. */
START_TEST(test_what_is_withheld_serves_when_the_device_is_done)
{
  begin();
  uint64_t withheld = used_block(2 * GP_MIB);
  ck_assert_int_eq(gp_single_end(engine, WHY), 0);
  fake_complete(&driver, (int)(uintptr_t)context->driver.handle - 1);
  ck_assert_uint_eq(allocate(2 * GP_MIB), withheld);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  stop();
}
END_TEST

/* A thread's own, or one that CUDA's rule puts behind the default stream. */
START_TEST(test_a_stream_that_is_ordered_anyhow_costs_nothing)
{
  begin();
  run_unordered();
  ck_assert_int_eq(gp_single_end_for_stream(engine, 0, WHY), 0);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 0);
  ck_assert_uint_eq(driver.entered, GP_STREAM_LEGACY); /* the fence for streams that are not */
  ck_assert(!reuses_at_once(3 * GP_MIB));
  ck_assert(gp_single_has_unordered(engine));
  stop();
}
END_TEST

/* What other streams were given since does not matter. */
START_TEST(test_it_is_settled_when_the_default_stream_has_passed_the_fence)
{
  begin();
  run_unordered();
  ck_assert_int_eq(gp_single_end_for_stream(engine, 0, WHY), 0);
  fake_complete(&driver, 0);
  fake_submit(&driver, 0, allocate(7 * GP_MIB)); /* of another stream: it does not end */
  ck_assert(gp_single_has_unordered(engine));
  driver.on_pause = NULL;
  ck_assert_int_eq(gp_single_end(engine, WHY), 0);
  ck_assert(gp_single_is_over(engine));
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  ck_assert_int_eq(stats().host_waits, 0);
  stop();
}
END_TEST

START_TEST(test_a_driver_that_cannot_order_is_waited_for)
{
  begin();
  run_unordered();
  driver.fail_at = driver.calls + 3;
  driver.fail_code = FAKE_INVALID_VALUE;
  ck_assert_int_eq(gp_single_end_for_stream(engine, STREAM_A, WHY), 0);
  ck_assert_int_eq(driver.count[FAKE_STREAM_WAIT], 1);
  ck_assert_int_eq(stats().host_waits, 1);
  ck_assert(!gp_single_has_unordered(engine));
  stop();
}
END_TEST

START_TEST(test_without_a_fence_the_context_is_waited_for)
{
  begin();
  run_unordered();
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_INVALID_VALUE;
  ck_assert_int_eq(gp_single_end_for_stream(engine, STREAM_A, WHY), 0);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 1);
  ck_assert(!gp_single_has_unordered(engine));
  stop();
}
END_TEST

static int refuse_fence(void *self, const gp_driver_context_t *of, uint64_t stream, void **event)
{
  (void)self;
  (void)of;
  (void)stream;
  (void)event;
  return FAKE_INVALID_VALUE;
}

/* The next call is the wait for the context. */
static void refuse_the_wait(void)
{
  driver.ops.enter_stream = refuse_fence;
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_INVALID_VALUE;
}

START_TEST(test_a_wait_that_fails_leaves_it_unordered)
{
  begin();
  run_unordered();
  refuse_the_wait();
  ck_assert_int_eq(gp_single_end(engine, WHY), FAKE_INVALID_VALUE);
  ck_assert(gp_single_has_unordered(engine));
  ck_assert_int_eq(gp_single_end(engine, WHY), 0);
  ck_assert(!gp_single_has_unordered(engine));
  stop();
}
END_TEST

/* Through an export table, say: the driver's answer to the wait is the first that the library hears of it. */
START_TEST(test_a_context_that_ended_unseen_is_lost_with_the_wait)
{
  gp_driver_context_t other = fake_context(1, 0);

  begin();
  run_unordered();
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_GONE;
  ck_assert_ptr_nonnull(gp_engine_context(engine, &other));
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  ck_assert(gp_context_is_lost(context));
  ck_assert_uint_eq(stats().allocated_bytes.current, 0);
  stop();
}
END_TEST

START_TEST(test_a_context_that_ended_unseen_does_not_keep_its_suspension)
{
  gp_driver_context_t other = fake_context(1, 0);
  uint64_t address;

  begin();
  run_unordered();
  refuse_the_wait();
  gp_context_t *second = gp_engine_context(engine, &other);
  ck_assert(gp_single_has_unordered(engine));
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_GONE;
  ck_assert_int_eq(gp_single_end(engine, WHY), FAKE_GONE);
  ck_assert_ptr_eq(gp_engine_suspend_in(engine, context, GP_REACH_THREADS).owner, context);
  ck_assert_int_eq(gp_engine_alloc(engine, second, GP_MIB, &address), 0);
  ck_assert(!gp_engine_is_suspended(engine));
  ck_assert(gp_context_is_lost(context));
  stop();
}
END_TEST

START_TEST(test_a_context_that_ended_unseen_leaves_room_under_the_limit)
{
  static const char *const limited[] = {"GPUPOOL_REUSE=single", "GPUPOOL_LIMIT=4MiB", NULL};
  gp_driver_context_t other = fake_context(1, 0);
  uint64_t address;

  start(limited, GP_GIB, true);
  (void)allocate(2 * GP_MIB);
  run_unordered();
  refuse_the_wait();
  gp_context_t *second = gp_engine_context(engine, &other);
  driver.fail_at = driver.calls + 1;
  driver.fail_code = FAKE_GONE;
  ck_assert_int_eq(gp_single_end(engine, WHY), FAKE_GONE);
  ck_assert_int_eq(gp_engine_alloc(engine, second, 3 * GP_MIB, &address), 0);
  stop();
}
END_TEST

START_TEST(test_a_second_context_waits_for_the_first)
{
  gp_driver_context_t other = fake_context(1, 0);

  begin();
  run_unordered();
  gp_context_t *second = gp_engine_context(engine, &other);
  ck_assert_int_eq(stats().host_waits, 1);
  ck_assert(!reuses_at_once(3 * GP_MIB));
  gp_engine_context_lost(engine, second);
  synchronize();
  ck_assert(!reuses_at_once(5 * GP_MIB));
  stop();
}
END_TEST

START_TEST(test_a_second_context_with_all_in_order_costs_nothing)
{
  gp_driver_context_t other = fake_context(1, 0);

  begin();
  ck_assert_uint_ne(used_block(GP_MIB), 0);
  (void)gp_engine_context(engine, &other);
  ck_assert_int_eq(own_calls(), 0);
  ck_assert(!reuses_at_once(3 * GP_MIB));
  stop();
}
END_TEST

START_TEST(test_the_end_of_the_context_settles)
{
  gp_driver_context_t other = fake_context(1, 0);

  begin();
  run_unordered();
  gp_engine_context_lost(engine, context);
  ck_assert(gp_single_is_over(engine) || !gp_single_has_unordered(engine));
  ck_assert_int_eq(gp_engine_mode(engine), GP_MODE_CONTEXT);
  context = gp_engine_context(engine, &other);
  ck_assert(!reuses_at_once(3 * GP_MIB));
  stop();
}
END_TEST

static atomic_bool in_call, call_is_over, suspended;

/* Ends when the suspension is counted; without the waiting for it, long after the suspension has returned. */
static int slow_stream_wait(void *self, const gp_driver_context_t *which, uint64_t stream, void *event)
{
  (void)self;
  (void)which;
  (void)stream;
  (void)event;
  atomic_store(&in_call, true);
  while (!gp_engine_is_suspended(engine))
    sched_yield();
  for (int i = 0; i < 1000 && !atomic_load(&suspended); i++)
    sched_yield();
  atomic_store(&call_is_over, true);
  return 0;
}

static void *put_behind(void *arg)
{
  (void)arg;
  ck_assert_int_eq(gp_single_end_for_stream(engine, STREAM_A, WHY), 0);
  return NULL;
}

static long calls_while_suspended;

static void resume(void)
{
  calls_while_suspended = own_calls();
  driver.on_pause = NULL;
  gp_engine_resume(engine);
}

/* As the begin of a capture does: no call of the engine's may be in flight when it returns. */
START_TEST(test_a_suspension_waits_for_calls_in_flight)
{
  pthread_t thread;

  begin();
  run_unordered();
  int (*stream_wait)(void *, const gp_driver_context_t *, uint64_t, void *) = driver.ops.stream_wait;
  driver.ops.stream_wait = slow_stream_wait;
  ck_assert_int_eq(pthread_create(&thread, NULL, put_behind, NULL), 0);
  while (!atomic_load(&in_call))
    sched_yield();
  gp_engine_suspend(engine);
  bool over = atomic_load(&call_is_over);
  atomic_store(&suspended, true);
  pthread_join(thread, NULL);
  ck_assert(over);
  driver.ops.stream_wait = stream_wait;
  long calls = own_calls();
  driver.on_pause = resume;
  ck_assert_int_eq(
      gp_single_end_for_stream(engine, STREAM_B, WHY), 0); /* suspended: no such call before the end */
  ck_assert_int_eq(calls_while_suspended, calls);
  stop();
}
END_TEST

static atomic_bool slow, in_hit, hit_is_over, waited;
static bool waited_too_early, ended_too_early;

/* In the middle of an allocation, with the device's lock held, for which the thread that ends the mode has to
 * wait. Other threads need not, once they read that the mode is over. */
static uint64_t slow_event(void *self, const gp_event_t *event)
{
  (void)self;
  if (!atomic_load(&slow) || event->action != GP_ACTION_ALLOC)
    return event->time_ns;
  atomic_store(&in_hit, true);
  while (atomic_load(&context->device->lock.state) != GP_LOCK_AWAITED && !atomic_load(&waited))
    sched_yield();
  ended_too_early = gp_engine_reuse_mode(engine) != GP_MODE_SINGLE;
  atomic_store(&hit_is_over, true);
  return event->time_ns;
}

static int fence_after_hits(void *self, const gp_driver_context_t *which, uint64_t stream, void **event)
{
  static uint64_t fence;
  (void)self;
  (void)which;
  (void)stream;
  waited_too_early = !atomic_load(&hit_is_over);
  atomic_store(&waited, true);
  *event = &fence;
  return 0;
}

static void *hit(void *arg)
{
  (void)arg;
  (void)allocate(GP_MIB);
  return NULL;
}

START_TEST(test_allocations_in_flight_are_over_before_it_is_settled)
{
  const gp_observer_t observer = {.event = slow_event};
  gp_driver_context_t first = fake_context(0, 0);
  pthread_t thread;

  fake_driver_init(&driver, GP_GIB, true);
  driver.ops.enter_stream = fence_after_hits;
  engine = fake_engine(&driver, &observer, single_mode);
  context = gp_engine_context(engine, &first);
  (void)used_block(GP_MIB);
  atomic_store(&slow, true);
  ck_assert_int_eq(pthread_create(&thread, NULL, hit, NULL), 0);
  while (!atomic_load(&in_hit))
    sched_yield();
  (void)gp_single_end(engine, WHY);
  pthread_join(thread, NULL);
  ck_assert(atomic_load(&waited));
  ck_assert(!waited_too_early && !ended_too_early);
  stop();
}
END_TEST

START_TEST(test_an_escape_settles)
{
  begin();
  run_unordered();
  (void)gp_single_end(engine, WHY);
  ck_assert_int_eq(stats().host_waits, 1);
  ck_assert(!reuses_at_once(2 * GP_MIB));
  synchronize();
  ck_assert(!reuses_at_once(3 * GP_MIB));
  stop();
}
END_TEST

/*
 * What another thread does while one is at a wait for what is owed: the sleep makes these calls in that
 * thread's stead, as no lock is held.
 */
static void (*during_wait)(void);
static int waits;

static void sleep_and_more(void)
{
  void (*more)(void) = during_wait;
  waits++;
  during_wait = NULL;
  if (more)
    more();
  complete_first();
}

static void run_unordered_with(void (*more)(void))
{
  begin();
  run_unordered();
  waits = 0;
  during_wait = more;
  driver.on_pause = sleep_and_more;
}

static void meet_second_context(void)
{
  gp_driver_context_t other = fake_context(1, 0);
  int before = waits;

  (void)gp_engine_context(engine, &other);
  ck_assert_int_eq(waits, before + 1); /* not before nothing is owed, though the first thread has filed it */
}

START_TEST(test_all_that_meet_a_second_context_wait)
{
  gp_driver_context_t other = fake_context(1, 0);

  run_unordered_with(meet_second_context);
  gp_context_t *second = gp_engine_context(engine, &other);
  ck_assert_int_eq(waits, 2);
  ck_assert_ptr_eq(gp_engine_context(engine, &other), second);
  ck_assert_int_eq(waits, 2); /* nothing is owed any more */
  stop();
}
END_TEST

START_TEST(test_the_context_itself_does_not_wait)
{
  gp_driver_context_t first = fake_context(0, 0);

  run_unordered_with(NULL);
  (void)gp_engine_context(engine, &first);
  ck_assert_int_eq(gp_single_end_for_stream(engine, 0, WHY), 0);
  (void)gp_engine_context(engine, &first);
  ck_assert_int_eq(waits, 0);
  stop();
}
END_TEST

static void escape_as_well(void)
{
  int before = waits;
  (void)gp_single_end(engine, WHY);
  ck_assert_int_eq(waits, before + 1);
}

START_TEST(test_all_that_escape_wait)
{
  run_unordered_with(escape_as_well);
  (void)gp_single_end(engine, WHY);
  ck_assert_int_eq(waits, 2);
  (void)gp_single_end(engine, WHY);
  ck_assert_int_eq(waits, 2);
  stop();
}
END_TEST

static atomic_bool in_wait, capturing, waited_in_capture;
static atomic_int waits_begun;

/* The first question is on its way to the driver when a capture begins. */
static int query_until_captured(void *self, const gp_driver_context_t *which, void *fence)
{
  (void)self;
  (void)which;
  (void)fence;
  if (atomic_fetch_add(&waits_begun, 1) > 0)
    return 0;
  atomic_store(&in_wait, true);
  while (!gp_engine_is_suspended(engine))
    sched_yield();
  for (int i = 0; i < 1000 && !atomic_load(&capturing); i++)
    sched_yield();
  atomic_store(&waited_in_capture, atomic_load(&capturing));
  return FAKE_NOT_READY;
}

static int refuse_to_wait(void *self, const gp_driver_context_t *which, uint64_t stream, void *event)
{
  (void)self;
  (void)which;
  (void)stream;
  (void)event;
  return FAKE_INVALID_VALUE;
}

static void *settle(void *arg)
{
  (void)arg;
  (void)gp_single_end(engine, WHY);
  atomic_store(&in_wait, true); /* without a wait, too */
  return NULL;
}

static void *order(void *arg)
{
  (void)arg;
  (void)gp_single_end_for_stream(engine, STREAM_A, WHY);
  atomic_store(&in_wait, true);
  return NULL;
}

static bool was_submitted;

/* In the other thread's stead, as no lock is held: what the wait is for comes only after that. */
static void submit_to_ordered(void)
{
  was_submitted = gp_single_end_for_stream(engine, 0, WHY) == 0;
  complete_first();
}

/* Where the driver refuses every way to settle, no thread waits beside the capture. */
START_TEST(test_what_could_not_be_settled_holds_no_thread_of_a_capture_up)
{
  begin();
  run_unordered();
  refuse_the_wait();
  ck_assert_int_eq(gp_single_end(engine, WHY), FAKE_INVALID_VALUE);
  gp_suspension_t capture = gp_engine_suspend_in(engine, context, GP_REACH_THREADS);
  ck_assert_int_eq(gp_single_end_for_stream(engine, STREAM_A, WHY), FAKE_NOT_READY);
  gp_engine_resume_in(engine, &capture);
  stop();
}
END_TEST

/* A thread that begins a capture may wait for another one to submit more work. */
START_TEST(test_who_waits_before_a_capture_holds_no_other_thread_up)
{
  begin();
  run_unordered();
  driver.on_pause = submit_to_ordered;
  ck_assert_int_eq(gp_single_end(engine, WHY), 0);
  ck_assert(was_submitted);
  stop();
}
END_TEST

START_TEST(test_no_question_is_in_flight_when_a_capture_begins)
{
  static void *(*const others[])(void *) = {settle, order};
  pthread_t thread;

  begin();
  run_unordered();
  driver.ops.fence_query = query_until_captured;
  driver.ops.stream_wait = refuse_to_wait;
  atomic_store(&waits_begun, 0);
  atomic_store(&in_wait, false);
  atomic_store(&capturing, false);
  ck_assert_int_eq(pthread_create(&thread, NULL, others[_i], NULL), 0);
  while (!atomic_load(&in_wait))
    sched_yield();
  ck_assert_int_eq(gp_single_end(engine, WHY), 0);
  gp_suspension_t capture = gp_engine_suspend_in(engine, context, GP_REACH_THREADS);
  atomic_store(&capturing, true);
  pthread_join(thread, NULL);
  ck_assert_int_gt(atomic_load(&waits_begun), 0);
  ck_assert(!atomic_load(&waited_in_capture));
  ck_assert(!gp_single_has_unordered(engine));
  gp_engine_resume_in(engine, &capture);
  stop();
}
END_TEST

START_TEST(test_other_modes_know_nothing_of_it)
{
  static const char *const settings[][2] = {
      {NULL}, {"GPUPOOL_REUSE=context", NULL}, {"GPUPOOL_REUSE=auto", NULL}};

  for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
    start(settings[i], GP_GIB, true);
    uint64_t block = allocate(GP_MIB);
    fake_submit(&driver, 0, block);
    ck_assert_int_eq(free_code(block), 0);
    ck_assert_uint_ne(allocate(GP_MIB), block);
    stop();
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("single");
  TCase *single = tcase_create("single");
  tcase_add_test(single, test_freed_memory_is_handed_out_at_once);
  tcase_add_test(single, test_unordered_is_memory_whose_earlier_owner_may_be_at_work);
  tcase_add_test(single, test_a_stream_ends_it);
  tcase_add_test(single, test_what_is_withheld_serves_when_the_device_is_done);
  tcase_add_test(single, test_a_stream_that_is_ordered_anyhow_costs_nothing);
  tcase_add_test(single, test_it_is_settled_when_the_default_stream_has_passed_the_fence);
  tcase_add_test(single, test_a_driver_that_cannot_order_is_waited_for);
  tcase_add_test(single, test_without_a_fence_the_context_is_waited_for);
  tcase_add_test(single, test_a_wait_that_fails_leaves_it_unordered);
  tcase_add_test(single, test_a_context_that_ended_unseen_is_lost_with_the_wait);
  tcase_add_test(single, test_a_context_that_ended_unseen_does_not_keep_its_suspension);
  tcase_add_test(single, test_a_context_that_ended_unseen_leaves_room_under_the_limit);
  tcase_add_test(single, test_a_second_context_waits_for_the_first);
  tcase_add_test(single, test_a_second_context_with_all_in_order_costs_nothing);
  tcase_add_test(single, test_the_end_of_the_context_settles);
  tcase_add_test(single, test_a_suspension_waits_for_calls_in_flight);
  tcase_add_test(single, test_allocations_in_flight_are_over_before_it_is_settled);
  tcase_add_test(single, test_an_escape_settles);
  tcase_add_test(single, test_all_that_escape_wait);
  tcase_add_test(single, test_all_that_meet_a_second_context_wait);
  tcase_add_test(single, test_the_context_itself_does_not_wait);
  tcase_add_loop_test(single, test_no_question_is_in_flight_when_a_capture_begins, 0, 2);
  tcase_add_test(single, test_what_could_not_be_settled_holds_no_thread_of_a_capture_up);
  tcase_add_test(single, test_who_waits_before_a_capture_holds_no_other_thread_up);
  tcase_add_test(single, test_other_modes_know_nothing_of_it);
  suite_add_tcase(suite, single);
  return gp_check_main(suite);
}
