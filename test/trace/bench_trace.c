/*
 * Nanoseconds to record an event, seconds to write a snapshot of a million.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fake_engine.h"
#include "trace/stacks/origin.h"
#include "trace/snapshot/snapshot.h"
#include "trace/stacks/unwind.h"

#define EVENTS UINT64_C(1000000)
#define ROUNDS 9

static gp_recorder_t *recorder;
static gp_snapshot_writer_t *writer;

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void record_events(int device, uint64_t count)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  for (uint64_t i = 0; i < count; i++) {
    const gp_event_t event = {
        .time_ns = 1000000000 + i * 20,
        .address = 0x7f0000000000 + (i % 1000 << 21),
        .size = 1000000 + i % 1000,
        .rounded_size = 1 << 20,
        .block_id = i / 3,
        .alloc_ns = i % 3 ? 1000000000 + i * 20 - 12345 : 0,
        .action = (gp_action_t)(i % 3),
        .device = device,
        .hit = true,
    };
    observer.event(observer.self, &event);
  }
}

static void *other_thread(void *arg)
{
  record_events(1, EVENTS);
  return NULL;
}

static void print_record(const char *what, const char *events, const char *mode, int threads)
{
  uint64_t best = UINT64_MAX;
  uint64_t first = 0;
  recorder = gp_recorder_create(fake_options(events, mode, NULL), fake_clock, NULL);
  if (!recorder)
    exit(EXIT_FAILURE);
  for (int round = 0; round < ROUNDS; round++) {
    pthread_t thread;
    uint64_t start = now_ns();
    if (threads == 2 && pthread_create(&thread, NULL, other_thread, NULL))
      exit(EXIT_FAILURE);
    record_events(0, EVENTS);
    if (threads == 2)
      pthread_join(thread, NULL);
    uint64_t spent = now_ns() - start;
    if (round == 0)
      first = spent;
    if (spent < best)
      best = spent;
  }
  printf("record, %-28s %6.1f ns per event (first pass %.1f)\n", what, (double)best / (double)EVENTS,
      (double)first / (double)EVENTS);
  gp_recorder_destroy(recorder);
}

/* From eight places, each of which has a stack of its own. */
static __attribute__((noinline)) void record_with_stack(const gp_observer_t *observer, uint64_t i, int depth)
{
  if (depth > 0) {
    record_with_stack(observer, i, depth - 1);
    __asm__ volatile("" ::: "memory"); /* no tail call: it is to be a frame */
    return;
  }
  gp_origin_begin_call();
  if (i % 3 == 0)
    observer->find_origin(observer->self, GP_OCCASION_ALLOC, 1000);
  const gp_event_t event = {
      .time_ns = 1000000000 + i * 20,
      .address = 0x7f0000000000 + (i % 1000 << 21),
      .size = 1000000 + i % 1000,
      .rounded_size = 1 << 20,
      .block_id = i / 3,
      .alloc_ns = i % 3 ? 1000000000 + i * 20 - 12345 : 0,
      .origin = observer->origin(observer->self),
      .action = (gp_action_t)(i % 3),
      .device = 2,
      .hit = true,
  };
  observer->event(observer->self, &event);
}

static void record_with_stacks(uint64_t count)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  for (uint64_t i = 0; i < count; i++)
    record_with_stack(&observer, i, (int)(i / 3 % 8));
}

static void print_write(const char *folder, const char *stacks)
{
  uint64_t best = UINT64_MAX;
  char path[128];
  off_t bytes = 0;
  recorder = gp_recorder_create(fake_options("GPUPOOL_TRACE_EVENTS=1048576", stacks, NULL), fake_clock, NULL);
  writer = recorder ? gp_snapshot_writer_create(recorder) : NULL;
  if (!writer)
    exit(EXIT_FAILURE);
  gp_snapshot_writer_attach(writer, fake_engine_pointer());
  fake_fill();
  if (stacks)
    record_with_stacks(EVENTS);
  else
    record_events(2, EVENTS);
  snprintf(path, sizeof(path), "%s/bench_trace.%d.json", folder, (int)getpid());
  for (int round = 0; round < 5; round++) {
    struct stat status;
    uint64_t start = now_ns();
    if (gp_snapshot_write(writer, "bench", NULL, path))
      exit(EXIT_FAILURE);
    uint64_t spent = now_ns() - start;
    if (spent < best)
      best = spent;
    if (stat(path, &status) == 0)
      bytes = status.st_size;
    unlink(path);
  }
  printf("write, %llu events%s to %-9s %6.3f s (%.1f MB)\n", (unsigned long long)EVENTS,
      stacks ? " with stacks" : "", folder, (double)best / 1e9, (double)bytes / 1e6);
  gp_snapshot_writer_destroy(writer);
  gp_recorder_destroy(recorder);
}

int main(void)
{
  fake_reset();
  print_record("one thread, 131072 kept", "GPUPOOL_TRACE_EVENTS=131072", NULL, 1);
  print_record("one thread, 4M kept", "GPUPOOL_TRACE_EVENTS=4194304", NULL, 1);
  print_record("two threads and devices", "GPUPOOL_TRACE_EVENTS=131072", NULL, 2);
  print_record("GPUPOOL_TRACE=state", "GPUPOOL_TRACE=state", NULL, 1);
  gp_unwind_set_own_range(0, 1);
  print_write("/dev/shm", NULL);
  print_write("/dev/shm", "GPUPOOL_STACKS=native");
  print_write("/tmp", NULL);
  return EXIT_SUCCESS;
}
