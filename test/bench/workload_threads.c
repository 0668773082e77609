/* The workloads of several threads. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "subject.h"
#include "workload_parts.h"

#define MAX_THREADS 64
#define QUEUE_SLOTS 1024 /* a power of two */

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
    queue->slots[i % QUEUE_SLOTS] = subject_take(WORKLOAD_PAIR_BYTES);
    atomic_store_explicit(&queue->filled, i + 1, memory_order_release);
    if (i % WORKLOAD_BATCH == 0)
      subject_synchronize();
  }
  pthread_join(consumer, NULL);
}

double workload_hand_off(const workload_effort_t *effort)
{
  static queue_t queue;
  return workload_measure(hand_off, &queue, effort);
}

#define STACK_BYTES 16384 /* of each thread, made resident before its work begins */

typedef struct crowd {
  pthread_barrier_t together; /* who has worked waits for all others, so that none takes another's place */
  void (*work)(long count);
  long threads;
  long each;
  double begin_ns[MAX_THREADS];
  double end_ns[MAX_THREADS];
  _Atomic long joined;
} crowd_t;

/* Each thread has a processor as far as there are enough: else the kernel may run all of them on one, which
 * then do no more than one thread. */
static void choose_processor(long i)
{
  cpu_set_t allowed, chosen;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return;
  i %= CPU_COUNT(&allowed);
  for (int processor = 0; processor < CPU_SETSIZE; processor++)
    if (CPU_ISSET(processor, &allowed) && i-- == 0) {
      CPU_ZERO(&chosen);
      CPU_SET(processor, &chosen);
      (void)pthread_setaffinity_np(pthread_self(), sizeof(chosen), &chosen);
    }
}

static void *work_in_crowd(void *arg)
{
  crowd_t *crowd = arg;
  volatile char stack[STACK_BYTES];
  long i = atomic_fetch_add(&crowd->joined, 1);

  choose_processor(i);
  for (int j = 0; j < STACK_BYTES; j += 1024)
    stack[j] = 0;
  (void)stack[0];
  pthread_barrier_wait(&crowd->together);
  crowd->begin_ns[i] = workload_now_ns();
  crowd->work(crowd->each);
  crowd->end_ns[i] = workload_now_ns();
  pthread_barrier_wait(&crowd->together);
  pthread_barrier_wait(&crowd->together); /* the caller has looked */
  return NULL;
}

/* look: called when all have worked, and none has ended. Returns ns from the first begin to the last end. */
static double run_crowd(crowd_t *crowd, void (*look)(void *arg), void *arg)
{
  pthread_t threads[MAX_THREADS];

  if (crowd->threads < 1 || crowd->threads > MAX_THREADS ||
      pthread_barrier_init(&crowd->together, NULL, (unsigned)crowd->threads + 1) != 0)
    abort();
  crowd->joined = 0;
  for (long i = 0; i < crowd->threads; i++)
    if (pthread_create(&threads[i], NULL, work_in_crowd, crowd) != 0)
      abort();
  pthread_barrier_wait(&crowd->together);
  pthread_barrier_wait(&crowd->together);
  if (look)
    look(arg);
  pthread_barrier_wait(&crowd->together);
  double begin = crowd->begin_ns[0];
  double end = crowd->end_ns[0];
  for (long i = 0; i < crowd->threads; i++) {
    pthread_join(threads[i], NULL);
    begin = crowd->begin_ns[i] < begin ? crowd->begin_ns[i] : begin;
    end = crowd->end_ns[i] > end ? crowd->end_ns[i] : end;
  }
  pthread_barrier_destroy(&crowd->together);
  return end - begin;
}

/* Longer rounds, since threads start and end unevenly. */
#define CROWD_EFFORT 4

static int compare(const void *left, const void *right)
{
  double a = *(const double *)left;
  double b = *(const double *)right;
  return (a > b) - (a < b);
}

/* The median: in the best round the threads may have run one after the other. */
double workload_threads(long number, const workload_effort_t *effort)
{
  double *each = calloc((size_t)effort->rounds, sizeof(*each));
  crowd_t crowd = {.work = workload_pairs,
      .threads = number,
      .each = (effort->pairs * CROWD_EFFORT / number + WORKLOAD_BATCH - 1) / WORKLOAD_BATCH * WORKLOAD_BATCH};

  if (!each)
    abort();
  for (int round = 0; round < effort->rounds; round++)
    each[round] = run_crowd(&crowd, NULL, NULL) / (double)(crowd.each * number);
  qsort(each, (size_t)effort->rounds, sizeof(*each), compare);
  double median = each[effort->rounds / 2];
  free(each);
  return median;
}

static void take_and_give(long count)
{
  for (long i = 0; i < count; i++)
    subject_give(subject_take(WORKLOAD_PAIR_BYTES));
}

static void do_nothing(long count)
{
  (void)count;
  free(malloc(1)); /* what the C library keeps for a thread is not the subject's */
}

static void note_resident(void *arg)
{
  double *resident = arg;
  *resident = workload_resident_bytes();
}

double workload_thread_bytes(long number)
{
  double grown = 0;
  /* The first makes the stacks, which the C library keeps for later threads; the second is what they cost. */
  for (int i = 0; i < 3; i++) {
    crowd_t crowd = {.work = i < 2 ? do_nothing : take_and_give, .threads = number, .each = 1};
    double before = workload_resident_bytes();
    double resident = before;
    (void)run_crowd(&crowd, note_resident, &resident);
    grown = resident - before - (i == 2 ? grown : 0);
  }
  return grown / (double)number;
}
