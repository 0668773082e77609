#include "workloads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "subject.h"
#include "workload_parts.h"

double workload_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

double workload_resident_bytes(void)
{
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%*d %ld", &pages) != 1)
    abort();
  fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void *allocate(size_t count, size_t bytes)
{
  void *array = calloc(count, bytes);
  if (!array)
    abort();
  return array;
}

double workload_measure(workload_body_fn body, void *arg, const workload_effort_t *effort)
{
  double best = 1e18;
  for (int round = 0; round < effort->rounds; round++) {
    double begin = workload_now_ns();
    body(arg, effort->pairs);
    double each = (workload_now_ns() - begin) / (double)effort->pairs;
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
  uint64_t blocks[WORKLOAD_BATCH];
  for (long i = 0; i < count; i += WORKLOAD_BATCH) {
    for (int j = 0; j < WORKLOAD_BATCH; j++)
      blocks[j] = subject_take(WORKLOAD_PAIR_BYTES);
    for (int j = 0; j < WORKLOAD_BATCH; j++)
      subject_give(blocks[j]);
    subject_synchronize();
  }
}

static void pairs(void *arg, long count)
{
  (void)arg;
  workload_pairs(count);
}

static void *volatile sink;

static void host_pairs(void *arg, long count)
{
  void *blocks[WORKLOAD_BATCH];
  (void)arg;
  for (long i = 0; i < count; i += WORKLOAD_BATCH) {
    for (int j = 0; j < WORKLOAD_BATCH; j++)
      sink = blocks[j] = malloc(WORKLOAD_PAIR_BYTES);
    for (int j = 0; j < WORKLOAD_BATCH; j++)
      free(blocks[j]);
  }
}

double workload_host_pair(const workload_effort_t *effort)
{
  return workload_measure(host_pairs, NULL, effort);
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
    if (i % WORKLOAD_BATCH == 0)
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
  double ns = workload_measure(replace, &replaced, effort);
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
  double ns = workload_measure(pairs, NULL, effort);
  for (long i = 1; i < number * 2; i += 2)
    subject_give(blocks[i]);
  free(blocks);
  return one_figure(ns, ret_figures);
}

/*
 * Synchronizations with much to do. A miss is of a size of which there was no block, and less than is
 * deferred: then the pool looks whether that will do. Type round has eight such sizes from 2 to 4 MiB, so
 * there are few rounds.
 */
#define DEFERRED_ROUNDS 3
#define MISS_STEP       (256u << 10)

static void time_sync(const char *sync_name, const char *miss_name, uint64_t miss_bytes, bool is_first,
    workload_figure_t *ret_figures)
{
  double begin = workload_now_ns();
  subject_synchronize();
  double synchronized = workload_now_ns();
  uint64_t missed = subject_take(miss_bytes);
  double after = workload_now_ns();
  subject_give(missed);
  if (is_first || synchronized - begin < ret_figures[0].value)
    ret_figures[0] = (workload_figure_t){sync_name, synchronized - begin};
  if (is_first || after - synchronized < ret_figures[1].value)
    ret_figures[1] = (workload_figure_t){miss_name, after - synchronized};
}

static int run_deferred(long number, const workload_effort_t *effort, workload_figure_t *ret_figures)
{
  uint64_t *blocks = allocate((size_t)number, sizeof(*blocks));
  uint64_t miss_bytes = 2u << 20;
  int rounds = effort->rounds < DEFERRED_ROUNDS ? effort->rounds : DEFERRED_ROUNDS;

  /* Round 0 is overwritten by the next: the first synchronization has more to look at. */
  for (int round = 0; round <= rounds; round++) {
    for (long i = 0; i < number; i++)
      blocks[i] = subject_take(WORKLOAD_PAIR_BYTES);
    for (long i = 0; i < number; i++)
      subject_give(blocks[i]);
    time_sync("sync", "miss", miss_bytes += MISS_STEP, round <= 1, ret_figures);
    subject_synchronize();
    time_sync("sync-bare", "miss-bare", miss_bytes += MISS_STEP, round <= 1, ret_figures + 2);
  }
  free(blocks);
  return 4;
}

/*
 * Memory of the host
 */
static int run_blocks(long number, workload_figure_t *ret_figures)
{
  uint64_t *blocks = allocate((size_t)number, sizeof(*blocks));
  memset(blocks, 1, (size_t)number * sizeof(*blocks)); /* resident before */
  double before = workload_resident_bytes();
  for (long i = 0; i < number; i++)
    blocks[i] = subject_take(WORKLOAD_PAIR_BYTES);
  double bytes = (workload_resident_bytes() - before) / (double)number;
  for (long i = 0; i < number; i++)
    subject_give(blocks[i]);
  free(blocks);
  return one_figure(bytes, ret_figures);
}

static int run_events(const workload_effort_t *effort, workload_figure_t *ret_figures)
{
  workload_pairs(WORKLOAD_BATCH);
  double before = workload_resident_bytes();
  workload_pairs(effort->pairs);
  return one_figure((workload_resident_bytes() - before) / (double)effort->pairs, ret_figures);
}

int workload_run(
    const char *name, long number, const workload_effort_t *effort, workload_figure_t *ret_figures)
{
  if (strcmp(name, "pair") == 0)
    return one_figure(workload_measure(pairs, NULL, effort), ret_figures);
  if (strcmp(name, "replace") == 0 && number > 0)
    return run_replace(number, effort, ret_figures);
  if (strcmp(name, "holes") == 0)
    return run_holes(number, effort, ret_figures);
  if (strcmp(name, "handoff") == 0)
    return one_figure(workload_hand_off(effort), ret_figures);
  if (strcmp(name, "threads") == 0 && number > 0)
    return one_figure(workload_threads(number, effort), ret_figures);
  if (strcmp(name, "deferred") == 0 && number > 0)
    return run_deferred(number, effort, ret_figures);
  if (strcmp(name, "blocks") == 0 && number > 0)
    return run_blocks(number, ret_figures);
  if (strcmp(name, "workers") == 0 && number > 0)
    return one_figure(workload_thread_bytes(number), ret_figures);
  if (strcmp(name, "events") == 0)
    return run_events(effort, ret_figures);
  return 0;
}
