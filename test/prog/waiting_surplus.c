/*
 * A cache that keeps more than it should, beside a kernel that waits for this thread. The calls below are no
 * reason to wait.
 *
 *   reserve          the device has little memory left (1 GiB, SIMCUDA_CAPACITY)
 *   CALL much|old    more than 8 MiB are cached; or memory was cached for two seconds, of a clock that may be
 *                    one for tests
 *   free much|old    the same, and what is freed is of a stream: natively neither free of it waits
 *   other_context    as much, and the kernel is in another context than is synchronized
 *   query            as much, but nothing shows the cache so before the kernel starts
 */
#include <unistd.h>

#include "waiting.h"

/* The next allocation leaves the device with less than 512 MiB. */
static void reserve(char **arguments)
{
  CUdeviceptr block;
  (void)arguments;
  waiting_leave_idle(256 * MIB, 1);
  waiting_start();
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 300 * MIB));
}

/*
 * much: 48 MiB were freed behind work that has ended by now. A cache that asks the device at the miss learns
 * so in the calls that follow.
 */
static void keep(const char *why)
{
  if (strcmp(why, "old") == 0) {
    waiting_leave_idle(4 * MIB, 12);
    (void)sleep(2);
    return;
  }
  waiting_leave_deferred(4 * MIB, 12);
  (void)waiting_take(2 * MIB);
  CALL(cuStreamSynchronize(waiting_work));
}

static void hit(char **arguments)
{
  CUdeviceptr block;
  keep(arguments[0]);
  waiting_start();
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 4 * MIB));
  ATTEMPT("again", cuMemAlloc_v2(&block, 4 * MIB));
}

static void miss(char **arguments)
{
  CUdeviceptr block;
  keep(arguments[0]);
  waiting_start();
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 1 * MIB));
  ATTEMPT("again", cuMemAlloc_v2(&block, 3 * MIB));
}

static void stream(char **arguments)
{
  CUstream made;
  CUdeviceptr block;
  keep(arguments[0]);
  waiting_start();
  waiting_step("cuStreamCreate");
  CALL(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  waiting_step("cuMemsetD8Async");
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 1 * MIB));
  CALL(cuMemsetD8Async(block, 1, 4096, made));
  waiting_step("cuStreamDestroy");
  CALL(cuStreamDestroy_v2(made));
}

static void free_of_stream(char **arguments)
{
  CUdeviceptr first, second;
  CALL(cuMemAllocAsync(&first, 4 * MIB, waiting_work));
  CALL(cuMemAllocAsync(&second, 4 * MIB, waiting_work));
  CALL(cuStreamSynchronize(waiting_work));
  keep(arguments[0]);
  waiting_start();
  waiting_step("cuMemFreeAsync");
  CALL(cuMemFreeAsync(first, waiting_work));
  waiting_step("cuMemFree");
  CALL(cuMemFree_v2(second));
  ATTEMPT("cuMemAllocAsync", cuMemAllocAsync(&first, 6 * MIB, waiting_work));
  waiting_step("cuMemFreeAsync");
  CALL(cuMemFreeAsync(first, waiting_work));
}

static void capture(char **arguments)
{
  CUdeviceptr block;
  CUgraph graph;
  keep(arguments[0]);
  waiting_start();
  waiting_step("cuStreamBeginCapture");
  CALL(cuStreamBeginCapture_v2(waiting_work, CU_STREAM_CAPTURE_MODE_RELAXED));
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 1 * MIB));
  CALL(cuMemsetD8Async(block, 1, 4096, waiting_work));
  waiting_step("cuStreamEndCapture");
  CALL(cuStreamEndCapture(waiting_work, &graph));
  ATTEMPT("again", cuMemAlloc_v2(&block, 1 * MIB));
}

/* The stream that is asked is idle; its context is not. */
static void query(char **arguments)
{
  CUdeviceptr block;
  (void)arguments;
  waiting_leave_deferred(4 * MIB, 12);
  waiting_start();
  waiting_step("cuStreamSynchronize");
  CALL(cuStreamSynchronize(waiting_work));
  waiting_step("cuStreamQuery");
  CALL(cuStreamQuery(waiting_work));
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, 4 * MIB));
}

/* The kernel is in another context, which the synchronization does not cover. */
static void other_context(char **arguments)
{
  static const unsigned char image[4] = {0};
  CUcontext other;
  CUmodule module;
  CUstream stream;
  (void)arguments;
  waiting_leave_deferred(4 * MIB, 12);
  CALL(cuCtxCreate_v2(&other, 0, 0));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  waiting_start_in(module, stream);
  CALL(cuCtxSetCurrent(waiting_context));
  waiting_step("cuCtxSynchronize");
  CALL(cuCtxSynchronize());
  waiting_stop();
  CALL(cuCtxSetCurrent(other));
  CALL(cuCtxSynchronize());
  CALL(cuCtxSetCurrent(waiting_context));
}

int main(int argc, char **argv)
{
  static const waiting_scenario_t scenarios[] = {
      {"reserve", reserve, 0},
      {"hit", hit, 1},
      {"miss", miss, 1},
      {"stream", stream, 1},
      {"free", free_of_stream, 1},
      {"capture", capture, 1},
      {"query", query, 0},
      {"other_context", other_context, 0},
  };
  return waiting_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
