#include "workloads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "subject.h"

#define BATCH       64
#define PAIR_BYTES  1024
#define MAX_THREADS 64
#define QUEUE_SLOTS 1024 /* a power of two */

static double now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *allocate(size_t count, size_t bytes)
{
  void *array = calloc(count, bytes);
  if (!array)
    abort();
  return array;
}

/* Best of some rounds, in ns of a pair: the machine may be shared. */
typedef void (*body_fn)(void *arg, long pairs);

static double measure(body_fn body, void *arg, const workload_effort_t *effort)
{
  double best = 1e18;
  for (int round = 0; round < effort->rounds; round++) {
    double begin = now_ns();
    body(arg, effort->pairs);
    double each = (now_ns() - begin) / (double)effort->pairs;
    best = each < best ? each : best;
  }
  return best;
}

static int one_figure(double value, workload_figure_t *ret_figures)
{
  ret_figures[0] = (workload_figure_t){"", value};
  return 1;
}

/*
 * Pairs
 */
void workload_pairs(long count)
{
  uint64_t blocks[BATCH];
  for (long i = 0; i < count; i += BATCH) {
    for (int j = 0; j < BATCH; j++)
      blocks[j] = subject_take(PAIR_BYTES);
    for (int j = 0; j < BATCH; j++)
      subject_give(blocks[j]);
    subject_synchronize();
  }
}

static void pairs(void *arg, long count)
{
  (void)arg;
  workload_pairs(count);
}

static void pairs_at_once(void *arg, long count)
{
  (void)arg;
  for (long i = 0; i < count; i++)
    subject_give(subject_take(PAIR_BYTES));
}

static void *volatile sink;

static void host_pairs(void *arg, long count)
{
  void *blocks[BATCH];
  (void)arg;
  for (long i = 0; i < count; i += BATCH) {
    for (int j = 0; j < BATCH; j++)
      sink = blocks[j] = malloc(PAIR_BYTES);
    for (int j = 0; j < BATCH; j++)
      free(blocks[j]);
  }
}

double workload_host_pair(const workload_effort_t *effort)
{
  return measure(host_pairs, NULL, effort);
}

/*
 * Mixed sizes, drawn by a generator of its own, so that all subjects and runs draw the same
 */
static uint32_t draw(uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static uint64_t mixed_bytes(uint32_t *state)
{
  return 512 + draw(state) % (subject_largest - 511);
}

typedef struct replaced {
  uint64_t *live;
  long count;
} replaced_t;

static void replace(void *arg, long count)
{
  replaced_t *replaced = arg;
  uint32_t state = 1;
  for (long i = 0; i < count; i++) {
    uint64_t *slot = &replaced->live[(long)draw(&state) % replaced->count];
    subject_give(*slot);
    *slot = subject_take(mixed_bytes(&state));
    if (i % BATCH == 0)
      subject_synchronize();
  }
}

static int run_replace(long number, const workload_effort_t *effort, workload_figure_t *ret_figures)
{
  replaced_t replaced = {allocate((size_t)number, sizeof(uint64_t)), number};
  uint32_t state = 7;
  for (long i = 0; i < number; i++)
    replaced.live[i] = subject_take(mixed_bytes(&state));
  replace(&replaced, number); /* until it finds what it needs in the pool */
  double ns = measure(replace, &replaced, effort);
  for (long i = 0; i < number; i++)
    subject_give(replaced.live[i]);
  free(replaced.live);
  return one_figure(ns, ret_figures);
}

/* Every other block stays in use, so that memory that is cut has as many holes, too. */
static int run_holes(long number, const workload_effort_t *effort, workload_figure_t *ret_figures)
{
  uint64_t *blocks = allocate((size_t)number * 2 + 1, sizeof(*blocks));
  for (long i = 0; i < number * 2; i++)
    blocks[i] = subject_take(2048 + 512 * (uint64_t)(i / 2 % 4096));
  for (long i = 0; i < number * 2; i += 2)
    subject_give(blocks[i]);
  subject_synchronize();
  double ns = measure(pairs, NULL, effort);
  for (long i = 1; i < number * 2; i += 2)
    subject_give(blocks[i]);
  free(blocks);
  return one_figure(ns, ret_figures);
}

/*
 * Threads
 */
typedef struct queue {
  uint64_t slots[QUEUE_SLOTS];
  _Alignas(64) _Atomic long filled;
  _Alignas(64) _Atomic long emptied;
  long pairs;
} queue_t;

static void *consume(void *arg)
{
  queue_t *queue = arg;
  for (long i = 0; i < queue->pairs; i++) {
    while (atomic_load_explicit(&queue->filled, memory_order_acquire) <= i)
      sched_yield();
    subject_give(queue->slots[i % QUEUE_SLOTS]);
    atomic_store_explicit(&queue->emptied, i + 1, memory_order_release);
  }
  return NULL;
}

static void hand_off(void *arg, long count)
{
  queue_t *queue = arg;
  pthread_t consumer;

  queue->filled = queue->emptied = 0;
  queue->pairs = count;
  if (pthread_create(&consumer, NULL, consume, queue) != 0)
    abort();
  for (long i = 0; i < count; i++) {
    while (i - atomic_load_explicit(&queue->emptied, memory_order_acquire) >= QUEUE_SLOTS)
      sched_yield();
    queue->slots[i % QUEUE_SLOTS] = subject_take(PAIR_BYTES);
    atomic_store_explicit(&queue->filled, i + 1, memory_order_release);
    if (i % BATCH == 0)
      subject_synchronize();
  }
  pthread_join(consumer, NULL);
}

typedef struct crowd {
  pthread_barrier_t together; /* who has worked waits for all others, so that none takes another's place */
  void (*work)(long count);
  long threads;
  long each;
} crowd_t;

static void *work_in_crowd(void *arg)
{
  crowd_t *crowd = arg;
  pthread_barrier_wait(&crowd->together);
  crowd->work(crowd->each);
  pthread_barrier_wait(&crowd->together);
  pthread_barrier_wait(&crowd->together); /* the caller has looked */
  return NULL;
}

/* look: called when all have worked, and none has ended. Returns ns from the first to the last. */
static double run_crowd(crowd_t *crowd, void (*look)(void *arg), void *arg)
{
  pthread_t threads[MAX_THREADS];

  if (crowd->threads < 1 || crowd->threads > MAX_THREADS ||
      pthread_barrier_init(&crowd->together, NULL, (unsigned)crowd->threads + 1) != 0)
    abort();
  for (long i = 0; i < crowd->threads; i++)
    if (pthread_create(&threads[i], NULL, work_in_crowd, crowd) != 0)
      abort();
  pthread_barrier_wait(&crowd->together);
  double begin = now_ns();
  pthread_barrier_wait(&crowd->together);
  double elapsed = now_ns() - begin;
  if (look)
    look(arg);
  pthread_barrier_wait(&crowd->together);
  for (long i = 0; i < crowd->threads; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&crowd->together);
  return elapsed;
}

static void crowd_of_pairs(void *arg, long count)
{
  crowd_t *crowd = arg;
  crowd->each = count / crowd->threads;
  (void)run_crowd(crowd, NULL, NULL);
}

/*
 * Synchronizations with much to do
 */
static void time_sync(const char *sync_name, const char *miss_name, uint64_t miss_bytes, bool is_first,
    workload_figure_t *ret_figures)
{
  double begin = now_ns();
  subject_synchronize();
  double synchronized = now_ns();
  uint64_t missed = subject_take(miss_bytes);
  double after = now_ns();
  subject_give(missed);
  if (is_first || synchronized - begin < ret_figures[0].value)
    ret_figures[0] = (workload_figure_t){sync_name, synchronized - begin};
  if (is_first || after - synchronized < ret_figures[1].value)
    ret_figures[1] = (workload_figure_t){miss_name, after - synchronized};
}

static int run_deferred(long number, const workload_effort_t *effort, workload_figure_t *ret_figures)
{
  uint64_t *blocks = allocate((size_t)number, sizeof(*blocks));
  uint64_t miss_bytes = subject_largest;

  for (int round = 0; round < effort->rounds; round++) {
    for (long i = 0; i < number; i++)
      blocks[i] = subject_take(PAIR_BYTES);
    for (long i = 0; i < number; i++)
      subject_give(blocks[i]);
    /* Each time of a size that nobody has had. */
    time_sync("sync", "miss", miss_bytes += 1u << 20, round == 0, ret_figures);
    subject_synchronize();
    time_sync("sync-bare", "miss-bare", miss_bytes += 1u << 20, round == 0, ret_figures + 2);
  }
  free(blocks);
  return 4;
}

/*
 * Memory of the host
 */
static double resident_bytes(void)
{
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%*d %ld", &pages) != 1)
    abort();
  fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static int run_blocks(long number, workload_figure_t *ret_figures)
{
  uint64_t *blocks = allocate((size_t)number, sizeof(*blocks));
  memset(blocks, 1, (size_t)number * sizeof(*blocks)); /* resident before */
  double before = resident_bytes();
  for (long i = 0; i < number; i++)
    blocks[i] = subject_take(PAIR_BYTES);
  double bytes = (resident_bytes() - before) / (double)number;
  for (long i = 0; i < number; i++)
    subject_give(blocks[i]);
  free(blocks);
  return one_figure(bytes, ret_figures);
}

static void take_and_give(long count)
{
  for (long i = 0; i < count; i++)
    subject_give(subject_take(PAIR_BYTES));
}

static void do_nothing(long count)
{
  (void)count;
  free(malloc(1)); /* what the C library keeps for a thread is not the subject's */
}

static void note_resident(void *arg)
{
  double *resident = arg;
  *resident = resident_bytes();
}

static int run_workers(long number, workload_figure_t *ret_figures)
{
  double grown[2];
  for (int i = 0; i < 2; i++) {
    crowd_t crowd = {.work = i == 0 ? do_nothing : take_and_give, .threads = number, .each = 1};
    double before = resident_bytes();
    (void)run_crowd(&crowd, note_resident, &grown[i]);
    grown[i] -= before;
  }
  return one_figure((grown[1] - grown[0]) / (double)number, ret_figures);
}

static int run_events(const workload_effort_t *effort, workload_figure_t *ret_figures)
{
  workload_pairs(BATCH);
  double before = resident_bytes();
  workload_pairs(effort->pairs);
  return one_figure((resident_bytes() - before) / (double)effort->pairs, ret_figures);
}

int workload_run(
    const char *name, long number, const workload_effort_t *effort, workload_figure_t *ret_figures)
{
  if (strcmp(name, "pair") == 0)
    return one_figure(measure(pairs, NULL, effort), ret_figures);
  if (strcmp(name, "at-once") == 0)
    return one_figure(measure(pairs_at_once, NULL, effort), ret_figures);
  if (strcmp(name, "replace") == 0 && number > 0)
    return run_replace(number, effort, ret_figures);
  if (strcmp(name, "holes") == 0)
    return run_holes(number, effort, ret_figures);
  if (strcmp(name, "handoff") == 0) {
    static queue_t queue;
    return one_figure(measure(hand_off, &queue, effort), ret_figures);
  }
  if (strcmp(name, "threads") == 0) {
    crowd_t crowd = {.work = workload_pairs, .threads = number};
    return one_figure(measure(crowd_of_pairs, &crowd, effort), ret_figures);
  }
  if (strcmp(name, "deferred") == 0 && number > 0)
    return run_deferred(number, effort, ret_figures);
  if (strcmp(name, "blocks") == 0 && number > 0)
    return run_blocks(number, ret_figures);
  if (strcmp(name, "workers") == 0)
    return run_workers(number, ret_figures);
  if (strcmp(name, "events") == 0)
    return run_events(effort, ret_figures);
  return 0;
}
