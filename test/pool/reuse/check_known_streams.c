/*
 * The streams that a driver without fences over contexts is asked about. Over the fake driver, with streams
 * of the test's own.
 */
#include "pool/reuse/known_streams.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "pool/reuse/mode.h"
#include "pool/reuse/stream_records.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define STREAM_A         UINT64_C(0x10000010)
#define STREAM_B         UINT64_C(0x10000020)
#define DEFAULT          0
#define LAST_OF_DEFAULTS 2
#define OWN              3

static struct stream {
  bool is_busy;
  int questions, code;
} streams[4]; /* the default stream, A, B, the calling thread's own */

static int index_of(uint64_t handle)
{
  ck_assert(handle == STREAM_A || handle == STREAM_B || handle == LAST_OF_DEFAULTS);
  return handle == STREAM_A ? 1 : handle == STREAM_B ? 2 : OWN;
}

static int answer(int i)
{
  streams[i].questions++;
  if (streams[i].code != 0)
    return streams[i].code;
  return streams[i].is_busy ? FAKE_NOT_READY : 0;
}

static int ask_stream(void *self, const gp_driver_context_t *which, uint64_t stream)
{
  (void)self;
  return which->id == 100 ? answer(index_of(stream)) : 0;
}

static int ask_default(void *self, const gp_driver_context_t *which)
{
  (void)self;
  return which->id == 100 ? answer(DEFAULT) : 0;
}

static void begin(void)
{
  memset(streams, 0, sizeof(streams));
  start(NULL, GP_GIB, false);
  driver.ops.stream_query = ask_stream;
  driver.ops.default_query = ask_default;
  gp_known_stream_add(engine, context, STREAM_A);
  gp_known_stream_add(engine, context, STREAM_B);
}

static int questions(void)
{
  int sum = 0;
  for (int i = 0; i < 4; i++)
    sum += streams[i].questions;
  return sum;
}

static void set_busy(bool in_default, bool in_a, bool in_b)
{
  streams[0].is_busy = in_default;
  streams[1].is_busy = in_a;
  streams[2].is_busy = in_b;
}

static bool ask(void)
{
  return gp_known_streams_are_idle(engine);
}

START_TEST(test_each_stream_is_asked)
{
  begin();
  ck_assert(ask());
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(streams[i].questions, 1);
  for (int i = 0; i < 4; i++) {
    set_busy(i == 0, i == 1, i == 2);
    streams[OWN].is_busy = i == OWN;
    ck_assert(!ask());
  }
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  stop();
}
END_TEST

START_TEST(test_a_stream_that_is_destroyed_is_asked_nothing_more)
{
  begin();
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
  streams[1] = (struct stream){.is_busy = true};
  ck_assert(ask());
  ck_assert_int_eq(streams[1].questions, 0);
  ck_assert_ptr_null(gp_known_stream_remove(engine, STREAM_A)); /* it is not known any more */
  gp_known_stream_add(engine, context, STREAM_A);               /* the driver refused */
  ck_assert(!ask());
  ck_assert_int_eq(streams[1].questions, 1);
  stop();
}
END_TEST

static int count_records(void)
{
  int count = 0;
  gp_lock_take(&engine->contexts_lock);
  for (const gp_list_t *at = engine->known_streams.next; at != &engine->known_streams; at = at->next)
    count++;
  gp_lock_release(&engine->contexts_lock);
  return count;
}

START_TEST(test_a_destroyed_stream_leaves_no_record)
{
  begin();
  int before = count_records();
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
  ck_assert_int_eq(count_records(), before - 1);
  stop();
}
END_TEST

/* A destroyed stream cannot be asked: only a synchronization of its context shows that its work is over. */
START_TEST(test_work_of_a_destroyed_stream_is_over_with_a_synchronization)
{
  begin();
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_B), context); /* it has none */
  ck_assert(ask());
  set_busy(false, true, false);
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
  set_busy(false, false, false);
  ck_assert(!ask());
  synchronize();
  ck_assert(ask());
  stop();
}
END_TEST

/* During a capture nothing can be asked, so the stream may have had work. */
START_TEST(test_during_a_capture_a_stream_is_destroyed_without_a_question)
{
  begin();
  gp_engine_suspend(engine);
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
  ck_assert_int_eq(questions(), 0);
  gp_engine_resume(engine);
  ck_assert(!ask());
  synchronize();
  ck_assert(ask());
  stop();
}
END_TEST

START_TEST(test_a_stream_that_has_finished_counts_as_progress)
{
  begin();
  set_busy(true, true, false);
  ck_assert(!ask());
  ck_assert_uint_eq(engine->streams_got_through, 0);
  set_busy(true, false, true);
  ck_assert(!ask());
  ck_assert_uint_eq(engine->streams_got_through, 1);
  stop();
}
END_TEST

START_TEST(test_default_streams_stay)
{
  begin();
  streams[0].is_busy = true;
  for (uint64_t handle = 0; handle <= LAST_OF_DEFAULTS; handle++)
    ck_assert_ptr_null(gp_known_stream_remove(engine, handle));
  ck_assert(!ask());
  stop();
}
END_TEST

START_TEST(test_streams_go_with_their_context)
{
  gp_driver_context_t other = fake_context(1, 0);
  begin();
  set_busy(true, true, true);
  ck_assert_ptr_nonnull(gp_engine_context(engine, &other));
  gp_engine_context_lost(engine, context);
  ck_assert(ask());
  ck_assert_int_eq(questions(), 0);
  uint64_t last = engine->last_known_stream;
  gp_known_stream_add(engine, context, STREAM_A); /* too late */
  gp_known_stream_add(engine, NULL, STREAM_A);    /* of a context that is not known */
  ck_assert_uint_eq(engine->last_known_stream, last);
  ck_assert(ask());
  ck_assert_int_eq(questions(), 0);
  stop();
}
END_TEST

/* A stream that was destroyed unseen, say: it would hold the pool up for good. */
START_TEST(test_an_error_is_no_work)
{
  begin();
  streams[1].code = FAKE_INVALID_VALUE;
  ck_assert(ask());
  streams[1].code = FAKE_GONE; /* it has ended unseen: no work of it is pending */
  ck_assert(ask());
  ck_assert_int_eq(streams[2].questions, 1); /* nor is it asked more */
  uint64_t address = 0;
  (void)gp_engine_alloc(engine, context, 1000, &address);
  ck_assert(gp_context_is_lost(context));
  gp_engine_destroy(engine);
  fake_driver_fini(&driver);
}
END_TEST

START_TEST(test_an_error_that_stays_ends_pooling)
{
  begin();
  streams[1].code = FAKE_STICKY;
  (void)ask();
  ck_assert_int_eq(gp_engine_service(engine), GP_SERVICE_DEAD);
  int before = questions();
  ck_assert(!ask());
  ck_assert_int_eq(questions(), before);
  stop();
}
END_TEST

START_TEST(test_when_nothing_is_asked)
{
  begin();
  gp_engine_suspend(engine);
  ck_assert(!ask());
  ck_assert_int_eq(questions(), 0);
  gp_engine_resume(engine);
  gp_engine_stop_pooling(engine);
  ck_assert(ask()); /* what was kept is to go back */
  ck_assert_int_eq(questions(), 4);
  stop();
}
END_TEST

START_TEST(test_a_driver_with_fences_is_asked_for_those)
{
  start(NULL, GP_GIB, true);
  driver.ops.stream_query = ask_stream;
  driver.ops.default_query = ask_default;
  memset(streams, 0, sizeof(streams));
  gp_known_stream_add(engine, context, STREAM_A);
  ck_assert(!ask());
  ck_assert_int_eq(questions(), 0);
  ck_assert_ptr_null(gp_known_stream_remove(engine, STREAM_A));
  ck_assert(gp_list_is_empty(&engine->known_streams));
  stop();
}
END_TEST

static atomic_bool in_question, may_answer, is_answered;

static int slow_answer(void *self, const gp_driver_context_t *which, uint64_t stream)
{
  int code = ask_stream(self, which, stream);
  if (stream != STREAM_A)
    return code;
  atomic_store(&in_question, true);
  while (!atomic_load(&may_answer))
    sched_yield();
  for (int i = 0; i < 1000; i++) /* time for a remove that does not wait */
    sched_yield();
  atomic_store(&is_answered, true);
  return code;
}

static void *ask_in_thread(void *arg)
{
  (void)arg;
  (void)ask();
  return NULL;
}

static pthread_t begin_question(void)
{
  pthread_t thread;

  begin();
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_B), context);
  driver.ops.stream_query = slow_answer;
  atomic_store(&in_question, false);
  atomic_store(&may_answer, false);
  atomic_store(&is_answered, false);
  ck_assert_int_eq(pthread_create(&thread, NULL, ask_in_thread, NULL), 0);
  while (!atomic_load(&in_question))
    sched_yield();
  return thread;
}

/* The driver must not be asked about a stream that it has been told to destroy. */
START_TEST(test_a_stream_is_not_destroyed_while_it_is_asked_about)
{
  pthread_t thread = begin_question();

  atomic_store(&may_answer, true);
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
  ck_assert(atomic_load(&is_answered));
  pthread_join(thread, NULL);
  stop();
}
END_TEST

/* Another thread's question does not wait for this one, and asks about the others; of that stream
 * it says nothing good. */
START_TEST(test_two_threads_ask_at_a_time)
{
  pthread_t thread = begin_question();

  ck_assert(!ask());
  ck_assert_int_eq(streams[1].questions, 1);
  ck_assert_int_eq(streams[0].questions, 2);
  atomic_store(&may_answer, true);
  pthread_join(thread, NULL);
  stop();
}
END_TEST

/* The context's end does not wait for the driver's answer; the thread that asks frees the record. */
START_TEST(test_a_context_ends_while_its_stream_is_asked_about)
{
  pthread_t thread = begin_question();

  gp_engine_context_lost(engine, context);
  ck_assert(!atomic_load(&is_answered));
  ck_assert(gp_list_is_empty(&engine->known_streams));
  atomic_store(&may_answer, true);
  pthread_join(thread, NULL);
  stop();
}
END_TEST

static void *submitter_of_this_thread(void *ignored)
{
  (void)ignored;
  ck_assert(gp_submitter_init());
  ck_assert(gp_submitter_init());
  return gp_own_submitter;
}

/* A program of many short threads would pile them up. */
START_TEST(test_a_thread_takes_over_what_one_left)
{
  pthread_t thread;
  void *first, *second;
  ck_assert_int_eq(pthread_create(&thread, NULL, submitter_of_this_thread, NULL), 0);
  ck_assert_int_eq(pthread_join(thread, &first), 0);
  ck_assert_int_eq(pthread_create(&thread, NULL, submitter_of_this_thread, NULL), 0);
  ck_assert_int_eq(pthread_join(thread, &second), 0);
  ck_assert_ptr_nonnull(first);
  ck_assert_ptr_eq(first, second);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("known_streams");
  TCase *tests = tcase_create("known_streams");
  tcase_add_test(tests, test_each_stream_is_asked);
  tcase_add_test(tests, test_a_stream_that_is_destroyed_is_asked_nothing_more);
  tcase_add_test(tests, test_a_destroyed_stream_leaves_no_record);
  tcase_add_test(tests, test_work_of_a_destroyed_stream_is_over_with_a_synchronization);
  tcase_add_test(tests, test_during_a_capture_a_stream_is_destroyed_without_a_question);
  tcase_add_test(tests, test_a_stream_that_has_finished_counts_as_progress);
  tcase_add_test(tests, test_default_streams_stay);
  tcase_add_test(tests, test_streams_go_with_their_context);
  tcase_add_test(tests, test_an_error_is_no_work);
  tcase_add_test(tests, test_an_error_that_stays_ends_pooling);
  tcase_add_test(tests, test_when_nothing_is_asked);
  tcase_add_test(tests, test_a_driver_with_fences_is_asked_for_those);
  tcase_add_test(tests, test_a_stream_is_not_destroyed_while_it_is_asked_about);
  tcase_add_test(tests, test_two_threads_ask_at_a_time);
  tcase_add_test(tests, test_a_context_ends_while_its_stream_is_asked_about);
  tcase_add_test(tests, test_a_thread_takes_over_what_one_left);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
