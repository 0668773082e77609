/*
 * One record a pair: what is written, and that readers get three events of it, each once.
 */
#include <check.h>
#include <pthread.h>
#include <string.h>

#include "leaks.h"
#include "fake_engine.h"
#include "test/pool/check_main.h"
#include "trace/record/recorder_state.h"
#include "trace/snapshot/event_merge.h"

#define CONTEXT 5

static gp_recorder_t *recorder;
static gp_observer_t observer;
static gp_event_merge_t history;
static gp_device_copy_t copies[GP_MAX_DEVICES];
static gp_block_view_t views[8];
static uint64_t next_id;
static uint64_t told; /* events, and their times: */
static uint64_t times[16384];

static void make_recorder(const char *first, const char *second)
{
  recorder = gp_recorder_create(fake_options(first, second, NULL), fake_clock, NULL);
  ck_assert_ptr_nonnull(recorder);
  observer = gp_recorder_observer(recorder);
}

static void setup(void)
{
  fake_reset();
  memset(copies, 0, sizeof(copies));
  copies[0].until_ns = UINT64_MAX;
  copies[0].blocks.items = views;
  next_id = 0;
  told = 0;
}

static void teardown(void)
{
  gp_event_merge_fini(&history);
  gp_recorder_destroy(recorder);
  recorder = NULL;
}

static void take(void)
{
  const gp_event_moment_t moment = {copies, 1};
  gp_event_merge_fini(&history);
  ck_assert(gp_event_merge_take(&recorder->chunks, &moment, &history));
}

/* What the engine does: a step, and the whole event where the observer leaves it. */
static uint64_t tell(gp_step_fn step, gp_action_t action, gp_observed_t *block)
{
  uint64_t time_ns = ++fake_now_ns;
  uint64_t told_ns = step ? step(observer.self, block, CONTEXT, 0, true, time_ns) : 0;
  const gp_event_t event = {.time_ns = time_ns,
      .address = block->address,
      .size = block->requested,
      .rounded_size = block->size,
      .block_id = block->block_id,
      .alloc_ns = action == GP_ACTION_ALLOC ? 0 : block->time_ns,
      .origin = block->origin,
      .action = action,
      .context = CONTEXT,
      .observer_cookie = &block->observer_cookie,
      .stream = block->stream,
      .has_stream = block->stream != 0,
      .hit = action == GP_ACTION_ALLOC,
      .is_cut = true};
  if (told_ns == 0)
    told_ns = observer.event(observer.self, &event);
  times[told++] = told_ns;
  return told_ns;
}

static void begin(gp_observed_t *block, uint64_t address)
{
  block->address = address;
  block->size = 4096;
  block->requested = 4000;
  block->block_id = ++next_id;
  block->origin = 7;
  block->time_ns = tell(observer.alloc, GP_ACTION_ALLOC, block);
}

static void free_it(gp_observed_t *block)
{
  (void)tell(observer.free_requested, GP_ACTION_FREE_REQUESTED, block);
}

static void complete(gp_observed_t *block)
{
  (void)tell(observer.free_completed, GP_ACTION_FREE_COMPLETED, block);
}

static void pair(gp_observed_t *block, uint64_t address)
{
  begin(block, address);
  free_it(block);
  complete(block);
}

/* The first pair of a recorder is special: it has no slot, and the thread no chunk. */
static void warm_up(void)
{
  gp_observed_t block = {0};
  pair(&block, 0x1000);
}

static size_t records(void)
{
  size_t count = 0;
  for (uint32_t i = 0; i < recorder->chunks.header->used; i++)
    count += atomic_load(&recorder->chunks.chunks[i].count);
  return count;
}

static void show_live(const gp_observed_t *block, gp_block_state_t state)
{
  views[copies[0].blocks.count++] = (gp_block_view_t){.address = block->address,
      .size = block->size,
      .requested = block->requested,
      .block_id = block->block_id,
      .time_ns = block->time_ns,
      .origin = block->origin,
      .observer_note = block->observer_cookie.note,
      .state = state};
}

static gp_decoded_event_t nth(size_t i)
{
  ck_assert_uint_lt(i, history.count);
  return gp_event_merge_get(&history, i);
}

static void expect(size_t i, gp_action_t action, const gp_observed_t *block)
{
  gp_decoded_event_t event = nth(i);
  ck_assert_int_eq(event.action, action);
  ck_assert_uint_eq(event.address, block->address);
  ck_assert_uint_eq(event.size, 4000);
  ck_assert_uint_eq(event.rounded_size, 4096);
  ck_assert_uint_eq(event.block_id, block->block_id);
  ck_assert_int_eq(event.stack, 6);
  ck_assert_int_eq(event.stream, -1);
  ck_assert_uint_eq(event.hit, action == GP_ACTION_ALLOC);
  ck_assert_uint_eq(event.lifetime_ns, action == GP_ACTION_ALLOC ? 0 : event.time_ns - block->time_ns);
}

START_TEST(test_a_pair_is_one_record_and_three_events)
{
  make_recorder(NULL, NULL);
  warm_up();
  gp_observed_t block = {0};
  size_t before = records();
  pair(&block, 0x10000);
  ck_assert_uint_eq(records(), before + 1);
  take();
  ck_assert_uint_eq(history.count, 6);
  expect(3, GP_ACTION_ALLOC, &block);
  expect(4, GP_ACTION_FREE_REQUESTED, &block);
  expect(5, GP_ACTION_FREE_COMPLETED, &block);
  ck_assert_uint_eq(nth(3).time_ns, block.time_ns);
  ck_assert_uint_lt(nth(4).time_ns, nth(5).time_ns);
}
END_TEST

static void *free_and_complete(void *arg)
{
  free_it(arg);
  complete(arg);
  return NULL;
}

static void in_thread(void *(*fn)(void *), void *arg)
{
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
  pthread_join(thread, NULL);
}

START_TEST(test_each_event_has_its_thread)
{
  make_recorder(NULL, NULL);
  warm_up();
  gp_observed_t block = {0};
  begin(&block, 0x10000);
  in_thread(free_and_complete, &block);
  take();
  ck_assert_uint_eq(nth(3).thread, 0);
  ck_assert_uint_eq(nth(4).thread, 1);
  ck_assert_uint_eq(nth(5).thread, 1);
}
END_TEST

static void *complete_it(void *arg)
{
  complete(arg);
  return NULL;
}

/* The record is in another thread's chunk, open or closed. */
START_TEST(test_another_thread_completes)
{
  make_recorder(NULL, NULL);
  warm_up();
  gp_observed_t block = {0};
  begin(&block, 0x10000);
  free_it(&block);
  size_t before = records();
  in_thread(complete_it, &block);
  ck_assert_uint_eq(records(), before);
  take();
  expect(5, GP_ACTION_FREE_COMPLETED, &block);
}
END_TEST

/* A snapshot has the allocs of live blocks; what comes after its moment belongs to the next one. */
START_TEST(test_a_live_block_has_its_alloc)
{
  make_recorder(NULL, NULL);
  warm_up();
  gp_observed_t live = {0}, pending = {0}, recorded = {0};
  begin(&live, 0x10000);
  begin(&pending, 0x20000);
  free_it(&pending);
  recorded = (gp_observed_t){.address = 0x30000, .size = 4096, .block_id = 9};
  show_live(&live, GP_BLOCK_ALLOCATED);
  show_live(&pending, GP_BLOCK_PENDING);
  show_live(&recorded, GP_BLOCK_ALLOCATED);
  copies[0].until_ns = fake_now_ns;
  free_it(&live);
  complete(&live);
  complete(&pending);
  take();
  ck_assert_uint_eq(history.count, 3 + 3);
  expect(3, GP_ACTION_ALLOC, &live);
  expect(4, GP_ACTION_ALLOC, &pending);
  expect(5, GP_ACTION_FREE_REQUESTED, &pending);
}
END_TEST

/* What is kept and what is dropped are all events, and what is kept is what is newer than the loss. */
static void expect_no_gap(void)
{
  uint64_t newer = 0;
  for (uint64_t i = 0; i < told; i++)
    newer += !history.has_lost || times[i] > history.since_ns;
  ck_assert_uint_eq(history.count, newer);
  ck_assert_uint_eq(history.count + history.dropped, told);
  ck_assert_uint_le(history.count, 1024);
  for (size_t i = 1; i < history.count; i++)
    ck_assert_uint_gt(nth(i).time_ns, nth(i - 1).time_ns);
}

START_TEST(test_the_ring_counts_events)
{
  enum { PAIRS = 3000, EVENTS = 1024 };
  static gp_observed_t blocks[PAIRS];
  make_recorder("GPUPOOL_TRACE_EVENTS=1024", NULL);
  memset(blocks, 0, sizeof(blocks));
  warm_up();
  for (int i = 0; i < PAIRS; i++)
    pair(&blocks[i], 0x10000);
  take();
  expect_no_gap();
  ck_assert_uint_eq(history.count, EVENTS);
  ck_assert_uint_le(records(), EVENTS / 2);
  for (size_t i = 0; i < history.count; i++)
    ck_assert_uint_eq(nth(history.count - 1 - i).block_id, next_id - i / 3);
}
END_TEST

/* Frees whose completion comes late, in part after their record is gone, or will be soon: by so many pairs.
 */
START_TEST(test_late_completions_are_kept)
{
  enum { PAIRS = 4000 };
  static gp_observed_t blocks[PAIRS];
  const int late = 5 * _i;
  make_recorder("GPUPOOL_TRACE_EVENTS=1024", NULL);
  memset(blocks, 0, sizeof(blocks));
  warm_up();
  for (int i = 0; i < PAIRS; i++) {
    begin(&blocks[i], 0x10000 + (uint64_t)i * 4096);
    free_it(&blocks[i]);
    if (i >= late)
      complete(&blocks[i - late]);
  }
  take();
  expect_no_gap();
  ck_assert_uint_ge(history.count, 1000);
}
END_TEST

START_TEST(test_the_alloc_is_told_when_recording_ends)
{
  make_recorder(NULL, NULL);
  warm_up();
  gp_observed_t block = {0};
  begin(&block, 0x10000);
  gp_recorder_set_mode(recorder, _i == 0 ? GP_TRACE_STATE : GP_TRACE_OFF);
  free_it(&block);
  complete(&block);
  take();
  ck_assert_uint_eq(history.count, 4);
  expect(3, GP_ACTION_ALLOC, &block);
  ck_assert_uint_eq(nth(3).time_ns, block.time_ns);
}
END_TEST

/* A free with a stack of its own has a record of its own. */
/* Also where each event has a record of its own. */
START_TEST(test_the_ring_counts_single_events)
{
  static gp_observed_t blocks[3000];
  make_recorder("GPUPOOL_TRACE_EVENTS=1024", "GPUPOOL_STACKS_FREE=1");
  memset(blocks, 0, sizeof(blocks));
  for (int i = 0; i < 3000; i++)
    pair(&blocks[i], 0x10000);
  take();
  expect_no_gap();
  ck_assert_uint_ge(history.count, 1024 - GP_CHUNK_RECORDS_MIN);
}
END_TEST

START_TEST(test_stacks_of_frees_need_records)
{
  make_recorder("GPUPOOL_STACKS_FREE=1", NULL);
  warm_up();
  gp_observed_t block = {0};
  size_t before = records();
  pair(&block, 0x10000);
  ck_assert_uint_eq(records(), before + 3);
  take();
  ck_assert_uint_eq(history.count, 6);
}
END_TEST

/* A completion never changes the record of another block in the same place. */
START_TEST(test_a_record_of_another_block_stays)
{
  gp_chunks_t *chunks = &((make_recorder(NULL, NULL), recorder)->chunks);
  warm_up();
  gp_observed_t block = {0};
  begin(&block, 0x10000);
  free_it(&block);
  uint32_t place = block.observer_cookie.note;
  for (int is_own = 0; is_own < 2; is_own++) {
    ck_assert(!gp_chunks_complete(chunks, place, is_own, block.block_id + 1, fake_now_ns + 1));
    ck_assert(!gp_chunks_complete(chunks, place, is_own, block.block_id, fake_now_ns));
    ck_assert(!gp_chunks_complete(chunks, place, is_own, block.block_id, fake_now_ns + UINT32_MAX));
  }
  complete(&block);
  ck_assert(!gp_chunks_complete(chunks, place, false, block.block_id, fake_now_ns + 1));
  take();
  ck_assert_uint_eq(history.count, 6);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("pairs");
  TCase *tcase = tcase_create("pairs");
  gp_add_leak_fixtures(tcase);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, test_a_pair_is_one_record_and_three_events);
  tcase_add_test(tcase, test_each_event_has_its_thread);
  tcase_add_test(tcase, test_another_thread_completes);
  tcase_add_test(tcase, test_a_live_block_has_its_alloc);
  tcase_add_test(tcase, test_the_ring_counts_events);
  tcase_add_loop_test(tcase, test_late_completions_are_kept, 0, 120);
  tcase_add_loop_test(tcase, test_the_alloc_is_told_when_recording_ends, 0, 2);
  tcase_add_test(tcase, test_the_ring_counts_single_events);
  tcase_add_test(tcase, test_stacks_of_frees_need_records);
  tcase_add_test(tcase, test_a_record_of_another_block_stays);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
