/*
 * What the pool costs the host: nanoseconds per operation, as ratios to the C library's malloc and free
 * measured in the same run. The driver below hands out addresses and does nothing else, so that nothing but
 * the pool is measured.
 *
 * A second thread exists while single-threaded figures are taken: glibc leaves the atomics of an uncontended
 * mutex out as long as a process has one thread, which would flatter every lock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "interpose/clock.h"
#include "pool/engine.h"
#include "pool/reuse/stream_calls.h"
#include "trace/record/recorder.h"

#define PAIRS   2000000
#define RUNS    5
#define OBJECTS 10000

static _Atomic uint64_t next_address = UINT64_C(0x100000000000);

static int null_alloc(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  (void)self;
  (void)context;
  *ret_address = next_address;
  next_address += (bytes + 511) / 512 * 512;
  return 0;
}

static int null_free(void *self, const gp_driver_context_t *context, uint64_t address)
{
  (void)self;
  (void)context;
  (void)address;
  return 0;
}

static int null_wait(void *self, const gp_driver_context_t *context)
{
  (void)self;
  (void)context;
  return 0;
}

static int null_info(void *self, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total)
{
  (void)self;
  (void)context;
  *ret_free = *ret_total = UINT64_C(1) << 40;
  return 0;
}

static uint64_t null_now(void *self)
{
  (void)self;
  return gp_clock_now_ns();
}

static const gp_driver_ops_t null_ops = {
    .alloc = null_alloc,
    .free = null_free,
    .wait = null_wait,
    .memory_info = null_info,
    .now_ns = null_now,
    .code_out_of_memory = 2,
    .code_invalid_value = 1,
    .code_not_ready = 600,
};

typedef struct bench {
  gp_options_t options;
  gp_recorder_t *recorder;
  gp_engine_t *engine;
  gp_context_t *context;
} bench_t;

/* arg: the reuse mode, NULL: the default. */
static const char *environment(void *arg, const char *variable)
{
  return strcmp(variable, "GPUPOOL_REUSE") == 0 ? arg : NULL;
}

static void start_with(bench_t *bench, bool recorded, const char *reuse)
{
  const gp_driver_t driver = {&null_ops, NULL};
  const gp_driver_context_t context = {(void *)1, 1, 0, true};
  gp_observer_t observer = {0};

  memset(bench, 0, sizeof(*bench));
  gp_options_parse(&bench->options, environment, (void *)(uintptr_t)reuse, NULL, NULL);
  if (recorded) {
    bench->recorder = gp_recorder_create(&bench->options, null_now, NULL);
    observer = gp_recorder_observer(bench->recorder);
  }
  bench->engine = gp_engine_create(&driver, recorded ? &observer : NULL, &bench->options);
  bench->context = gp_engine_context(bench->engine, &context);
}

static void start(bench_t *bench, bool recorded)
{
  start_with(bench, recorded, NULL);
}

static void stop(bench_t *bench)
{
  gp_engine_destroy(bench->engine);
  /* The recorder stays: this thread's open chunk is in it. */
}

static uint64_t take(bench_t *bench, uint64_t bytes)
{
  uint64_t address = 0;
  if (gp_engine_alloc(bench->engine, bench->context, bytes, &address) != 0)
    abort();
  return address;
}

static void give(bench_t *bench, uint64_t address)
{
  int code;
  if (gp_engine_free(bench->engine, address, &code) != GP_FREE_DONE)
    abort();
}

static void synchronize(bench_t *bench)
{
  gp_engine_sync_end(bench->engine, bench->context, gp_engine_sync_begin(bench->engine, bench->context));
}

static double seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Best of some runs, in ns per operation: the machine may be shared. */
typedef void (*body_fn)(void *arg, long count);

static double measure(body_fn body, void *arg, long count)
{
  double best = 1e9;
  for (int run = 0; run < RUNS; run++) {
    double begin = seconds();
    body(arg, count);
    double ns = (seconds() - begin) * 1e9 / (double)count;
    if (ns < best)
      best = ns;
  }
  return best;
}

/* 64 blocks out, 64 back, one synchronization: what a program does that synchronizes now and then. */
#define BATCH 64

static void pairs(void *arg, long count)
{
  uint64_t blocks[BATCH];
  for (long i = 0; i < count; i += BATCH) {
    for (int j = 0; j < BATCH; j++)
      blocks[j] = take(arg, 1024);
    for (int j = 0; j < BATCH; j++)
      give(arg, blocks[j]);
    synchronize(arg);
  }
}

/* As a program with one stream does, which has work there and never synchronizes. */
static void pairs_at_once(void *arg, long count)
{
  bench_t *bench = arg;
  gp_stream_mark(bench->engine, gp_stream_default(bench->context));
  for (long i = 0; i < count; i++)
    give(bench, take(bench, 1024));
}

static void *volatile sink;

static void malloc_pairs(void *arg, long count)
{
  void *blocks[BATCH];
  (void)arg;
  for (long i = 0; i < count; i += BATCH) {
    for (int j = 0; j < BATCH; j++)
      sink = blocks[j] = malloc(1024);
    for (int j = 0; j < BATCH; j++)
      free(blocks[j]);
  }
}

typedef struct replaced {
  bench_t *bench;
  uint64_t live[OBJECTS];
} replaced_t;

static uint64_t mixed_size(uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return 512 + (*state >> 8) % (8u << 20);
}

static void replace(void *arg, long count)
{
  replaced_t *replaced = arg;
  uint32_t state = 1;
  for (long i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    uint64_t *slot = &replaced->live[(state >> 8) % OBJECTS];
    give(replaced->bench, *slot);
    *slot = take(replaced->bench, mixed_size(&state));
    if (i % BATCH == 0)
      synchronize(replaced->bench);
  }
}

static atomic_bool idle_over;

static void *idle(void *arg)
{
  while (!idle_over)
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  return arg;
}

typedef struct worker {
  bench_t *bench;
  long count;
} worker_t;

static void *work(void *arg)
{
  worker_t *worker = arg;
  pairs(worker->bench, worker->count);
  return NULL;
}

static double two_threads(bench_t *bench)
{
  double best = 1e9;
  for (int run = 0; run < RUNS; run++) {
    pthread_t threads[2];
    worker_t workers[2] = {{bench, PAIRS}, {bench, PAIRS}};
    double begin = seconds();
    for (int i = 0; i < 2; i++)
      pthread_create(&threads[i], NULL, work, &workers[i]);
    for (int i = 0; i < 2; i++)
      pthread_join(threads[i], NULL);
    double ns = (seconds() - begin) * 1e9 / PAIRS;
    if (ns < best)
      best = ns;
  }
  return best;
}

int main(void)
{
  static const int holes[] = {0, 4096, 16384, 65536};
  bench_t silent;
  bench_t recorded;
  pthread_t idler;

  pthread_create(&idler, NULL, idle, NULL);
  start(&silent, false);
  start(&recorded, true);
  pairs(&silent, 100 * BATCH); /* the clock learns, caches warm */
  nanosleep(&(struct timespec){0, 150000000}, NULL);

  double host = measure(malloc_pairs, NULL, PAIRS);
  double plain = measure(pairs, &silent, PAIRS);
  double with_events = measure(pairs, &recorded, PAIRS);
  printf("%-52s %8s %8s\n", "alloc and free, host cost", "ns/pair", "x malloc");
  printf("%-52s %8.1f %8.2f\n", "malloc(1024), free", host, 1.0);
  printf("%-52s %8.1f %8.2f\n", "pool, warm, 1 KiB", plain, plain / host);
  printf("%-52s %8.1f %8.2f\n", "pool, warm, 1 KiB, every event recorded", with_events, with_events / host);

  bench_t at_once;
  start_with(&at_once, true, "single");
  double single = measure(pairs_at_once, &at_once, PAIRS);
  printf("%-52s %8.1f %8.2f\n", "the same at once, work being in one stream", single, single / host);
  stop(&at_once);

  for (size_t i = 0; i < sizeof(holes) / sizeof(holes[0]); i++) {
    bench_t bench;
    char name[64];
    start(&bench, false);
    uint64_t *blocks = calloc((size_t)holes[i] + 1, sizeof(*blocks));
    for (int j = 0; j < holes[i]; j++)
      blocks[j] = take(&bench, 2048 + 512 * (uint64_t)j);
    for (int j = 0; j < holes[i]; j++)
      give(&bench, blocks[j]);
    synchronize(&bench);
    double ns = measure(pairs, &bench, PAIRS / 4);
    snprintf(name, sizeof(name), "pool, beside %d idle blocks of other sizes", holes[i]);
    printf("%-52s %8.1f %8.2f\n", name, ns, ns / host);
    free(blocks);
    stop(&bench);
  }

  static replaced_t replaced;
  uint32_t state = 7;
  replaced.bench = &silent;
  for (int i = 0; i < OBJECTS; i++)
    replaced.live[i] = take(&silent, mixed_size(&state));
  double random = measure(replace, &replaced, PAIRS / 2);
  printf("%-52s %8.1f %8.2f\n", "pool, random replace among 10,000 live", random, random / host);

  idle_over = true;
  pthread_join(idler, NULL);
  double two = two_threads(&silent);
  printf("%-52s %8.1f %8.2f\n", "pool, two threads at once, per pair and thread", two, two / host);
  printf("two threads do %.2f times the work of one\n", 2 * plain / two);
  stop(&silent);
  stop(&recorded);
  return 0;
}
