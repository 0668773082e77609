/*
 * Process-wide state: the lock, per-thread state, fork and exit.
 */
#include "sim.h"

#include <stdlib.h>

pthread_mutex_t sim_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t sim_cond = PTHREAD_COND_INITIALIZER;
bool sim_initialized;
bool sim_forked;
bool sim_finished;

static pthread_key_t thread_key;
static _Thread_local sim_thread_t *thread_self;
static uint64_t thread_count;

static void thread_exit(void *data)
{
  sim_thread_t *thread = data;
  pthread_mutex_lock(&sim_mutex);
  if (sim_initialized && !sim_forked)
    sim_stream_drop_thread(thread->serial);
  pthread_mutex_unlock(&sim_mutex);
  thread_self = NULL;
  free(thread);
}

sim_thread_t *sim_thread_self(void)
{
  if (!thread_self) {
    thread_self = calloc(1, sizeof *thread_self);
    if (!thread_self)
      abort();
    thread_self->serial = ++thread_count;
    (void)pthread_setspecific(thread_key, thread_self); /* failing only leaks the struct at thread exit */
  }
  return thread_self;
}

static void fork_prepare(void)
{
  pthread_mutex_lock(&sim_mutex);
}

static void fork_parent(void)
{
  pthread_mutex_unlock(&sim_mutex);
}

/* A process that used CUDA before the fork cannot use it in the child; one that did not starts clean. */
static void fork_child(void)
{
  sim_forked = sim_initialized;
  pthread_mutex_unlock(&sim_mutex);
}

void sim_state_init(void)
{
  if (pthread_key_create(&thread_key, thread_exit) != 0 ||
      pthread_atfork(fork_prepare, fork_parent, fork_child) != 0)
    abort();
}

/* After this the driver is gone, as the real one is for calls from late destructors. */
__attribute__((destructor)) static void finish(void)
{
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &(int){0}); /* a driver writes no files here */
  pthread_mutex_lock(&sim_mutex);
  if (!sim_finished && !sim_forked)
    sim_stats_write();
  sim_finished = true;
  pthread_mutex_unlock(&sim_mutex);
}
