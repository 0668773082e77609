/*
 * Two kernels that meet, as those of a collective do: the first is launched, then memory is allocated, then
 * the second is launched. Nothing that the allocation waits for may need the second.
 *
 *   devices LEFT BYTES  one on device 0, by a thread that then waits for it; the memory and the other one on
 *                       device 1
 *   streams LEFT BYTES  both in streams of device 0, by one thread
 *
 * Before the kernels, 600 MiB are freed on the device that allocates, and are idle or deferred (LEFT). How
 * short its memory is then, is in BYTES and SIMCUDA_CAPACITY.
 */
#include "waiting.h"

#include <sched.h>

static volatile uint32_t *cell;
static atomic_bool launched;

static void launch(CUmodule module, CUstream stream)
{
  CUfunction function;
  uint32_t parties = 2;
  void *parameters[] = {(void *)&cell, &parties};
  CALL(cuModuleGetFunction(&function, module, "simcuda_meet"));
  CALL(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void make_cell(void)
{
  void *page;
  CALL(cuMemHostAlloc(&page, 4096, CU_MEMHOSTALLOC_PORTABLE));
  cell = page;
}

/* The allocation, the second kernel; and the allocation again if it was refused,
 * which the kernels explain. */
static void allocate_and_launch(size_t bytes, CUmodule module, CUstream stream)
{
  CUdeviceptr block;

  waiting_step("cuMemAlloc");
  CUresult result = cuMemAlloc_v2(&block, bytes);
  bool is_refused = result == CUDA_ERROR_OUT_OF_MEMORY;
  launch(module, stream);
  waiting_step("cuStreamSynchronize");
  CALL(cuStreamSynchronize(stream));
  CALL(cuCtxSynchronize());
  if (is_refused)
    result = cuMemAlloc_v2(&block, bytes);
  waiting_attempted("cuMemAlloc", is_refused, result);
}

static void *first_party(void *unused)
{
  CUstream stream;
  (void)unused;
  CALL(cuCtxSetCurrent(waiting_context));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  launch(waiting_module, stream);
  atomic_store(&launched, true);
  CALL(cuStreamSynchronize(stream));
  return NULL;
}

static void devices(char **arguments)
{
  static const unsigned char image[4] = {0};
  CUcontext context;
  CUmodule module;
  CUstream stream;
  pthread_t thread;

  make_cell();
  CALL(cuDevicePrimaryCtxRetain(&context, 1));
  CALL(cuCtxSetCurrent(context));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate(&waiting_work, CU_STREAM_NON_BLOCKING));
  waiting_leave(arguments[0], 600 * MIB, 1);
  if (pthread_create(&thread, NULL, first_party, NULL) != 0)
    exit(1);
  while (!atomic_load(&launched))
    sched_yield();
  allocate_and_launch(strtoull(arguments[1], NULL, 10), module, stream);
  if (pthread_join(thread, NULL) != 0)
    exit(1);
  CALL(cuCtxSetCurrent(waiting_context));
}

static void streams(char **arguments)
{
  CUstream stream, other;

  make_cell();
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  waiting_leave(arguments[0], 600 * MIB, 1);
  launch(waiting_module, stream);
  allocate_and_launch(strtoull(arguments[1], NULL, 10), waiting_module, other);
}

int main(int argc, char **argv)
{
  static const waiting_scenario_t scenarios[] = {{"devices", devices, 2}, {"streams", streams, 2}};
  return waiting_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
