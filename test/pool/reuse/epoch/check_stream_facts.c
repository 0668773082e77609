/*
 * Reuse mode `epoch`: marks and facts of single streams. The order of events is the test's: another thread is
 * stopped between its mark and its submission by a barrier, where a real one is by the scheduler.
 */
#include <pthread.h>

#include "pool/reuse/stream_calls.h"
#include "test/pool/check_main.h"
#include "test/pool/ordered_fixture.h"

#define STREAM_A UINT64_C(0x10000010)
#define STREAM_B UINT64_C(0x10000020)
#define STREAM_C UINT64_C(0x20000010) /* the place of A in the table of marks */
#define STREAM_D UINT64_C(0x10000030)

static const char *const epoch_mode[] = {"GPUPOOL_REUSE=epoch", NULL};

static void start_with_streams(void)
{
  start(epoch_mode, GP_GIB, true);
  ck_assert(gp_engine_uses_streams(engine));
  gp_stream_created(engine, context, STREAM_A);
  gp_stream_created(engine, context, STREAM_B);
  gp_stream_fact_t fact = gp_stream_fact_begin(engine, gp_stream_find(engine, STREAM_B));
  gp_stream_fact_end(engine, &fact); /* nothing before counts for what comes */
}

static void work(uint64_t stream)
{
  gp_stream_mark(engine, gp_stream_find(engine, stream));
}

static void synchronize_stream(gp_stream_t *stream)
{
  gp_stream_fact_t fact = gp_stream_fact_begin(engine, stream);
  gp_stream_fact_end(engine, &fact);
}

static uint64_t deferred(void)
{
  return stats().deferred_bytes.current;
}

/* Something asks what can be reused: a fact about a stream that has no work. */
static void look(void)
{
  synchronize_stream(gp_stream_find(engine, STREAM_B));
}

/* The driver's free waits for all work, also for what never ends without this thread; the program only asked.
 */
START_TEST(test_a_fact_about_a_stream_gives_nothing_back)
{
  start((const char *const[]){"GPUPOOL_REUSE=epoch", "GPUPOOL_MAX_CACHED=0", NULL}, GP_GIB, true);
  gp_stream_created(engine, context, STREAM_A);
  uint64_t block = allocate(GP_MIB);
  work(STREAM_A);
  ck_assert_int_eq(free_code(block), 0);
  synchronize_stream(gp_stream_find(engine, STREAM_A));
  ck_assert_uint_eq(stats().cached_bytes.current, GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  (void)allocate(2 * GP_MIB); /* nor may this wait */
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  stop();
}
END_TEST

START_TEST(test_a_fact_frees_what_was_freed_before_it)
{
  start_with_streams();
  uint64_t block = allocate(GP_MIB);
  work(STREAM_A);
  ck_assert_int_eq(free_code(block), 0);
  look();
  ck_assert_uint_eq(deferred(), GP_MIB);
  synchronize_stream(gp_stream_find(engine, STREAM_A));
  ck_assert_uint_eq(deferred(), 0);
  ck_assert_int_eq(driver.count[FAKE_RECORD] + driver.count[FAKE_QUERY] + driver.count[FAKE_WAIT], 0);
  stop();
}
END_TEST

/* The driver's allocation is an operation of the stream, and the only one. */
START_TEST(test_an_allocation_in_a_stream_is_work)
{
  const uint64_t handles[] = {FIRST, GP_STREAM_LEGACY, GP_STREAM_PER_THREAD};
  for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
    start_streams(epoch_mode, GP_GIB);
    gp_stream_created(engine, context, FIRST);
    gp_stream_created(engine, context, SECOND);
    gp_stream_created(engine, context, STREAM_B);
    uint64_t block = allocate_in(order(handles[i]), GP_MIB);
    free_in(order(handles[i]), block);
    look();
    ck_assert_uint_eq(deferred(), GP_MIB);
    ck_assert_uint_ne(allocate_in(order(SECOND), GP_MIB), block);
    synchronize();
    ck_assert_uint_eq(deferred(), 0);
    ck_assert_uint_eq(allocate_in(order(SECOND), GP_MIB), block);
    stop();
  }
}
END_TEST

/* GPUPOOL_FILL: so is a fill of memory that was there. */
START_TEST(test_a_fill_in_a_stream_is_work)
{
  static const char *const filled_mode[] = {"GPUPOOL_REUSE=epoch", "GPUPOOL_FILL=zero", NULL};
  const uint64_t handles[] = {FIRST, GP_STREAM_LEGACY, GP_STREAM_PER_THREAD};
  for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
    start_streams(filled_mode, GP_GIB);
    gp_stream_created(engine, context, FIRST);
    gp_stream_created(engine, context, SECOND);
    gp_stream_created(engine, context, STREAM_B);
    uint64_t block = allocate_in(order(handles[i]), GP_MIB);
    free_in(order(handles[i]), block);
    synchronize();
    ck_assert_uint_eq(deferred(), 0);
    ck_assert_uint_eq(allocate_in(order(handles[i]), GP_MIB), block);
    free_in(order(handles[i]), block);
    look();
    ck_assert_uint_eq(deferred(), GP_MIB);
    ck_assert_uint_ne(allocate_in(order(SECOND), GP_MIB), block);
    stop();
  }
}
END_TEST

START_TEST(test_streams_without_work_hold_nothing_back)
{
  start_with_streams();
  uint64_t block = allocate(GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_uint_eq(allocate(GP_MIB), block); /* a miss asks the marks, and no driver */
  ck_assert_int_eq(driver.count[FAKE_RECORD] + driver.count[FAKE_QUERY] + driver.count[FAKE_WAIT], 0);
  stop();
}
END_TEST

START_TEST(test_every_stream_with_work_is_asked)
{
  start_with_streams();
  uint64_t block = allocate(GP_MIB);
  work(STREAM_A);
  gp_stream_mark(engine, gp_stream_default(context));
  ck_assert_int_eq(free_code(block), 0);
  synchronize_stream(gp_stream_find(engine, STREAM_A));
  ck_assert_uint_eq(deferred(), GP_MIB);
  synchronize_stream(gp_stream_default(context));
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

START_TEST(test_work_after_the_beginning_is_not_covered)
{
  start_with_streams();
  uint64_t block = allocate(GP_MIB);
  work(STREAM_A);
  gp_stream_fact_t fact = gp_stream_fact_begin(engine, gp_stream_find(engine, STREAM_A));
  work(STREAM_A); /* another thread, while the first one waits */
  ck_assert_int_eq(free_code(block), 0);
  gp_stream_fact_end(engine, &fact);
  ck_assert_uint_eq(deferred(), GP_MIB);
  look();
  ck_assert_uint_eq(deferred(), GP_MIB);
  synchronize_stream(gp_stream_find(engine, STREAM_A));
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

/* Two threads synchronize one stream: the one that began first does not cover work that came in between. */
START_TEST(test_overlapping_facts)
{
  start_with_streams();
  gp_stream_t *stream = gp_stream_find(engine, STREAM_A);
  work(STREAM_A);
  gp_stream_fact_t first = gp_stream_fact_begin(engine, stream);
  work(STREAM_A);
  uint64_t block = allocate(GP_MIB);
  gp_stream_fact_t second = gp_stream_fact_begin(engine, stream);
  ck_assert_int_eq(free_code(block), 0);
  gp_stream_fact_end(engine, &first);
  look();
  ck_assert_uint_eq(deferred(), GP_MIB);
  gp_stream_fact_end(engine, &second); /* freed after it began */
  look();
  ck_assert_uint_eq(deferred(), 0); /* but the stream has no work since */
  stop();
}
END_TEST

typedef struct submitter {
  pthread_barrier_t marked, go_on, submitted, ended;
} submitter_t;

static void *submit(void *arg)
{
  submitter_t *submitter = arg;
  work(STREAM_A);
  pthread_barrier_wait(&submitter->marked);
  pthread_barrier_wait(&submitter->go_on); /* here the driver gets the work */
  gp_work_submitted();
  pthread_barrier_wait(&submitter->submitted);
  pthread_barrier_wait(&submitter->ended);
  return NULL;
}

static void begin_submitter(submitter_t *submitter, pthread_t *thread)
{
  pthread_barrier_init(&submitter->marked, NULL, 2);
  pthread_barrier_init(&submitter->go_on, NULL, 2);
  pthread_barrier_init(&submitter->submitted, NULL, 2);
  pthread_barrier_init(&submitter->ended, NULL, 2);
  ck_assert_int_eq(pthread_create(thread, NULL, submit, submitter), 0);
  pthread_barrier_wait(&submitter->marked);
}

/* A thread has marked, and is stopped before the driver has its work: a synchronization meanwhile does not
 * cover it. */
START_TEST(test_work_on_its_way_is_not_covered)
{
  submitter_t submitter;
  pthread_t thread;

  start_with_streams();
  uint64_t block = allocate(GP_MIB);
  begin_submitter(&submitter, &thread);
  synchronize_stream(gp_stream_find(engine, STREAM_A));
  pthread_barrier_wait(&submitter.go_on);
  pthread_barrier_wait(&submitter.submitted);
  ck_assert_int_eq(free_code(block), 0); /* by a thread that knows of the work */
  look();
  ck_assert_uint_eq(deferred(), GP_MIB);
  synchronize_stream(gp_stream_find(engine, STREAM_A)); /* now the driver has it */
  ck_assert_uint_eq(deferred(), 0);
  pthread_barrier_wait(&submitter.ended);
  pthread_join(thread, NULL);
  stop();
}
END_TEST

START_TEST(test_destroyed_streams_are_waited_for_by_their_context)
{
  start_with_streams();
  uint64_t block = allocate(GP_MIB);
  work(STREAM_A);
  gp_stream_t *stream = gp_stream_take(engine, STREAM_A);
  gp_stream_destroyed(engine, stream);
  gp_stream_created(engine, context, STREAM_A); /* the driver uses the handle again */
  ck_assert_int_eq(free_code(block), 0);
  synchronize_stream(gp_stream_find(engine, STREAM_A));
  ck_assert_uint_eq(deferred(), GP_MIB);
  synchronize();
  ck_assert_uint_eq(deferred(), 0);
  block = allocate(GP_MIB); /* the old stream is gone, and holds nothing back any more */
  ck_assert_int_eq(free_code(block), 0);
  look();
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

START_TEST(test_an_event_of_a_destroyed_stream)
{
  start_with_streams();
  uint64_t block = allocate(GP_MIB);
  work(STREAM_A);
  ck_assert_int_eq(free_code(block), 0);
  gp_stream_fact_t event = gp_stream_fact_begin(engine, gp_stream_find(engine, STREAM_A));
  gp_stream_destroyed(engine, gp_stream_take(engine, STREAM_A));
  look();
  ck_assert_uint_eq(deferred(), GP_MIB);
  gp_stream_fact_end(engine, &event); /* what it had when the event was recorded is done */
  ck_assert_uint_eq(deferred(), 0);
  for (int i = 0; i < 3; i++) /* the record serves other streams now: an old fact says nothing of them */
    gp_stream_created(engine, context, STREAM_C + (uint64_t)i * 16);
  work(STREAM_C);
  block = allocate(GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  gp_stream_fact_end(engine, &event);
  ck_assert_uint_eq(deferred(), GP_MIB);
  stop();
}
END_TEST

START_TEST(test_a_refused_destruction_changes_nothing)
{
  start_with_streams();
  uint64_t block = allocate(GP_MIB);
  work(STREAM_A);
  gp_stream_restored(engine, gp_stream_take(engine, STREAM_A));
  ck_assert_int_eq(free_code(block), 0);
  look();
  ck_assert_uint_eq(deferred(), GP_MIB);
  synchronize_stream(gp_stream_find(engine, STREAM_A));
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

/* Both handles lead to one place of the table; each stream has a mark of its own all the same. */
START_TEST(test_streams_that_share_a_place)
{
  start_with_streams();
  gp_stream_created(engine, context, STREAM_C);
  uint64_t block = allocate(GP_MIB);
  work(STREAM_C);
  ck_assert_int_eq(free_code(block), 0);
  synchronize_stream(gp_stream_find(engine, STREAM_A));
  ck_assert_uint_eq(deferred(), GP_MIB);
  synchronize_stream(gp_stream_find(engine, STREAM_C));
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

static void complete_context(gp_context_t *which, int index)
{
  uint64_t token = gp_engine_sync_begin(engine, which);
  fake_complete(&driver, index);
  gp_engine_sync_end(engine, which, token);
}

/* One mark for the default streams of all contexts: cleared when all of them are known to be done. */
START_TEST(test_default_streams_of_two_contexts)
{
  start_with_streams();
  gp_driver_context_t other = fake_context(1, 0);
  gp_context_t *second = gp_engine_context(engine, &other);
  uint64_t block = allocate(GP_MIB);
  gp_stream_mark(engine, gp_stream_default(second));
  ck_assert_int_eq(free_code(block), 0);
  synchronize_stream(gp_stream_default(context));
  ck_assert_uint_eq(deferred(), GP_MIB);
  complete_context(context, 0);
  ck_assert_uint_eq(deferred(), GP_MIB);
  complete_context(second, 1);
  ck_assert_uint_eq(deferred(), 0);
  complete_context(context, 0); /* the mark is cleared by facts of both that began after it was looked at */
  block = allocate(GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  look(); /* no work was submitted since */
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

static void *work_in_own_stream(void *arg)
{
  gp_stream_t *stream = gp_stream_of_thread(engine, context);
  (void)arg;
  ck_assert_ptr_nonnull(stream);
  ck_assert_ptr_eq(gp_stream_of_thread(engine, context), stream);
  gp_stream_mark(engine, stream);
  return NULL;
}

START_TEST(test_default_streams_of_threads)
{
  pthread_t thread;

  start_with_streams();
  uint64_t block = allocate(GP_MIB);
  ck_assert_int_eq(pthread_create(&thread, NULL, work_in_own_stream, NULL), 0);
  pthread_join(thread, NULL);
  ck_assert_int_eq(free_code(block), 0);
  synchronize_stream(gp_stream_of_thread(engine, context)); /* another thread's */
  ck_assert_uint_eq(deferred(), GP_MIB);
  synchronize();
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

START_TEST(test_an_escape_ends_the_mode)
{
  start_with_streams();
  uint64_t block = allocate(GP_MIB);
  work(STREAM_A);
  ck_assert_int_eq(free_code(block), 0);
  gp_streams_escape(engine, "the test says so");
  ck_assert(!gp_engine_uses_streams(engine));
  synchronize_stream(gp_stream_find(engine, STREAM_A));
  ck_assert_uint_eq(deferred(), GP_MIB);
  synchronize();
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

START_TEST(test_a_lost_context_takes_its_streams_along)
{
  start_with_streams();
  gp_driver_context_t other = fake_context(1, 0);
  gp_context_t *second = gp_engine_context(engine, &other);
  gp_stream_created(engine, second, STREAM_C);
  work(STREAM_C);
  uint64_t block = allocate(GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  look();
  ck_assert_uint_eq(deferred(), GP_MIB);
  gp_engine_context_lost(engine, second);
  ck_assert_ptr_null(gp_stream_find(engine, STREAM_C));
  look();
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

/*
 * A context is being destroyed: its streams are the driver's to give again, and we have not been told yet.
 * What stubs do for the new stream must not reach the old one's mark.
 */
START_TEST(test_a_handle_of_a_dying_context)
{
  start_with_streams();
  gp_driver_context_t other = fake_context(1, 0);
  gp_context_t *second = gp_engine_context(engine, &other);
  gp_stream_created(engine, second, STREAM_D);
  uint64_t block = allocate(GP_MIB);
  gp_stream_created(engine, context, STREAM_D);
  gp_work_flag_t *place = gp_work_flag_place(STREAM_D); /* what a stub does */
  ck_assert(gp_submitter_init());
  if (atomic_load(&place->handle) == STREAM_D)
    gp_work_flag_set(place);
  else
    work(STREAM_D);
  gp_engine_context_lost(engine, second);
  ck_assert_int_eq(free_code(block), 0);
  look();
  ck_assert_uint_eq(deferred(), GP_MIB);
  synchronize_stream(gp_stream_find(engine, STREAM_D));
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

static pthread_key_t late_key;
static pthread_barrier_t late_barrier;
static uint64_t late_block;

/* Of a key that is younger than ours, so that it runs later: works in the thread's own stream once more. */
static void late_destructor(void *arg)
{
  int code;
  (void)arg;
  pthread_barrier_wait(&late_barrier); /* our destructor has run */
  pthread_barrier_wait(&late_barrier); /* the other thread has begun to synchronize the context */
  gp_stream_mark(engine, gp_stream_of_thread(engine, context));
  gp_work_submitted();
  ck_assert_int_eq(gp_engine_free(engine, late_block, &code), GP_FREE_DONE);
  pthread_barrier_wait(&late_barrier);
}

static void *work_late(void *arg)
{
  (void)arg;
  gp_stream_mark(engine, gp_stream_of_thread(engine, context));
  ck_assert_int_eq(pthread_key_create(&late_key, late_destructor), 0);
  ck_assert_int_eq(pthread_setspecific(late_key, &late_key), 0);
  return NULL;
}

START_TEST(test_work_in_the_destructors_of_a_thread)
{
  pthread_t thread;

  start_with_streams();
  pthread_barrier_init(&late_barrier, NULL, 2);
  late_block = allocate(GP_MIB);
  ck_assert_int_eq(pthread_create(&thread, NULL, work_late, NULL), 0);
  pthread_barrier_wait(&late_barrier);
  look(); /* the thread's stream is seen to have ended */
  uint64_t token = gp_engine_sync_begin(engine, context);
  pthread_barrier_wait(&late_barrier);
  pthread_barrier_wait(&late_barrier);
  fake_complete(&driver, 0);
  gp_engine_sync_end(engine, context, token); /* began before that work */
  pthread_join(thread, NULL);
  look();
  ck_assert_uint_eq(deferred(), GP_MIB);
  synchronize();
  ck_assert_uint_eq(deferred(), 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stream_facts");
  TCase *streams = tcase_create("streams");
  tcase_add_test(streams, test_a_fact_frees_what_was_freed_before_it);
  tcase_add_test(streams, test_a_fact_about_a_stream_gives_nothing_back);
  tcase_add_test(streams, test_an_allocation_in_a_stream_is_work);
  tcase_add_test(streams, test_a_fill_in_a_stream_is_work);
  tcase_add_test(streams, test_streams_without_work_hold_nothing_back);
  tcase_add_test(streams, test_every_stream_with_work_is_asked);
  tcase_add_test(streams, test_work_after_the_beginning_is_not_covered);
  tcase_add_test(streams, test_overlapping_facts);
  tcase_add_test(streams, test_work_on_its_way_is_not_covered);
  tcase_add_test(streams, test_destroyed_streams_are_waited_for_by_their_context);
  tcase_add_test(streams, test_an_event_of_a_destroyed_stream);
  tcase_add_test(streams, test_a_refused_destruction_changes_nothing);
  tcase_add_test(streams, test_streams_that_share_a_place);
  tcase_add_test(streams, test_default_streams_of_two_contexts);
  tcase_add_test(streams, test_default_streams_of_threads);
  tcase_add_test(streams, test_an_escape_ends_the_mode);
  tcase_add_test(streams, test_a_lost_context_takes_its_streams_along);
  tcase_add_test(streams, test_a_handle_of_a_dying_context);
  tcase_add_test(streams, test_work_in_the_destructors_of_a_thread);
  suite_add_tcase(suite, streams);
  return gp_check_main(suite);
}
