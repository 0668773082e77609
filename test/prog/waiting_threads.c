/*
 * Two threads beside a kernel. This one allocates; the other one does what the kernel waits for, and then
 * writes the flag. A library may be waiting in the allocation, with whatever it holds meanwhile.
 *
 *   ladder WHAT LEFT, miss WHAT LEFT
 *                  memory is short (1 GiB, SIMCUDA_CAPACITY), or a block of another size is wanted, while the
 *                  other thread does WHAT: makes and destroys a stream or a context, captures, all of that;
 *                  LEFT is what became of freed memory: idle or deferred
 *   newcomer LEFT  memory is short beside a kernel of half a second; meanwhile the other thread launches one
 *                  that waits for this thread
 *   exported       the other thread frees memory that another process may use. A driver that waits in
 *                  cuMemFree waits for the kernel there, and this thread writes the flag when it has its
 *                  memory
 *
 * A function of the host that runs in a call of the driver that waits or asks, and in no other, tells the
 * other thread that this one is at such a call.
 */
#include "waiting.h"

#include <sched.h>

#define TIMES 100 /* a library that waits once each time waits too long */

static atomic_bool entered, returned;
static const char *what;

static void enter(void *unused)
{
  (void)unused;
  atomic_store(&entered, true);
}

/* Until a thread is in a call that waits, or is back from the call. */
static void await(void)
{
  while (!atomic_load(&entered) && !atomic_load(&returned))
    sched_yield();
}

static void expect_entry(void)
{
  CUstream told;
  CALL(cuStreamCreate(&told, CU_STREAM_NON_BLOCKING));
  CALL(cuLaunchHostFunc(told, enter, NULL));
}

static void use_stream(void)
{
  CUstream made;
  CALL(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamDestroy_v2(made));
}

static void use_context(void)
{
  CUcontext made;
  CALL(cuCtxCreate_v2(&made, 0, 0));
  CALL(cuCtxDestroy_v2(made));
  CALL(cuCtxSetCurrent(waiting_context));
}

static void use_capture(void)
{
  CUstream made;
  CUgraph graph;
  CALL(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamBeginCapture_v2(made, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CALL(cuStreamEndCapture(made, &graph));
  CALL(cuGraphDestroy(graph));
  CALL(cuStreamDestroy_v2(made));
}

static void *act(void *unused)
{
  (void)unused;
  CALL(cuCtxSetCurrent(waiting_context));
  await();
  for (int i = 0; i < TIMES; i++) {
    if (strcmp(what, "stream") == 0 || strcmp(what, "all") == 0)
      use_stream();
    if (strcmp(what, "context") == 0 || strcmp(what, "all") == 0)
      use_context();
    if (strcmp(what, "capture") == 0 || strcmp(what, "all") == 0)
      use_capture();
  }
  waiting_stop();
  return NULL;
}

static CUdeviceptr lent;

static void *free_lent(void *unused)
{
  (void)unused;
  CALL(cuCtxSetCurrent(waiting_context));
  waiting_give(lent);
  atomic_store(&returned, true);
  return NULL;
}

static void beside(void *(*function)(void *), size_t bytes)
{
  pthread_t thread;
  CUdeviceptr block;
  if (pthread_create(&thread, NULL, function, NULL) != 0)
    exit(1);
  if (function == free_lent)
    await();
  waiting_step("cuMemAlloc");
  CUresult result = cuMemAlloc_v2(&block, bytes);
  atomic_store(&returned, true);
  if (function != act)
    waiting_stop();
  waiting_step("the other thread");
  if (pthread_join(thread, NULL) != 0)
    exit(1);
  bool is_refused = result == CUDA_ERROR_OUT_OF_MEMORY;
  if (is_refused) {
    CALL(cuCtxSynchronize());
    result = cuMemAlloc_v2(&block, bytes);
  }
  waiting_attempted("cuMemAlloc", is_refused, result);
}

static void ladder(char **arguments)
{
  what = arguments[0];
  waiting_leave(arguments[1], 600 * MIB, 1);
  waiting_start();
  expect_entry();
  beside(act, 700 * MIB);
}

static void miss(char **arguments)
{
  what = arguments[0];
  waiting_leave(arguments[1], 8 * MIB, 20);
  waiting_start();
  expect_entry();
  beside(act, 2 * MIB);
}

static void *launch_another(void *unused)
{
  (void)unused;
  CALL(cuCtxSetCurrent(waiting_context));
  await();
  waiting_start();
  return NULL;
}

static void newcomer(char **arguments)
{
  waiting_leave(arguments[0], 600 * MIB, 1);
  waiting_busy(waiting_work, 500000000);
  expect_entry();
  beside(launch_another, 700 * MIB);
}

/* The device, or the limit, has 1 GiB. */
static void exported(char **arguments)
{
  CUipcMemHandle handle;
  (void)arguments;
  lent = waiting_take(300 * MIB);
  CALL(cuIpcGetMemHandle(&handle, lent));
  waiting_leave_idle(600 * MIB, 1);
  waiting_start();
  expect_entry();
  beside(free_lent, 700 * MIB);
}

int main(int argc, char **argv)
{
  static const waiting_scenario_t scenarios[] = {
      {"ladder", ladder, 2},
      {"miss", miss, 2},
      {"newcomer", newcomer, 1},
      {"exported", exported, 0},
  };
  return waiting_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
