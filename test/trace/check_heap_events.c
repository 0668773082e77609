/*
 * The events of threads that share nothing: whichever heap or list a block was in, and whichever thread freed
 * it, its events are in the order in which they happened. The clock gives many of them the same time.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pool/engine.h"
#include "base/lock.h"
#include "test/pool/check_main.h"
#include "test/pool/fake_driver.h"
#include "test/pool/run_together.h"
#include "trace/record/recorder.h"
#include "trace/record/recorder_state.h"
#include "trace/snapshot/event_merge.h"

#define THREADS  4
#define STEPS    4000
#define SHARED   16
#define READINGS 32 /* of the clock, with the same answer */
#define LIVES    4096

static fake_driver_t driver;
static gp_engine_t *engine;
static gp_context_t *context;
static gp_recorder_t *recorder;
static _Atomic uint64_t readings, shared[SHARED];

static uint64_t slow_clock(void *self)
{
  (void)self;
  return 1000 + atomic_fetch_add(&readings, 1) / READINGS * READINGS;
}

static void free_block(uint64_t address)
{
  int code = 0;
  if (address != 0 && (gp_engine_free(engine, address, &code) != GP_FREE_DONE || code != 0))
    abort();
}

static void synchronize(void)
{
  gp_engine_sync_end(engine, context, gp_engine_sync_begin(engine));
}

static uint64_t allocate(uint64_t bytes)
{
  uint64_t address = 0;
  if (gp_engine_alloc(engine, context, bytes, &address) != 0)
    abort();
  return address;
}

static void work(uintptr_t number)
{
  uint32_t random = (uint32_t)number + 1;

  for (int i = 0; i < STEPS; i++) {
    random = random * 1664525u + 1013904223u;
    uint64_t address = allocate(512 * (1 + (random >> 8) % 4));
    if ((random >> 16) % 8 == 0)
      address = atomic_exchange(&shared[(random >> 20) % SHARED], address); /* another thread may free it */
    free_block(address);
    if ((random >> 24) % 16 == 0)
      synchronize();
    if (random >> 24 == 1)
      (void)gp_engine_largest_idle(engine, 0);
  }
}

static const char *const types[] = {"GPUPOOL_TYPE=round", "GPUPOOL_TYPE=naive", "GPUPOOL_TYPE=segment"};

static void begin(const char *type, const char *mode)
{
  static gp_options_t options;
  gp_driver_context_t first = fake_context(0, 0);

  fake_options(
      &options, (const char *const[]){mode, "GPUPOOL_TRACE_EVENTS=262144", "GPUPOOL_STACKS=off", NULL});
  recorder = gp_recorder_create(&options, slow_clock, NULL);
  ck_assert_ptr_nonnull(recorder);
  const gp_observer_t observer = gp_recorder_observer(recorder);
  fake_driver_init(&driver, GP_GIB, true);
  driver.locked = true;
  driver.ops.now_ns = slow_clock;
  engine = fake_engine(&driver, &observer, (const char *const[]){type, NULL});
  context = gp_engine_context(engine, &first);
}

static void end(void)
{
  for (int i = 0; i < SHARED; i++)
    free_block(atomic_exchange(&shared[i], 0));
  synchronize();
  gp_stats_t stats;
  gp_engine_stats(engine, 0, &stats);
  ck_assert_uint_eq(stats.allocation.current, 0);
  ck_assert_uint_eq(stats.allocation.allocated, THREADS * STEPS);
  ck_assert(gp_engine_check(engine));
}

/* What the events told of an address last. */
typedef struct life {
  uint64_t address;
  uint64_t block_id;
  uint64_t time_ns;
  int action;
} life_t;

static life_t lives[LIVES];

static life_t *life_of(uint64_t address)
{
  for (size_t i = address / 512 % LIVES;; i = (i + 1) % LIVES) {
    if (lives[i].address == address)
      return &lives[i];
    if (lives[i].address == 0) {
      lives[i] = (life_t){.address = address, .action = GP_ACTION_FREE_COMPLETED};
      return &lives[i];
    }
  }
}

static int before(int action)
{
  return action == GP_ACTION_ALLOC            ? GP_ACTION_FREE_COMPLETED
         : action == GP_ACTION_FREE_REQUESTED ? GP_ACTION_ALLOC
                                              : GP_ACTION_FREE_REQUESTED;
}

static void follow(const gp_decoded_event_t *event, uint64_t *allocs)
{
  bool is_step = event->action == GP_ACTION_ALLOC || event->action == GP_ACTION_FREE_REQUESTED ||
                 event->action == GP_ACTION_FREE_COMPLETED;
  if (!is_step)
    return;
  life_t *life = life_of(event->address);
  ck_assert_int_eq(life->action, before(event->action));
  ck_assert_uint_gt(event->time_ns, life->time_ns);
  if (event->action == GP_ACTION_ALLOC)
    ck_assert_uint_gt(event->block_id, life->block_id);
  else
    ck_assert_uint_eq(event->block_id, life->block_id);
  *life = (life_t){event->address, event->block_id, event->time_ns, event->action};
  *allocs += event->action == GP_ACTION_ALLOC;
}

START_TEST(test_events_of_a_block_are_in_order)
{
  static gp_device_copy_t copies[GP_MAX_DEVICES]; /* without blocks */
  gp_event_merge_t history;
  uint64_t allocs = 0;

  memset(lives, 0, sizeof(lives));
  begin(types[_i], "GPUPOOL_TRACE=all");
  gp_lock_leave_gaps(16);
  gp_run_together(THREADS, work);
  gp_lock_leave_gaps(0);
  end();
  for (int i = 0; i < GP_MAX_DEVICES; i++)
    copies[i].until_ns = UINT64_MAX;
  const gp_event_moment_t moment = {copies, UINT64_MAX};
  ck_assert(gp_event_merge_take(&recorder->chunks, &moment, &history));
  ck_assert(!history.has_lost);
  for (size_t i = 0; i < history.count; i++) {
    const gp_decoded_event_t event = gp_event_merge_get(&history, i);
    follow(&event, &allocs);
  }
  ck_assert_uint_eq(allocs, THREADS * STEPS);
  gp_event_merge_fini(&history);
  gp_engine_destroy(engine);
  gp_recorder_destroy(recorder);
  fake_driver_fini(&driver);
}
END_TEST

static void work_and_switch(uintptr_t number)
{
  const int modes[] = {GP_TRACE_ALL, GP_TRACE_OFF, GP_TRACE_STATE};
  if (number > 0) {
    work(number);
    return;
  }
  for (int i = 0; i < STEPS; i++) {
    gp_recorder_set_mode(recorder, modes[i % 3]);
    free_block(allocate(512));
  }
}

/* While the mode changes, no slot stays in use or is in use twice. */
START_TEST(test_modes_change_beside_heaps)
{
  uint64_t used = 0;

  begin(types[_i], "GPUPOOL_TRACE=all");
  gp_lock_leave_gaps(16);
  gp_run_together(THREADS, work_and_switch);
  gp_lock_leave_gaps(0);
  end();
  for (uint32_t i = 0; i < atomic_load(&recorder->live.used); i++) {
    gp_live_word_t word = gp_live_unpack(atomic_load(&recorder->live.slots[i].word));
    used += word.state == GP_LIVE_ALLOCATED || word.state == GP_LIVE_PENDING;
  }
  ck_assert_uint_eq(used, 0);
  gp_engine_destroy(engine);
  gp_recorder_destroy(recorder);
  fake_driver_fini(&driver);
}
END_TEST

static pthread_key_t late;

static void free_late(void *block)
{
  free_block((uint64_t)(uintptr_t)block);
}

static void *free_at_the_end(void *ignored)
{
  uint64_t block = allocate(4096);
  free_block(allocate(4096));
  (void)pthread_setspecific(late, (void *)(uintptr_t)block);
  return ignored;
}

/* A thread's last free may come after the recorder has closed the thread's chunk. */
START_TEST(test_threads_leave_no_chunk_open)
{
  unsigned open = 0;

  begin(types[_i], "GPUPOOL_TRACE=all");
  ck_assert_int_eq(pthread_key_create(&late, free_late), 0);
  for (int i = 0; i < 8; i++) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, free_at_the_end, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
  }
  for (uint32_t i = 0; i < recorder->chunks.header->used; i++)
    open += recorder->chunks.chunks[i].state == GP_CHUNK_OPEN;
  ck_assert_uint_eq(open, 0);
  ck_assert_int_eq(pthread_key_delete(late), 0);
  gp_engine_destroy(engine);
  gp_recorder_destroy(recorder);
  fake_driver_fini(&driver);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("heap events");
  TCase *events = tcase_create("events");
  tcase_set_timeout(events, 120);
  tcase_add_loop_test(events, test_events_of_a_block_are_in_order, 0, 3);
  tcase_add_loop_test(events, test_modes_change_beside_heaps, 0, 3);
  tcase_add_loop_test(events, test_threads_leave_no_chunk_open, 0, 3);
  suite_add_tcase(suite, events);
  return gp_check_main(suite);
}
