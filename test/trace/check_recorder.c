/*
 * Recording and reading back: chunks, threads, order, loss.
 */
#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leaks.h"
#include "fake_engine.h"
#include "base/lock.h"
#include "test/pool/check_main.h"
#include "trace/snapshot/event_merge.h"
#include "trace/record/recorder_state.h"
#include "trace/stacks/unwind.h"

#define GAPS 8 /* between holds of locks */

static gp_recorder_t *recorder;
static gp_event_merge_t history;
static gp_device_copy_t copies[GP_MAX_DEVICES]; /* without blocks */

static void make_recorder(const char *events, const char *mode)
{
  recorder = gp_recorder_create(fake_options(events, mode, NULL), fake_clock, NULL);
  ck_assert_ptr_nonnull(recorder);
}

static void setup(void)
{
  fake_reset();
  memset(&history, 0, sizeof(history));
  for (int i = 0; i < GP_MAX_DEVICES; i++)
    copies[i] = (gp_device_copy_t){.until_ns = UINT64_MAX};
}

static void teardown(void)
{
  gp_event_merge_fini(&history);
  gp_recorder_destroy(recorder);
  recorder = NULL;
}

static void take(void)
{
  gp_event_merge_fini(&history);
  const gp_event_moment_t moment = {copies, UINT64_MAX};
  ck_assert(gp_event_merge_take(&recorder->chunks, &moment, &history));
}

static const gp_decoded_event_t *nth(size_t i)
{
  static gp_decoded_event_t event;
  ck_assert_uint_lt(i, history.count);
  event = gp_event_merge_get(&history, i);
  return &event;
}

static void assert_sorted(void)
{
  for (size_t i = 1; i < history.count; i++)
    ck_assert_uint_ge(history.order[i].key, history.order[i - 1].key);
}

/* Runs fn in a thread and waits for its end. */
static void in_thread(void *(*fn)(void *), void *arg)
{
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
  pthread_join(thread, NULL);
}

typedef struct work {
  uint64_t first_ns;
  uint64_t step_ns;
  uint64_t count;
  pthread_barrier_t *recorded; /* NULL: do not wait */
  pthread_barrier_t *finish;
} work_t;

static void *record_some(void *arg)
{
  const work_t *work = arg;
  const gp_observer_t observer = gp_recorder_observer(recorder);
  for (uint64_t i = 0; i < work->count; i++) {
    /* No device: its clock makes times unique, and these tests set them. */
    const gp_event_t event = {.time_ns = work->first_ns + i * work->step_ns,
        .block_id = i + 1,
        .action = GP_ACTION_ALLOC,
        .device = -1};
    observer.event(observer.self, &event);
  }
  if (work->recorded) {
    pthread_barrier_wait(work->recorded);
    pthread_barrier_wait(work->finish);
  }
  return NULL;
}

START_TEST(test_every_field_comes_back)
{
  make_recorder(NULL, NULL);
  const gp_observer_t observer = gp_recorder_observer(recorder);
  const gp_event_t event = {.time_ns = 1000000001,
      .address = 0x7fffffe00000,
      .size = 0x123456789a,
      .rounded_size = 0x1234600000,
      .block_id = UINT64_C(1) << 40,
      .duration_ns = 123456789,
      .alloc_ns = 1000000001 - 123456,
      .stream = 0xdeadbeef0,
      .action = GP_ACTION_FORWARDED_FREE,
      .detail = GP_FORWARDED_MANAGED,
      .device = 63,
      .has_stream = true,
      .hit = true};
  observer.event(observer.self, &event);
  take();
  ck_assert_uint_eq(history.count, 1);
  const gp_decoded_event_t *record = nth(0);
  ck_assert_uint_eq(record->time_ns, event.time_ns);
  ck_assert_uint_eq(record->address, event.address);
  ck_assert_uint_eq(record->size, event.size);
  ck_assert_uint_eq(record->rounded_size, event.rounded_size);
  ck_assert_uint_eq(record->block_id, event.block_id);
  ck_assert_uint_eq(record->lifetime_ns, 123456);
  ck_assert_uint_eq(record->duration_ns, event.duration_ns);
  ck_assert_int_eq(record->stack, -1);
  ck_assert_int_eq(record->stream, 0);
  ck_assert_uint_eq(record->thread, 0);
  ck_assert_uint_eq(record->action, event.action);
  ck_assert_uint_eq(record->detail, event.detail);
  ck_assert_int_eq(record->device, 63);
  ck_assert_uint_eq(record->hit, 1);
  ck_assert_uint_eq(recorder->handles.table->handles[0], event.stream);
  ck_assert_int_eq(recorder->threads.table->entries[0].tid, (int)syscall(SYS_gettid));
}
END_TEST

START_TEST(test_long_durations_keep_their_magnitude)
{
  ck_assert_uint_eq(gp_event_record_duration_unpack(gp_event_record_duration_pack(2147483647)), 2147483647);
  ck_assert_uint_eq(
      gp_event_record_duration_unpack(gp_event_record_duration_pack(UINT64_C(60000000000))) >> 10,
      UINT64_C(60000000000) >> 10);
  ck_assert_uint_eq(
      gp_event_record_duration_unpack(gp_event_record_duration_pack(UINT64_MAX)), UINT64_C(0x7fffffff) << 10);
}
END_TEST

START_TEST(test_nothing_is_dropped_within_the_capacity)
{
  make_recorder("GPUPOOL_TRACE_EVENTS=1024", NULL);
  for (uint64_t i = 1; i <= 1024; i++)
    fake_record(recorder, GP_ACTION_ALLOC, 1000 * i, i);
  take();
  ck_assert_uint_eq(history.count, 1024);
  ck_assert_uint_eq(history.dropped, 0);
  ck_assert(!history.has_lost);
}
END_TEST

START_TEST(test_wrap_keeps_a_suffix)
{
  make_recorder("GPUPOOL_TRACE_EVENTS=1024", NULL);
  const uint64_t total = 100000 + 7;
  for (uint64_t i = 1; i <= total; i++)
    fake_record(recorder, GP_ACTION_ALLOC, 1000 * i, i);
  take();
  ck_assert_uint_ge(history.count, 1024 - GP_CHUNK_RECORDS_MIN);
  ck_assert_uint_le(history.count, 1024 + GP_CHUNK_RECORDS_MIN);
  ck_assert_uint_eq(history.count + history.dropped, total);
  ck_assert(history.has_lost);
  for (size_t i = 0; i < history.count; i++)
    ck_assert_uint_eq(nth(i)->block_id, history.dropped + 1 + i);
  ck_assert_uint_eq(history.since_ns, 1000 * history.dropped);
}
END_TEST

/* From here on this process, which is one test's own, gets so many bytes of address space more. */
static void limit_room(size_t bytes)
{
  unsigned long pages;
  FILE *file = fopen("/proc/self/statm", "r");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_eq(fscanf(file, "%lu", &pages), 1);
  (void)fclose(file);
  struct rlimit limit;
  ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
  limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + bytes;
  ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

START_TEST(test_where_there_is_less_room_half_as_many_events_are_kept)
{
  static const char *const settings[] = {
      "GPUPOOL_TRACE_EVENTS=4194304", "GPUPOOL_TRACE_EVENTS=2097152", "GPUPOOL_TRACE_EVENTS=1048576"};
  size_t bytes[3];
  for (int i = 0; i < 3; i++) {
    make_recorder(settings[i], NULL);
    bytes[i] = recorder->region.bytes;
    gp_recorder_destroy(recorder);
  }
  limit_room((bytes[1] + bytes[2]) / 2);
  make_recorder(settings[0], NULL);
  ck_assert_uint_eq(recorder->region.bytes, bytes[2]);
}
END_TEST

START_TEST(test_without_room_there_is_no_recorder)
{
  limit_room(4 << 20);
  ck_assert_ptr_null(
      gp_recorder_create(fake_options("GPUPOOL_TRACE_EVENTS=4194304", NULL, NULL), fake_clock, NULL));
}
END_TEST

START_TEST(test_two_threads_merge_in_order)
{
  make_recorder("GPUPOOL_TRACE_EVENTS=16384", NULL);
  pthread_barrier_t recorded, finish;
  pthread_barrier_init(&recorded, NULL, 3);
  pthread_barrier_init(&finish, NULL, 3);
  work_t odd = {.first_ns = 1001, .step_ns = 2, .count = 3000, .recorded = &recorded, .finish = &finish};
  work_t even = {.first_ns = 1000, .step_ns = 2, .count = 3000, .recorded = &recorded, .finish = &finish};
  pthread_t threads[2];
  gp_lock_leave_gaps(GAPS);
  pthread_create(&threads[0], NULL, record_some, &odd);
  pthread_create(&threads[1], NULL, record_some, &even);
  pthread_barrier_wait(&recorded);
  take(); /* with both chunks open */
  ck_assert_uint_eq(history.count, 6000);
  for (size_t i = 0; i < 6000; i++) {
    ck_assert_uint_eq(nth(i)->time_ns, 1000 + i);
    ck_assert_uint_eq(nth(i)->block_id, i / 2 + 1);
  }
  uint16_t first = nth(0)->thread;
  ck_assert_uint_ne(first, nth(1)->thread);
  pthread_barrier_wait(&finish);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
}
END_TEST

START_TEST(test_equal_times_go_by_block_then_arrival)
{
  make_recorder(NULL, NULL);
  const gp_observer_t observer = gp_recorder_observer(recorder);
  static const uint64_t mine[] = {5, 2, 9};
  for (int i = 0; i < 3; i++) {
    const gp_event_t event = {.time_ns = 70, .block_id = mine[i], .device = -1};
    observer.event(observer.self, &event);
  }
  work_t other = {.first_ns = 70, .step_ns = 0, .count = 3}; /* blocks 1 2 3 */
  in_thread(record_some, &other);
  take();
  ck_assert_uint_eq(history.count, 6);
  static const uint64_t expected[] = {1, 2, 3, 5, 2, 9};
  for (size_t i = 0; i < 6; i++)
    ck_assert_uint_eq(nth(i)->block_id, expected[i]);
}
END_TEST

START_TEST(test_order_of_one_device_is_that_of_arrival)
{
  make_recorder(NULL, NULL);
  /* The second looked at the clock before it got the lock: its event is later all the same. */
  fake_record(recorder, GP_ACTION_FREE_COMPLETED, 5000, 1);
  fake_record(recorder, GP_ACTION_ALLOC, 4000, 2);
  fake_record(recorder, GP_ACTION_ALLOC, 5001, 3);
  fake_record(recorder, GP_ACTION_ALLOC, 9000, 4);
  take();
  for (size_t i = 0; i < 4; i++)
    ck_assert_uint_eq(nth(i)->block_id, i + 1);
  ck_assert_uint_eq(nth(1)->time_ns, 5001);
  ck_assert_uint_eq(nth(2)->time_ns, 5002);
  ck_assert_uint_eq(nth(3)->time_ns, 9000);
}
END_TEST

START_TEST(test_times_that_go_backwards_are_sorted)
{
  make_recorder(NULL, NULL);
  const gp_observer_t observer = gp_recorder_observer(recorder);
  srandom(42);
  for (int i = 0; i < 5000; i++) {
    const gp_event_t event = {.time_ns = (uint64_t)(i * 10 + random() % 400), .block_id = 1, .device = -1};
    observer.event(observer.self, &event);
  }
  take();
  ck_assert_uint_eq(history.count, 5000);
  assert_sorted();
}
END_TEST

START_TEST(test_events_after_the_fence_are_left_out)
{
  make_recorder(NULL, NULL);
  fake_now_ns = 5000;
  fake_record(recorder, GP_ACTION_ALLOC, 4990, 1);
  fake_record(recorder, GP_ACTION_ALLOC, 4991, 2);
  copies[0].until_ns = gp_recorder_fence_ns(recorder, 0);
  /* Stamped before, recorded after: the blocks do not show it. */
  fake_record(recorder, GP_ACTION_ALLOC, 4995, 3);
  take();
  ck_assert_uint_eq(history.count, 2);
  ck_assert_uint_eq(history.dropped, 0);
  copies[0].until_ns = UINT64_MAX;
  take();
  ck_assert_uint_eq(history.count, 3);
  ck_assert_uint_eq(nth(2)->block_id, 3);
}
END_TEST

START_TEST(test_events_of_ended_threads_are_kept)
{
  make_recorder("GPUPOOL_TRACE_EVENTS=1024", NULL);
  work_t work = {.step_ns = 10, .count = 5};
  for (uint64_t i = 0; i < 20; i++) {
    work.first_ns = 1000 * (i + 1);
    in_thread(record_some, &work);
  }
  take();
  ck_assert_uint_eq(history.count, 100);
  assert_sorted();
  ck_assert_uint_eq(gp_threads_count(&recorder->threads), 20);
  ck_assert_uint_eq(nth(99)->thread, 19);
}
END_TEST

START_TEST(test_chunks_of_ended_threads_are_used_again)
{
  make_recorder("GPUPOOL_TRACE_EVENTS=1024", NULL);
  /* Many more threads than chunks: were a chunk lost with each, the shared one would have to serve. */
  work_t work = {.step_ns = 10, .count = 2};
  for (uint64_t i = 0; i < 300; i++) {
    work.first_ns = 1000 * (i + 1);
    in_thread(record_some, &work);
  }
  take();
  ck_assert_uint_eq(history.count + history.dropped, 600);
  ck_assert_uint_eq(history.count, 2 * 64);
  ck_assert_uint_eq(nth(0)->time_ns, 1000 * (300 - 64 + 1));
  ck_assert_uint_eq(atomic_load(&recorder->chunks.chunks[0].count), 0);
}
END_TEST

START_TEST(test_oldest_chunk_is_used_again_first)
{
  make_recorder("GPUPOOL_TRACE_EVENTS=1024", NULL);
  /* 64 chunks, closed from the newest to the oldest. */
  work_t work = {.count = 1};
  for (uint64_t i = 0; i < 64; i++) {
    work.first_ns = 10000 - i;
    in_thread(record_some, &work);
  }
  work.first_ns = 20000;
  in_thread(record_some, &work);
  take();
  ck_assert_uint_eq(history.count, 64);
  ck_assert_uint_eq(history.dropped, 1);
  ck_assert_uint_eq(history.since_ns, 10000 - 63);
}
END_TEST

/* 80 threads that live together, 65 chunks: the last ones share. */
START_TEST(test_threads_share_when_no_chunk_is_left)
{
  make_recorder("GPUPOOL_TRACE_EVENTS=1024", NULL);
  enum { THREADS = 80 };
  pthread_barrier_t recorded, finish;
  pthread_barrier_init(&recorded, NULL, 2);
  pthread_barrier_init(&finish, NULL, THREADS + 1);
  pthread_t threads[THREADS];
  work_t works[THREADS];
  for (uint64_t i = 0; i < THREADS; i++) {
    works[i] = (work_t){.first_ns = 1000 + i, .count = 1, .recorded = &recorded, .finish = &finish};
    pthread_create(&threads[i], NULL, record_some, &works[i]);
    pthread_barrier_wait(&recorded); /* one after the other */
  }
  take();
  ck_assert_uint_eq(recorder->chunks.header->chunk_count, 1 + 64);
  ck_assert_uint_eq(atomic_load(&recorder->chunks.chunks[0].count), THREADS - 64);
  ck_assert_uint_eq(history.count, THREADS);
  for (size_t i = 0; i < THREADS; i++)
    ck_assert_uint_eq(nth(i)->time_ns, 1000 + i);

  /* The shared chunk (16 events) is full: one more empties it, and what is as old
   * elsewhere is lost with it. */
  work_t more = {.first_ns = 2000, .count = 1};
  in_thread(record_some, &more);
  take();
  ck_assert_uint_eq(history.count, 1);
  ck_assert_uint_eq(nth(0)->time_ns, 2000);
  ck_assert_uint_eq(history.dropped, THREADS);
  ck_assert_uint_eq(history.since_ns, 1000 + THREADS - 1);
  pthread_barrier_wait(&finish);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}
END_TEST

START_TEST(test_loss_in_one_thread_hides_older_events_of_others)
{
  make_recorder("GPUPOOL_TRACE_EVENTS=1024", NULL);
  pthread_barrier_t recorded, finish;
  pthread_barrier_init(&recorded, NULL, 2);
  pthread_barrier_init(&finish, NULL, 2);
  work_t idle = {.first_ns = 10, .step_ns = 1, .count = 3, .recorded = &recorded, .finish = &finish};
  pthread_t thread;
  pthread_create(
      &thread, NULL, record_some, &idle); /* keeps its chunk open, with events from the beginning */
  pthread_barrier_wait(&recorded);
  for (uint64_t i = 1; i <= 5000; i++)
    fake_record(recorder, GP_ACTION_ALLOC, 1000 * i, i);
  take();
  ck_assert_uint_eq(history.count + history.dropped, 5003);
  for (size_t i = 0; i < history.count; i++)
    ck_assert_uint_eq(nth(i)->block_id, 5000 - history.count + 1 + i);
  pthread_barrier_wait(&finish);
  pthread_join(thread, NULL);
}
END_TEST

#if !defined(__SANITIZE_THREAD__) /* libunwind ends its part of a thread after TSan has ended its own */
#define CAPTURES 40               /* more than a thread makes before it gets a cache */

static void *record_and_capture(void *ret_cached)
{
  uintptr_t addresses[16];
  fake_record(recorder, GP_ACTION_ALLOC, 1000, 1);
  for (int i = 0; i < CAPTURES; i++)
    (void)gp_unwind(GP_UNWINDER_BEST, 0, addresses, 16);
  *(int *)ret_cached = gp_unwind_cached_threads();
  return NULL;
}

/* Else libunwind would serve the first threads of a program only. */
START_TEST(test_a_thread_that_ends_leaves_its_unwinder_to_others)
{
  pthread_t thread;
  int cached = 0, before = gp_unwind_cached_threads();
  make_recorder(NULL, NULL);
  gp_unwind_prepare();
  ck_assert_int_eq(pthread_create(&thread, NULL, record_and_capture, &cached), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
#if defined(__x86_64__)
  if (dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL))
    ck_assert_int_eq(cached, before + 1);
#endif
  ck_assert_int_eq(gp_unwind_cached_threads(), before);
}
END_TEST
#endif

START_TEST(test_mode_off_and_state_record_nothing)
{
  make_recorder(_i ? "GPUPOOL_TRACE=off" : "GPUPOOL_TRACE=state", NULL);
  ck_assert_int_eq(gp_recorder_mode(recorder), _i ? GP_TRACE_OFF : GP_TRACE_STATE);
  fake_record(recorder, GP_ACTION_ALLOC, 1000, 1);
  take();
  ck_assert_uint_eq(history.count, 0);
  ck_assert_uint_eq(gp_threads_count(&recorder->threads), 0);
}
END_TEST

START_TEST(test_pause_forgets_what_was_before)
{
  make_recorder(NULL, NULL);
  fake_record(recorder, GP_ACTION_ALLOC, 1000, 1);
  gp_recorder_set_mode(recorder, GP_TRACE_OFF);
  fake_record(recorder, GP_ACTION_ALLOC, 2000, 2);
  take();
  ck_assert_uint_eq(history.count, 1); /* while it is off, what was recorded is still a complete history */
  fake_now_ns = 3000;
  gp_recorder_set_mode(recorder, GP_TRACE_ALL);
  fake_record(recorder, GP_ACTION_ALLOC, 4000, 3);
  gp_recorder_set_mode(recorder, GP_TRACE_ALL); /* no change */
  take();
  ck_assert_uint_eq(history.count, 1);
  ck_assert_uint_eq(nth(0)->block_id, 3);
  ck_assert_uint_eq(history.dropped, 1);
  ck_assert_uint_eq(history.since_ns, 3000);
}
END_TEST

START_TEST(test_streams_keep_their_index)
{
  make_recorder(NULL, NULL);
  const gp_observer_t observer = gp_recorder_observer(recorder);
  static const uint64_t handles[] = {0, 1, 0x5550, 0, 0x5550, 2, 1};
  static const int expected[] = {0, 1, 2, 0, 2, 3, 1};
  for (uint64_t i = 0; i < 7; i++) {
    const gp_event_t event = {.time_ns = i, .stream = handles[i], .device = -1, .has_stream = true};
    observer.event(observer.self, &event);
  }
  const gp_event_t without = {.time_ns = 7, .stream = 99, .device = -1};
  observer.event(observer.self, &without);
  take();
  for (size_t i = 0; i < 7; i++)
    ck_assert_int_eq(nth(i)->stream, expected[i]);
  ck_assert_int_eq(nth(7)->stream, -1);
  ck_assert_uint_eq(gp_handles_count(&recorder->handles), 4);
}
END_TEST

START_TEST(test_streams_beyond_the_table_have_none)
{
  make_recorder(NULL, NULL);
  for (uint64_t i = 0; i < GP_HANDLES_MAX; i++)
    ck_assert_int_eq(gp_handles_intern(&recorder->handles, i * 4096), (int)i);
  ck_assert_int_eq(gp_handles_intern(&recorder->handles, 7), -1);
  ck_assert_int_eq(gp_handles_intern(&recorder->handles, 100 * 4096), 100);
}
END_TEST

static void *name_and_record(void *arg)
{
  prctl(PR_SET_NAME, "worker-7");
  return record_some(arg);
}

START_TEST(test_threads_have_names)
{
  make_recorder(NULL, NULL);
  work_t work = {.first_ns = 1, .count = 1};
  in_thread(name_and_record, &work);
  ck_assert_str_eq(recorder->threads.table->entries[0].name, "worker-7");
}
END_TEST

START_TEST(test_last_thread_entry_stands_for_the_rest)
{
  make_recorder(NULL, NULL);
  for (int i = 0; i < GP_THREADS_MAX - 1; i++)
    ck_assert_uint_eq(gp_threads_add_caller(&recorder->threads), i);
  ck_assert_uint_eq(gp_threads_add_caller(&recorder->threads), GP_THREADS_MAX - 1);
  ck_assert_uint_eq(gp_threads_add_caller(&recorder->threads), GP_THREADS_MAX - 1);
  ck_assert_int_eq(recorder->threads.table->entries[GP_THREADS_MAX - 1].tid, 0);
  ck_assert_str_eq(recorder->threads.table->entries[GP_THREADS_MAX - 1].name, GP_THREADS_OTHER_NAME);
}
END_TEST

START_TEST(test_forked_child_is_silent)
{
  make_recorder(NULL, NULL);
  fake_record(recorder, GP_ACTION_ALLOC, 1000, 1);
  pid_t child = fork();
  if (child == 0) {
    if (_i == 0)
      gp_recorder_fork_child(recorder);
    for (uint64_t i = 0; i < 1000; i++) /* more than the rest of a chunk */
      fake_record(recorder, GP_ACTION_ALLOC, 2000 + i, 2);
    _exit(gp_recorder_mode(recorder) == GP_TRACE_OFF ? 0 : 1);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  take();
  ck_assert_uint_eq(history.count, 1);
}
END_TEST

/* Two blocks, each with its owner after owner: in a stream, in another, in none. Records and slots have it,
 * with every recording that fills them. */
START_TEST(test_each_owner_has_its_stream)
{
  static const int16_t wanted[] = {0, 0, 1, -1, 1, 0};
  static const uint64_t streams[] = {0xa0, 0xb0};
  const bool keeps_all = _i == 0;
  gp_cookie_t cookies[2] = {{0, 0}};

  make_recorder(keeps_all ? "GPUPOOL_TRACE=all" : "GPUPOOL_TRACE=state", NULL);
  const gp_observer_t observer = gp_recorder_observer(recorder);
  for (int i = 0; i < 6; i++) {
    gp_cookie_t *cookie = &cookies[i % 2];
    gp_event_t event = {.address = 0x10000 + (uint64_t)(i % 2) * 4096,
        .size = 4096,
        .rounded_size = 4096,
        .action = cookie->slot ? GP_ACTION_FREE_COMPLETED : GP_ACTION_SEGMENT_ALLOC,
        .observer_cookie = cookie};
    for (int step = 0; step < 3; step++) {
      event.time_ns = (uint64_t)(i * 3 + step + 1);
      observer.event(observer.self, &event);
      event.action = step == 0 ? GP_ACTION_ALLOC : GP_ACTION_FREE_REQUESTED;
      event.block_id = (uint64_t)i + 1;
      event.has_stream = wanted[i] >= 0;
      event.stream = event.has_stream ? streams[wanted[i]] : 0;
    }
    const gp_live_slot_t *slot = &recorder->live.slots[cookie->slot - 1];
    ck_assert_uint_eq(slot->block_id, (uint64_t)i + 1);
    ck_assert_int_eq(slot->stream, wanted[i]);
  }
  if (!keeps_all)
    return;
  take();
  ck_assert_uint_eq(history.count, 18);
  for (size_t i = 0; i < 18; i++)
    ck_assert(i % 3 == 0 || nth(i)->stream == wanted[i / 3]);
}
END_TEST

/* Writers and readers at once; for the sanitizers, and that what a reader sees is a suffix of each thread. */
static atomic_bool stop;

static void *record_until_stopped(void *arg)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  uint64_t device = *(uint64_t *)arg;
  for (uint64_t i = 1; !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
    const gp_event_t event = {.time_ns = atomic_fetch_add(&fake_now_ns, 1),
        .block_id = i,
        .device = (int)device,
        .has_stream = true,
        .stream = i % 5};
    observer.event(observer.self, &event);
  }
  return NULL;
}

START_TEST(test_readers_see_a_suffix_while_others_record)
{
  make_recorder("GPUPOOL_TRACE_EVENTS=4096", NULL);
  enum { THREADS = 3 };
  pthread_t threads[THREADS];
  uint64_t devices[THREADS];
  gp_lock_leave_gaps(GAPS);
  atomic_store(&stop, false);
  for (uint64_t i = 0; i < THREADS; i++) {
    devices[i] = i;
    pthread_create(&threads[i], NULL, record_until_stopped, &devices[i]);
  }
  for (int round = 0; round < 40; round++) {
    uint64_t last[THREADS] = {0};
    take();
    assert_sorted();
    for (size_t i = 0; i < history.count; i++) {
      const gp_decoded_event_t *record = nth(i);
      uint64_t *block = &last[record->device];
      ck_assert(*block == 0 || record->block_id == *block + 1);
      *block = record->block_id;
    }
    gp_event_merge_fini(&history);
  }
  atomic_store(&stop, true);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("recorder");
  TCase *tcase = tcase_create("recorder");
  tcase_set_timeout(tcase, 60);
  gp_add_leak_fixtures(tcase);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, test_every_field_comes_back);
  tcase_add_test(tcase, test_long_durations_keep_their_magnitude);
  tcase_add_test(tcase, test_nothing_is_dropped_within_the_capacity);
  tcase_add_test(tcase, test_wrap_keeps_a_suffix);
  tcase_add_test(tcase, test_where_there_is_less_room_half_as_many_events_are_kept);
  tcase_add_test(tcase, test_without_room_there_is_no_recorder);
  tcase_add_test(tcase, test_two_threads_merge_in_order);
  tcase_add_test(tcase, test_equal_times_go_by_block_then_arrival);
  tcase_add_test(tcase, test_order_of_one_device_is_that_of_arrival);
  tcase_add_test(tcase, test_times_that_go_backwards_are_sorted);
  tcase_add_test(tcase, test_events_after_the_fence_are_left_out);
  tcase_add_test(tcase, test_events_of_ended_threads_are_kept);
  tcase_add_test(tcase, test_chunks_of_ended_threads_are_used_again);
  tcase_add_test(tcase, test_oldest_chunk_is_used_again_first);
  tcase_add_test(tcase, test_threads_share_when_no_chunk_is_left);
  tcase_add_test(tcase, test_loss_in_one_thread_hides_older_events_of_others);
  tcase_add_loop_test(tcase, test_mode_off_and_state_record_nothing, 0, 2);
  tcase_add_test(tcase, test_pause_forgets_what_was_before);
  tcase_add_test(tcase, test_streams_keep_their_index);
  tcase_add_loop_test(tcase, test_each_owner_has_its_stream, 0, 2);
  tcase_add_test(tcase, test_streams_beyond_the_table_have_none);
  tcase_add_test(tcase, test_threads_have_names);
  tcase_add_test(tcase, test_last_thread_entry_stands_for_the_rest);
  tcase_add_loop_test(tcase, test_forked_child_is_silent, 0, 2);
  tcase_add_test(tcase, test_readers_see_a_suffix_while_others_record);
  suite_add_tcase(suite, tcase);
  TCase *unwinders = tcase_create("unwinders"); /* libunwind keeps a pipe for good */
  tcase_add_checked_fixture(unwinders, setup, teardown);
#if !defined(__SANITIZE_THREAD__)
  tcase_add_test(unwinders, test_a_thread_that_ends_leaves_its_unwinder_to_others);
#endif
  suite_add_tcase(suite, unwinders);
  return gp_check_main_apart(suite);
}
