/*
 * The streams that a driver without fences over contexts is asked about. Over the fake driver, with streams
 * of the test's own.
 */
#include "pool/reuse/known_streams.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "pool/mode.h"
#include "pool/reuse/known_record.h"
#include "pool/reuse/submitters.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define STREAM_A    UINT64_C(0x10000010)
#define STREAM_B    UINT64_C(0x10000020)
#define STREAM_SIDE UINT64_C(0x10000030) /* the library's own */
#define DEFAULT     0
#define OWN         3

static struct {
  bool is_busy;
  int questions, code;
} streams[4]; /* the default stream, A, B, the calling thread's own */

static int index_of(uint64_t handle)
{
  ck_assert(handle == STREAM_A || handle == STREAM_B || handle == GP_STREAM_LAST_OF_DEFAULTS);
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
  gp_known_stream_add(engine, context, STREAM_A, false);
  gp_known_stream_add(engine, context, STREAM_B, false);
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

static gp_known_work_t ask(void)
{
  return gp_known_streams_ask(engine);
}

START_TEST(test_each_stream_is_asked)
{
  begin();
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(streams[i].questions, 1);
  for (int i = 0; i < 4; i++) {
    set_busy(i == 0, i == 1, i == 2);
    streams[OWN].is_busy = i == OWN;
    ck_assert_int_eq(ask(), GP_KNOWN_WORK_LATER);
  }
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  stop();
}
END_TEST

START_TEST(test_work_at_a_free_is_told_from_later_work)
{
  begin();
  set_busy(true, true, false);
  gp_known_streams_note_free(engine, context->device);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_BEFORE);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_BEFORE); /* a question changes nothing */
  set_busy(true, true, true);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_LATER); /* B had none at the free */
  set_busy(false, true, false);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_BEFORE);
  set_busy(true, true, false);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_LATER); /* the default stream had been through */
  set_busy(false, false, false);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  set_busy(false, true, false);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_LATER);
  gp_known_streams_note_free(engine, context->device); /* of the last free */
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_BEFORE);
  stop();
}
END_TEST

/* A large free of the program notes it. */
START_TEST(test_a_large_free_notes_the_work)
{
  begin();
  uint64_t small = allocate(4096);
  uint64_t large = allocate(64 * GP_MIB);
  set_busy(false, true, false);
  ck_assert_int_eq(free_code(small), 0);
  ck_assert_int_eq(questions(), 0);
  ck_assert_int_eq(free_code(large), 0);
  ck_assert_int_eq(questions(), 4);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_BEFORE);
  stop();
}
END_TEST

START_TEST(test_a_stream_that_is_destroyed_is_asked_nothing_more)
{
  begin();
  streams[1].is_busy = true;
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
  streams[1].questions = 0;
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE); /* this driver has no fence of streams */
  ck_assert_int_eq(streams[1].questions, 0);
  ck_assert_ptr_null(gp_known_stream_remove(engine, STREAM_A)); /* it is not known any more */
  gp_known_stream_add(engine, context, STREAM_A, false);        /* the driver refused */
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_LATER);
  ck_assert_int_eq(streams[1].questions, 1);
  stop();
}
END_TEST

/* Fences of streams, for those that are destroyed while they have work. */
typedef struct stream_fence {
  bool has_passed;
} stream_fence_t;
static stream_fence_t fences[8];
static int fence_count, records;
static uint64_t recorded_in;

static int record_fence(void *self, const gp_driver_context_t *which, uint64_t stream, void **fence)
{
  (void)self;
  (void)which;
  ck_assert(stream == STREAM_SIDE || index_of(stream) > 0);
  ck_assert_int_lt(fence_count, 8);
  recorded_in = stream;
  if (!*fence)
    *fence = &fences[fence_count++];
  ((stream_fence_t *)*fence)->has_passed = false;
  records++;
  return 0;
}

static int query_fence(void *self, const gp_driver_context_t *which, void *fence)
{
  (void)self;
  (void)which;
  return ((const stream_fence_t *)fence)->has_passed ? 0 : FAKE_NOT_READY;
}

static void begin_with_fences(void)
{
  begin();
  memset(fences, 0, sizeof(fences));
  fence_count = records = 0;
  driver.ops.stream_fence_record = record_fence;
  driver.ops.fence_query = query_fence;
}

/* The driver returns from a destroy before the work is done. */
START_TEST(test_work_of_a_destroyed_stream_is_known_until_it_ends)
{
  begin_with_fences();
  set_busy(false, true, false);
  if (_i)
    gp_known_streams_note_free(engine, context->device);
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
  ck_assert_int_eq(records, 1 + _i);
  streams[1].questions = 0;
  ck_assert_int_eq(ask(), _i ? GP_KNOWN_WORK_BEFORE : GP_KNOWN_WORK_LATER);
  fences[_i].has_passed = true; /* with _i == 1 the other is that of the free */
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  fences[_i].has_passed = false; /* it is not asked any more */
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  ck_assert_int_eq(streams[1].questions, 0);
  stop();
}
END_TEST

START_TEST(test_fences_of_destroyed_streams_are_used_again)
{
  begin_with_fences();
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context); /* without work */
  ck_assert_int_eq(records, 0);
  set_busy(false, true, true);
  for (int i = 0; i < 5; i++) {
    gp_known_stream_add(engine, context, STREAM_A, false);
    ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
    ck_assert_int_eq(ask(), GP_KNOWN_WORK_LATER);
    fences[0].has_passed = true;
    set_busy(false, true, false);
    ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  }
  ck_assert_int_eq(records, 5);
  ck_assert_int_eq(fence_count, 1);
  gp_known_stream_add(engine, context, STREAM_A, false);
  (void)gp_known_stream_remove(engine, STREAM_A);
  set_busy(false, true, true);
  (void)gp_known_stream_remove(engine, STREAM_B); /* two at a time */
  ck_assert_int_eq(fence_count, 2);
  fences[0].has_passed = true;
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_LATER);
  fences[1].has_passed = true;
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  stop();
}
END_TEST

/* Though nothing else asks about them. Two have work that does not end. */
START_TEST(test_destroyed_streams_do_not_pile_up)
{
  begin_with_fences();
  set_busy(false, true, true);
  (void)gp_known_stream_remove(engine, STREAM_B);
  (void)gp_known_stream_remove(engine, STREAM_A);
  for (int i = 0; i < 100; i++) {
    gp_known_stream_add(engine, context, STREAM_A, false);
    (void)gp_known_stream_remove(engine, STREAM_A);
    for (int j = 2; j < fence_count; j++)
      fences[j].has_passed = true;
  }
  ck_assert_int_eq(records, 102);
  ck_assert_int_le(fence_count, 7);
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

/* What has no fence to keep goes with its stream. */
START_TEST(test_streams_without_fences_leave_nothing)
{
  begin();
  int before = count_records();
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
  ck_assert_int_eq(count_records(), before - 1);
  stop();
}
END_TEST

static int make_side_stream(void *self, const gp_driver_context_t *which, uint64_t *ret_stream)
{
  (void)self;
  (void)which;
  *ret_stream = STREAM_SIDE;
  return 0;
}

/* A stream that is busy all the time: its fence tells when the work of the free is complete. 1: the default
 * stream. */
START_TEST(test_a_fence_at_the_free_tells_it_from_later_work)
{
  begin_with_fences();
  driver.ops.side_stream = make_side_stream;
  set_busy(_i, !_i, false);
  gp_known_streams_note_free(engine, context->device);
  ck_assert_int_eq(records, 1);
  ck_assert_uint_eq(recorded_in, _i ? STREAM_SIDE : STREAM_A);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_BEFORE);
  fences[0].has_passed = true;
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_LATER);
  gp_known_streams_note_free(engine, context->device); /* the same fence, again */
  ck_assert_int_eq(fence_count, 1);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_BEFORE);
  set_busy(false, false, false);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  set_busy(_i, !_i, false); /* new work */
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_LATER);
  stop();
}
END_TEST

START_TEST(test_beside_a_capture_a_stream_is_destroyed_without_a_question)
{
  begin_with_fences();
  set_busy(false, true, false);
  gp_engine_suspend(engine);
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
  ck_assert_int_eq(questions() + records, 0);
  gp_engine_resume(engine);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  stop();
}
END_TEST

START_TEST(test_fences_of_destroyed_streams_go_with_their_context)
{
  gp_driver_context_t other = fake_context(1, 0);
  begin_with_fences();
  set_busy(false, true, false);
  (void)gp_known_stream_remove(engine, STREAM_A);
  ck_assert_ptr_nonnull(gp_engine_context(engine, &other));
  gp_engine_context_lost(engine, context);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  stop();
}
END_TEST

START_TEST(test_default_streams_stay)
{
  begin();
  streams[0].is_busy = true;
  for (uint64_t handle = 0; handle <= GP_STREAM_LAST_OF_DEFAULTS; handle++)
    ck_assert_ptr_null(gp_known_stream_remove(engine, handle));
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_LATER);
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
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  ck_assert_int_eq(questions(), 0);
  uint64_t last = engine->last_known_stream;
  gp_known_stream_add(engine, context, STREAM_A, false); /* too late */
  gp_known_stream_add(engine, NULL, STREAM_A, false);    /* of a context that is not known */
  ck_assert_uint_eq(engine->last_known_stream, last);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  ck_assert_int_eq(questions(), 0);
  stop();
}
END_TEST

/* A stream that was destroyed unseen, say: it would hold the pool up for good. */
START_TEST(test_an_error_is_no_work)
{
  begin();
  streams[1].code = FAKE_INVALID_VALUE;
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
  streams[1].code = FAKE_GONE; /* it has ended unseen: no work of it is pending */
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE);
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
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_UNKNOWN);
  ck_assert_int_eq(questions(), before);
  stop();
}
END_TEST

START_TEST(test_when_nothing_is_asked)
{
  begin();
  gp_engine_suspend(engine);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_UNKNOWN);
  gp_known_streams_note_free(engine, context->device);
  ck_assert_int_eq(questions(), 0);
  gp_engine_resume(engine);
  gp_engine_stop_pooling(engine);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_NONE); /* what was kept is to go back */
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
  gp_known_stream_add(engine, context, STREAM_A, false);
  ck_assert_int_eq(ask(), GP_KNOWN_WORK_UNKNOWN);
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

  ck_assert_int_eq(ask(), GP_KNOWN_WORK_LATER);
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
  tcase_add_test(tests, test_work_at_a_free_is_told_from_later_work);
  tcase_add_test(tests, test_a_large_free_notes_the_work);
  tcase_add_test(tests, test_a_stream_that_is_destroyed_is_asked_nothing_more);
  tcase_add_loop_test(tests, test_work_of_a_destroyed_stream_is_known_until_it_ends, 0, 2);
  tcase_add_test(tests, test_fences_of_destroyed_streams_are_used_again);
  tcase_add_test(tests, test_destroyed_streams_do_not_pile_up);
  tcase_add_test(tests, test_streams_without_fences_leave_nothing);
  tcase_add_loop_test(tests, test_a_fence_at_the_free_tells_it_from_later_work, 0, 2);
  tcase_add_test(tests, test_beside_a_capture_a_stream_is_destroyed_without_a_question);
  tcase_add_test(tests, test_fences_of_destroyed_streams_go_with_their_context);
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
