/*
 * Nanoseconds that a stack adds to an event, and what they go to. Ratios are to the event alone, in the same
 * run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fake_engine.h"
#include "trace/record/recorder_state.h"
#include "trace/stacks/origin.h"
#include "trace/stacks/unwind.h"

#define CALLS  100000
#define ROUNDS 15
#define DEPTH  9 /* with what is above and below, 20 frames */

typedef struct bench {
  const gp_observer_t *observer; /* of what; NULL: no event */
  gp_unwinder_t unwinder;
  size_t frames; /* found */
  double best_ns;
} bench_t;

static double now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* What the pool asks and tells at a hit. */
static void record(const gp_observer_t *observer, uint64_t i)
{
  gp_origin_begin_call();
  if (observer->find_origin)
    observer->find_origin(observer->self, GP_OCCASION_ALLOC, 1000);
  const gp_event_t event = {
      .time_ns = 1000000000 + i,
      .address = 0x7f0000000000 + (i % 1000 << 21),
      .size = 1000,
      .rounded_size = 1024,
      .block_id = i,
      .origin = observer->origin ? observer->origin(observer->self) : 0,
      .action = GP_ACTION_ALLOC,
      .hit = true,
  };
  observer->event(observer->self, &event);
}

static __attribute__((noinline)) void measure(bench_t *bench)
{
  bench->best_ns = 1e18;
  for (int round = 0; round < ROUNDS; round++) {
    double start = now_ns();
    for (uint64_t i = 0; i < CALLS; i++) {
      uintptr_t addresses[64];
      if (bench->observer)
        record(bench->observer, i);
      else
        bench->frames = gp_unwind(bench->unwinder, gp_loader_counts().unloads, addresses, 64);
    }
    double spent = (now_ns() - start) / CALLS;
    bench->best_ns = spent < bench->best_ns ? spent : bench->best_ns;
  }
}

static __attribute__((noinline)) void deep(bench_t *bench, int depth)
{
  if (depth > 0)
    deep(bench, depth - 1);
  else
    measure(bench);
  __asm__ volatile("" ::: "memory");
}

static double print_event(const char *mode, double alone_ns)
{
  static gp_options_t options;
  options = *fake_options(NULL);
  if (!gp_option_parse(GP_OPTION_stacks, mode, &options, NULL, NULL))
    exit(EXIT_FAILURE);
  gp_recorder_t *recorder = gp_recorder_create(&options, fake_clock, NULL);
  if (!recorder)
    exit(EXIT_FAILURE);
  const gp_observer_t observer = gp_recorder_observer(recorder);
  bench_t bench = {.observer = &observer};
  deep(&bench, DEPTH);
  const gp_stack_log_t *log = recorder->origins.stacks.log;
  size_t frames = log && log->stack_count ? (size_t)log->words[0] : 0;
  printf("event of a hit, GPUPOOL_STACKS=%-7s %8.1f ns", mode, bench.best_ns);
  if (alone_ns > 0)
    printf("  %5.1f times that of off", bench.best_ns / alone_ns);
  printf(frames ? "  (%zu frames)\n" : "\n", frames);
  gp_recorder_destroy(recorder);
  return bench.best_ns;
}

static void print_unwind(const char *what, gp_unwinder_t unwinder)
{
  bench_t bench = {.unwinder = unwinder};
  deep(&bench, DEPTH);
  printf("capture alone, %-22s %8.1f ns  (%zu frames)\n", what, bench.best_ns, bench.frames);
}

int main(void)
{
  fake_reset();
  gp_unwind_set_own_range(0, 1);
  double alone_ns = print_event("off", 0);
  print_event("auto", alone_ns);
  print_event("native", alone_ns);
  print_event("fp", alone_ns);
  print_unwind("libunwind", GP_UNWINDER_LIBUNWIND);
  print_unwind("glibc", GP_UNWINDER_GLIBC);
  print_unwind("frame pointers", GP_UNWINDER_FRAME_POINTERS);
  return EXIT_SUCCESS;
}
