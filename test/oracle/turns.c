#include "turns.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

/* Semaphores, not conditions: with a mutex a turn would be four switches between threads in place of two. */
typedef struct {
  pthread_t thread;
  bool running, quit;
  int index;       /* of the step to take */
  sem_t step_come; /* or it shall quit */
  sem_t step_done;
  bool is_inner;  /* another worker has handed the step over */
  bool gave_back; /* the turn of that step, whose end is still to come */
} worker_t;

static worker_t workers[TURN_THREADS];
static _Thread_local worker_t *self; /* NULL: of other threads */
static turn_fn *take;

static void pass(sem_t *semaphore)
{
  while (sem_wait(semaphore) != 0)
    ; /* interrupted by a signal */
}

static void *work(void *arg)
{
  worker_t *worker = self = arg;
  for (;;) {
    pass(&worker->step_come);
    if (worker->quit)
      return NULL;
    take(worker->index);
    (void)sem_post(&worker->step_done);
  }
}

void turns_begin(turn_fn *fn)
{
  take = fn;
}

static void await_end(worker_t *worker)
{
  if (worker->gave_back)
    pass(&worker->step_done);
  worker->gave_back = false;
}

static void start(int thread, int index)
{
  worker_t *worker = &workers[thread];
  await_end(worker);
  worker->index = index;
  worker->is_inner = self != NULL;
  if (!worker->running) {
    worker->running = true;
    worker->quit = false;
    if (sem_init(&worker->step_come, 0, 0) != 0 || sem_init(&worker->step_done, 0, 0) != 0 ||
        pthread_create(&worker->thread, NULL, work, worker) != 0)
      abort();
  }
  (void)sem_post(&worker->step_come);
}

bool turns_take(int thread, int index)
{
  start(thread, index);
  pass(&workers[thread].step_done);
  return !workers[thread].gave_back;
}

void turns_await(void)
{
  for (int i = 0; i < TURN_THREADS; i++)
    await_end(&workers[i]);
}

/* In place of the C library's: the library under test yields while it waits for another thread's driver call.
 */
int sched_yield(void)
{
  static int (*real)(void);

  if (self && self->is_inner && !self->gave_back) {
    self->gave_back = true;
    (void)sem_post(&self->step_done);
  }
  if (!real)
    *(void **)&real = dlsym(RTLD_NEXT, "sched_yield");
  return real();
}

void turns_all(int count)
{
  for (int i = 0; i < count; i++)
    start(i, i);
  for (int i = 0; i < count; i++)
    pass(&workers[i].step_done);
}

void turns_end_thread(int thread)
{
  worker_t *worker = &workers[thread];
  if (!worker->running)
    return;
  worker->running = false;
  worker->quit = true;
  (void)sem_post(&worker->step_come);
  if (pthread_join(worker->thread, NULL) != 0)
    abort();
}

void turns_end(void)
{
  for (int i = 0; i < TURN_THREADS; i++)
    turns_end_thread(i);
}
