/*
 * Shows in which stream a launch is work if it names none: launch_forms FORM. A kernel runs there until the
 * program stops it. Memory that was freed behind it is asked for again once the other default stream is known
 * to be complete. FORM ends with _ptsz where the stream is the thread's own, else it is the legacy one.
 *
 * early: how often that memory was handed out while the kernel was pending.
 */
#include "calls.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES  (1u << 16)
#define ROUNDS 20

static CUfunction waiting;
static void *parameters[1];
static CUgraphExec exec;

static CUresult launch(void)
{
  CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
  return cuLaunchKernelEx(&config, waiting, parameters, NULL);
}

static CUresult launch_ptsz(void)
{
  CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
  return cuLaunchKernelEx_ptsz(&config, waiting, parameters, NULL);
}

static CUresult graph(void)
{
  return cuGraphLaunch(exec, NULL);
}

static CUresult graph_ptsz(void)
{
  return cuGraphLaunch_ptsz(exec, NULL);
}

static void make_graph(void)
{
  CUstream stream;
  CUgraph captured;
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CALL(cuLaunchKernel(waiting, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
  CALL(cuStreamEndCapture(stream, &captured));
  CALL(cuGraphInstantiateWithFlags(&exec, captured, 0));
  CALL(cuStreamDestroy_v2(stream));
}

static const struct {
  const char *name;
  CUresult (*launch)(void);
} forms[] = {{"launch", launch}, {"launch_ptsz", launch_ptsz}, {"graph", graph}, {"graph_ptsz", graph_ptsz}};

static CUdeviceptr take(void)
{
  CUdeviceptr block;
  CALL(cuMemAlloc_v2(&block, BYTES));
  return block;
}

int main(int argc, char **argv)
{
  static const unsigned char image[4] = {0};
  const size_t form = CASE_OF(argv[1], forms);
  int early = 0;
  CUcontext context;
  CUmodule module;
  void *host;

  bool is_own = strstr(argv[1], "_ptsz") != NULL;
  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuModuleGetFunction(&waiting, module, "simcuda_wait"));
  CALL(cuMemHostAlloc(&host, 4096, 0));
  volatile uint32_t *flag = host;
  parameters[0] = (void *)&flag;
  make_graph();
  for (int i = 0; i < ROUNDS; i++) {
    CUdeviceptr used = take();
    *flag = 0;
    CALL(forms[form].launch());
    CALL(cuMemFree_v2(used));
    CALL(cuStreamQuery(is_own ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD));
    CUdeviceptr next = take();
    early += next == used;
    *flag = 1;
    CALL(cuCtxSynchronize());
    CALL(cuMemFree_v2(next));
    CALL(cuCtxSynchronize());
  }
  printf("early=%d\n", early);
  return 0;
}
