/*
 * Frees while a kernel waits for the host. A library that bounds the memory which was freed and is still in
 * use may wait for the device in cuMemFree (GPUPOOL_MAX_DEFERRED). It must wait there only.
 *
 *   returns BYTES         for drivers whose free does not wait: the host frees BYTES, then writes the flag,
 * in many rounds never HOW             frees that never wait: by_free, in_stream: memory of cuMemAllocAsync,
 * by cuMemFree or cuMemFreeAsync; malloc_in_stream: memory of cuMemAlloc, by cuMemFreeAsync; release: by
 * gpupool_release captured WHO MODE     cuMemFree while this thread or the other one (WHO) captures, relaxed
 * or thread_local thread_ends, destructor a thread ends that has freed small blocks; its destructors free
 * blocks, too elsewhere WHERE       the kernel runs in another context, or on another device locked WHAT the
 * free is made under a mutex. The other thread takes it, and then writes the flag, launches the kernel that
 * the first one has to meet, or launches one that waits bystander             another thread frees memory
 * that is in use; this one allocates capture_begins WORK WHEN another thread begins a capture during the
 * free, early or late. The work is a kernel that waits, or one that is busy for a second
 *
 * "slow" counts the calls that took a time in which a library waits.
 */
#include "waiting.h"

#include <gpupool.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS      50
#define COUNT       4
#define BLOCK       (4 * MIB)
#define SMALL       ((size_t)16 << 10) /* a cache may keep these for each thread */
#define MILLISECOND UINT64_C(1000000)
#define SLOW_NS     (90 * MILLISECOND)

static int slow;

static uint64_t now_ns(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 * MILLISECOND + (uint64_t)now.tv_nsec;
}

#define TIMED(call)                                                                                          \
  do {                                                                                                       \
    uint64_t begin_ns_ = now_ns();                                                                           \
    CALL(call);                                                                                              \
    slow += now_ns() - begin_ns_ >= SLOW_NS;                                                                 \
  } while (0)

static void say_slow(void)
{
  printf("slow: %d\n", slow);
}

/* Both threads of a scenario have come here. */
static pthread_barrier_t stage;

static void meet(void)
{
  (void)pthread_barrier_wait(&stage);
}

static pthread_t start_thread(void *(*function)(void *))
{
  pthread_t thread;
  if (pthread_barrier_init(&stage, NULL, 2) != 0 || pthread_create(&thread, NULL, function, NULL) != 0)
    exit(1);
  return thread;
}

static void join(pthread_t thread)
{
  if (pthread_join(thread, NULL) != 0)
    exit(1);
}

static void end_round(void)
{
  waiting_stop();
  CALL(cuCtxSynchronize());
  waiting_again();
}

static void returns(char **arguments)
{
  for (int i = 0; i < ROUNDS; i++) {
    CUdeviceptr block = waiting_take(strtoull(arguments[0], NULL, 10));
    waiting_start();
    waiting_give(block);
    end_round();
  }
}

static CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
static CUstream captured_stream;

static void begin_capture(void)
{
  CALL(cuStreamCreate(&captured_stream, CU_STREAM_NON_BLOCKING));
  SAY(cuStreamBeginCapture_v2(captured_stream, capture_mode));
}

static void end_capture(void)
{
  CUgraph graph = NULL;
  SAY(cuStreamEndCapture(captured_stream, &graph));
}

/* Leaves more freed memory in use than the bound allows, although no call has waited: a library makes no
 * calls during a capture. */
static void leave_beyond(void)
{
  CUdeviceptr blocks[COUNT];

  for (int i = 0; i < COUNT; i++)
    blocks[i] = waiting_take(BLOCK);
  begin_capture();
  for (int i = 0; i < COUNT; i++)
    waiting_give(blocks[i]);
  end_capture();
}

static void never(char **arguments)
{
  const bool releases = strcmp(arguments[0], "release") == 0;
  const bool in_stream = strstr(arguments[0], "in_stream") != NULL;
  CUdeviceptr blocks[COUNT];

  for (int i = 0; i < COUNT; i++)
    if (releases || strcmp(arguments[0], "malloc_in_stream") == 0)
      blocks[i] = waiting_take(BLOCK);
    else
      CALL(cuMemAllocAsync(&blocks[i], BLOCK, waiting_work));
  CALL(cuCtxSynchronize());
  for (int i = 0; releases && i < COUNT; i++) {
    (void)gpupool_retain((const void *)(uintptr_t)blocks[i]);
    waiting_give(blocks[i]);
  }
  leave_beyond();
  waiting_start();
  for (int i = 0; i < COUNT; i++) {
    waiting_step("free");
    if (releases)
      TIMED((gpupool_release((const void *)(uintptr_t)blocks[i]), 0)); /* fails without the library */
    else if (in_stream)
      TIMED(cuMemFreeAsync(blocks[i], waiting_work));
    else
      TIMED(cuMemFree_v2(blocks[i]));
  }
  say_slow();
}

static atomic_bool entered, returned, captures;
static bool is_late;

static void enter(void *unused)
{
  (void)unused;
  atomic_store(&entered, true);
}

static void *capture_in_thread(void *unused)
{
  (void)unused;
  CALL(cuCtxSetCurrent(waiting_context));
  while (!atomic_load(&entered) && !atomic_load(&returned))
    sched_yield();
  if (is_late)
    (void)usleep(150000);
  begin_capture();
  atomic_store(&captures, true);
  while (!atomic_load(&returned))
    sched_yield();
  end_capture();
  waiting_stop();
  return NULL;
}

static void captured(char **arguments)
{
  const bool is_own = strcmp(arguments[0], "this") == 0;
  CUdeviceptr blocks[COUNT];
  pthread_t thread = 0;

  if (strcmp(arguments[1], "thread_local") == 0)
    capture_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  for (int i = 0; i < COUNT; i++)
    blocks[i] = waiting_take(BLOCK);
  waiting_start();
  CALL(cuMemFreeAsync(waiting_take(BLOCK), waiting_work)); /* a library records a fence here */
  enter(NULL);
  if (is_own)
    begin_capture();
  else
    thread = start_thread(capture_in_thread);
  while (!is_own && !atomic_load(&captures))
    sched_yield();
  for (int i = 0; i < COUNT; i++)
    TIMED((SAY(cuMemFree_v2(blocks[i])), 0)); /* refused in a thread with a capture that is not relaxed */
  atomic_store(&returned, true);
  if (is_own)
    end_capture();
  else
    join(thread);
  say_slow();
}

/* A function of the host runs in calls that wait or ask, so in a free that does. */
static void capture_begins(char **arguments)
{
  const bool is_busy = strcmp(arguments[0], "busy") == 0;
  CUstream notified;

  is_late = strcmp(arguments[1], "late") == 0;
  capture_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  CUdeviceptr block = waiting_take(BLOCK);
  CALL(cuStreamCreate(&notified, CU_STREAM_NON_BLOCKING));
  pthread_t thread = start_thread(capture_in_thread);
  if (is_busy)
    waiting_busy(waiting_work, 1000 * MILLISECOND);
  else
    waiting_start();
  CALL(cuLaunchHostFunc(notified, enter, NULL));
  TIMED(cuMemFree_v2(block));
  atomic_store(&returned, true);
  join(thread);
  if (!is_busy && !is_late)
    say_slow();
}

/* Destructors run in the order of their keys: one before and one after those of a library that makes its own
 * at the first allocation. */
static pthread_key_t keys[2];
static CUdeviceptr lefts[2];
static bool has_destructors;

static void free_left(void *block)
{
  waiting_give(*(CUdeviceptr *)block);
}

static void *use_small(void *unused)
{
  CUdeviceptr blocks[COUNT];

  (void)unused;
  CALL(cuCtxSetCurrent(waiting_context));
  for (int round = 0; round < 3; round++) {
    CALL(cuCtxSynchronize());
    for (int i = 0; i < COUNT; i++)
      blocks[i] = waiting_take(SMALL);
    for (int i = 0; i < COUNT; i++)
      waiting_give(blocks[i]);
  }
  for (int i = 0; has_destructors && i < 2; i++)
    if (pthread_setspecific(keys[i], &lefts[i]) != 0)
      exit(1);
  meet();
  meet(); /* the kernel runs */
  return NULL;
}

static void thread_ends(char **arguments)
{
  (void)arguments;
  for (int i = 0; i < 2; i++) {
    if (pthread_key_create(&keys[i], free_left) != 0)
      exit(1);
    lefts[i] = waiting_take(BLOCK);
  }
  pthread_t thread = start_thread(use_small);
  meet();
  waiting_start();
  meet();
  TIMED(pthread_join(thread, NULL));
  if (!has_destructors)
    say_slow();
}

static void destructor(char **arguments)
{
  has_destructors = true;
  thread_ends(arguments);
}

static void elsewhere(char **arguments)
{
  static const unsigned char image[4] = {0};
  CUcontext other;
  CUmodule module;
  CUstream stream;

  if (strcmp(arguments[0], "device") == 0)
    CALL(cuDevicePrimaryCtxRetain(&other, 1));
  else
    CALL(cuCtxCreate_v2(&other, 0, 0));
  CALL(cuCtxSetCurrent(other));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  waiting_start_in(module, stream);
  CALL(cuCtxSetCurrent(waiting_context));
  for (int i = 0; i < ROUNDS; i++) {
    CUdeviceptr block = waiting_take(BLOCK);
    waiting_busy(waiting_work, MILLISECOND);
    TIMED(cuMemFree_v2(block));
  }
  say_slow();
  waiting_stop();
  CALL(cuCtxSetCurrent(other));
  CALL(cuCtxSynchronize());
  CALL(cuCtxSetCurrent(waiting_context));
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *locked_work;
static volatile uint32_t *cell;

static void launch_party(CUstream stream)
{
  uint32_t parties = 2;
  void *parameters[] = {(void *)&cell, &parties};
  CALL(cuLaunchKernel(waiting_function("simcuda_meet"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void *act_locked(void *unused)
{
  CUstream stream;

  (void)unused;
  CALL(cuCtxSetCurrent(waiting_context));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < ROUNDS; i++) {
    meet();
    (void)pthread_mutex_lock(&mutex);
    if (strcmp(locked_work, "meet") == 0)
      launch_party(stream);
    else if (strcmp(locked_work, "busy") == 0)
      waiting_start();
    waiting_stop();
    (void)pthread_mutex_unlock(&mutex);
    meet();
  }
  return NULL;
}

static void locked(char **arguments)
{
  void *page;

  locked_work = arguments[0];
  CALL(cuMemHostAlloc(&page, 4096, CU_MEMHOSTALLOC_PORTABLE));
  cell = page;
  pthread_t thread = start_thread(act_locked);
  for (int i = 0; i < ROUNDS; i++) {
    CUdeviceptr block = waiting_take(BLOCK);
    (void)pthread_mutex_lock(&mutex);
    if (strcmp(locked_work, "meet") == 0)
      launch_party(waiting_work);
    else if (strcmp(locked_work, "busy") == 0)
      waiting_busy(waiting_work, 150 * MILLISECOND);
    else
      waiting_start();
    meet();
    waiting_give(block);
    (void)pthread_mutex_unlock(&mutex);
    meet();
    end_round();
  }
  join(thread);
}

static void *free_busy(void *unused)
{
  (void)unused;
  CALL(cuCtxSetCurrent(waiting_context));
  for (int i = 0; i < ROUNDS; i++) {
    CUdeviceptr block = waiting_take(BLOCK);
    waiting_busy(waiting_work, 20 * MILLISECOND);
    waiting_give(block);
  }
  atomic_store(&returned, true);
  return NULL;
}

/* Each allocation is of a new size. Real time may slow a few down, see virtual_clock.c. */
static void bystander(char **arguments)
{
  CUdeviceptr block;
  int count = 0, slowed = 0;
  pthread_t thread = start_thread(free_busy);

  (void)arguments;
  for (; !atomic_load(&returned); count++) {
    uint64_t begin_ns = now_ns();
    CALL(cuMemAlloc_v2(&block, 2 * MIB + (size_t)count * 4096));
    slowed += now_ns() - begin_ns >= 3 * MILLISECOND;
    (void)usleep(2000);
  }
  join(thread);
  printf("slowed: %d\n", slowed > 5 && slowed > count / 8);
}

int main(int argc, char **argv)
{
  static const waiting_scenario_t scenarios[] = {
      {"returns", returns, 1},
      {"never", never, 1},
      {"captured", captured, 2},
      {"thread_ends", thread_ends, 0},
      {"destructor", destructor, 0},
      {"elsewhere", elsewhere, 1},
      {"locked", locked, 1},
      {"bystander", bystander, 0},
      {"capture_begins", capture_begins, 2},
  };
  return waiting_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
