#include "turns.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct {
  pthread_t thread;
  bool running, quit;
  int index; /* of the step to take, -1: none */
} worker_t;

static worker_t workers[TURN_THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed[TURN_THREADS] = {
    PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static pthread_cond_t done[TURN_THREADS] = {
    PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static turn_fn *take;

static void *work(void *arg)
{
  worker_t *worker = arg;
  long number = worker - workers;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (worker->index < 0 && !worker->quit)
      pthread_cond_wait(&changed[number], &lock);
    if (worker->index < 0)
      break;
    pthread_mutex_unlock(&lock);
    take(worker->index);
    pthread_mutex_lock(&lock);
    worker->index = -1;
    pthread_cond_signal(&done[number]);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

void turns_begin(turn_fn *fn)
{
  take = fn;
}

/* With the lock held */
static void start(int thread, int index)
{
  worker_t *worker = &workers[thread];
  worker->index = index;
  if (!worker->running) {
    worker->running = true;
    worker->quit = false;
    if (pthread_create(&worker->thread, NULL, work, worker) != 0)
      abort();
  } else {
    pthread_cond_signal(&changed[thread]);
  }
}

static void await(int thread)
{
  while (workers[thread].index >= 0)
    pthread_cond_wait(&done[thread], &lock);
}

void turns_take(int thread, int index)
{
  pthread_mutex_lock(&lock);
  start(thread, index);
  await(thread);
  pthread_mutex_unlock(&lock);
}

void turns_all(int count)
{
  pthread_mutex_lock(&lock);
  for (int i = 0; i < count; i++)
    start(i, i);
  for (int i = 0; i < count; i++)
    await(i);
  pthread_mutex_unlock(&lock);
}

void turns_end_thread(int thread)
{
  worker_t *worker = &workers[thread];
  pthread_mutex_lock(&lock);
  bool running = worker->running;
  worker->quit = true;
  worker->running = false;
  pthread_cond_signal(&changed[thread]);
  pthread_mutex_unlock(&lock);
  if (running && pthread_join(worker->thread, NULL) != 0)
    abort();
}

void turns_end(void)
{
  for (int i = 0; i < TURN_THREADS; i++)
    turns_end_thread(i);
}
