#include "ordered_random_streams.h"

#include <pthread.h>

/* ---- a second thread, which does one thing at a time for the first ---- */

static struct {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  void (*task)(void *);
  void *arg;
  bool ends;
} helper = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *help(void *ignored)
{
  pthread_mutex_lock(&helper.lock);
  while (!helper.ends) {
    if (helper.task) {
      helper.task(helper.arg);
      helper.task = NULL;
      pthread_cond_broadcast(&helper.changed);
    } else {
      pthread_cond_wait(&helper.changed, &helper.lock);
    }
  }
  pthread_mutex_unlock(&helper.lock);
  return ignored;
}

void helper_start(void)
{
  helper.ends = false;
  if (pthread_create(&helper.thread, NULL, help, NULL) != 0)
    abort();
}

void helper_end(void)
{
  pthread_mutex_lock(&helper.lock);
  helper.ends = true;
  pthread_cond_broadcast(&helper.changed);
  pthread_mutex_unlock(&helper.lock);
  pthread_join(helper.thread, NULL);
}

static void helper_do(void (*task)(void *), void *arg)
{
  pthread_mutex_lock(&helper.lock);
  helper.task = task;
  helper.arg = arg;
  pthread_cond_broadcast(&helper.changed);
  while (helper.task)
    pthread_cond_wait(&helper.changed, &helper.lock);
  pthread_mutex_unlock(&helper.lock);
}

/* ---- contexts and streams ---- */

place_t ctxs[CTXS];
CUstream streams[STREAMS];

void stream_create(int s)
{
  CALL(cuCtxSetCurrent(ctxs[ctx_of(s)].ctx));
  CALL(cuStreamCreate(&streams[s], is_blocking(s) ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
}

void ctx_create(int c)
{
  static char image[] = "no image";
  CUmodule module;
  CUcontext pushed;
  if (c == 0) {
    CALL(cuDevicePrimaryCtxRetain(&ctxs[c].ctx, 0));
  } else {
#if CUDA_VERSION >= 13000
    CALL(cuCtxCreate(&ctxs[c].ctx, NULL, 0, 0));
#else
    CALL(cuCtxCreate(&ctxs[c].ctx, 0, 0));
#endif
    CALL(cuCtxPopCurrent(&pushed)); /* the stack must not grow */
  }
  CALL(cuCtxSetCurrent(ctxs[c].ctx));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuModuleGetFunction(&ctxs[c].fill, module, "simcuda_fill"));
  CALL(cuModuleGetFunction(&ctxs[c].expect, module, "simcuda_expect"));
  CALL(cuEventCreate(&ctxs[c].event, CU_EVENT_DISABLE_TIMING));
  for (int i = 0; i < PER_CTX; i++) {
    int s = c * PER_CTX + i;
    streams[s] = i == LEGACY ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
    if (i >= BLOCKING)
      stream_create(s);
  }
}

static void in_context(void *arg)
{
  task_t *task = arg;
  CALL(cuCtxSetCurrent(ctxs[ctx_of(task->stream)].ctx));
  task->run(task);
}

void in_stream(task_t *task)
{
  if (kind_of(task->stream) == OF_HELPER)
    helper_do(in_context, task);
  else
    in_context(task);
}

static void record(void *arg)
{
  const task_t *task = arg;
  CALL(cuEventRecord(ctxs[ctx_of(task->stream)].event, streams[task->stream]));
}

typedef struct {
  task_t task;
  CUevent event;
} wait_t;

static void wait_event(void *arg)
{
  const wait_t *wait = arg;
  CALL(cuStreamWaitEvent(streams[wait->task.stream], wait->event, 0));
}

void order(int before, int after)
{
  wait_t wait = {.task = {wait_event, after}, .event = ctxs[ctx_of(before)].event};
  in_stream(&(task_t){record, before});
  in_stream(&wait.task);
}

static void wait_for(void *arg)
{
  CALL(cuStreamSynchronize(streams[((const task_t *)arg)->stream]));
}

void synchronize(int s)
{
  in_stream(&(task_t){wait_for, s});
}
