#include "waiting.h"

#include <time.h>

CUcontext waiting_context;
CUstream waiting_work;
CUmodule waiting_module;

static CUstream side;
static _Atomic uint32_t *flag; /* page-locked memory, which the kernel reads */

void waiting_step(const char *what)
{
  printf("step: %s\n", what);
}

void waiting_attempted(const char *what, bool is_refused, CUresult result)
{
  printf("%s: %s%d\n", what, is_refused ? "2, then " : "", (int)result);
}

CUfunction waiting_function(const char *name)
{
  CUfunction function;
  CALL(cuModuleGetFunction(&function, waiting_module, name));
  return function;
}

void waiting_start_in(CUmodule module, CUstream stream)
{
  CUfunction function;
  void *parameters[] = {(void *)&flag};
  CALL(cuModuleGetFunction(&function, module, "simcuda_wait"));
  CALL(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

void waiting_start(void)
{
  waiting_start_in(waiting_module, side);
}

void waiting_record(CUevent event)
{
  CALL(cuEventRecord(event, side));
}

void waiting_busy(CUstream stream, uint64_t ns)
{
  void *parameters[] = {&ns};
  CALL(cuLaunchKernel(waiting_function("simcuda_busy"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

void waiting_stop(void)
{
  atomic_store(flag, 1);
}

void waiting_again(void)
{
  atomic_store(flag, 0);
}

CUdeviceptr waiting_take(size_t bytes)
{
  CUdeviceptr block;
  CALL(cuMemAlloc_v2(&block, bytes));
  return block;
}

void waiting_give(CUdeviceptr block)
{
  CALL(cuMemFree_v2(block));
}

static void leave(size_t bytes, int count, bool with_work)
{
  CUdeviceptr *blocks = calloc((size_t)count, sizeof(*blocks));
  for (int i = 0; blocks && i < count; i++)
    blocks[i] = waiting_take(bytes);
  for (int i = 0; blocks && i < count; i++) {
    if (with_work)
      CALL(cuMemsetD8Async(blocks[i], 1, 4096, waiting_work));
    waiting_give(blocks[i]);
  }
  free(blocks);
}

void waiting_leave_idle(size_t bytes, int count)
{
  leave(bytes, count, false);
  CALL(cuCtxSynchronize());
}

void waiting_leave_deferred(size_t bytes, int count)
{
  leave(bytes, count, true);
}

void waiting_leave(const char *how, size_t bytes, int count)
{
  if (strcmp(how, "idle") == 0)
    waiting_leave_idle(bytes, count);
  else
    waiting_leave_deferred(bytes, count);
}

void waiting_setup(void)
{
  static const unsigned char image[4] = {0};
  void *page;

  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&waiting_context, 0));
  CALL(cuCtxSetCurrent(waiting_context));
  CALL(cuStreamCreate(&waiting_work, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
  CALL(cuModuleLoadData(&waiting_module, image));
  CALL(cuMemHostAlloc(&page, 4096, CU_MEMHOSTALLOC_PORTABLE));
  flag = page;
  atomic_store(flag, 0);
}

static double now_seconds(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int waiting_main(int argc, char **argv, const waiting_scenario_t *scenarios, size_t count)
{
  const size_t size = sizeof(*scenarios);
  const waiting_scenario_t *scenario =
      &scenarios[case_index(argv[1], &scenarios[0].name, size, count * size)];

  if (argc != 2 + scenario->count) {
    fprintf(stderr, "%s takes %d arguments\n", scenario->name, scenario->count);
    return 2;
  }
  waiting_setup();
  double begin = now_seconds();
  scenario->run(argv + 2);
  printf("seconds: %d\n", (int)(now_seconds() - begin));
  waiting_step("synchronization");
  waiting_stop();
  CALL(cuCtxSynchronize());
  printf("end\n");
  return 0;
}
