/*
 * Everything in the default stream, memory freed and taken again with its work pending; then one thing that
 * other memory or work comes in by: single_stream WAY [ARGUMENT].
 *
 * none; idle_streams; stream (0: blocking, 1: non-blocking); per_thread (handle: the handle of that stream,
 * ptsz: a function that means it by 0); ordered (memory in the order of a non-blocking stream); context;
 * peer; ipc; attribute; tokens; capture; programmatic; library (the path of one to load, with an allocation
 * after it); behind (launch, graph: the program has looked for a function that submits work behind the
 * library, and works on).
 *
 * Between cuMemHostAlloc and cuMemFreeHost stand the rounds. Prints where each block was, by its number.
 */
#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES  (1u << 20)
#define ROUNDS 20

static CUcontext first;
static CUdeviceptr block;
static CUfunction kernel;

static void run_rounds(void)
{
  void *host;
  CUdeviceptr last = 0;
  int moves = 0;

  CALL(cuMemHostAlloc(&host, 4096, 0));
  for (int i = 0; i < ROUNDS; i++) {
    CALL(cuMemAlloc_v2(&block, BYTES));
    moves += block != last;
    last = block;
    CALL(cuMemsetD8Async(block, (unsigned char)i, BYTES, NULL));
    CALL(cuMemFree_v2(block));
  }
  CALL(cuMemFreeHost(host));
  CALL(cuMemAlloc_v2(&block, BYTES)); /* with the last round's work pending */
  printf("moves=%d\n", moves);
}

static void make_stream(unsigned flags)
{
  CUstream stream;
  CALL(cuStreamCreate(&stream, flags));
  CALL(cuMemsetD8Async(block, 1, BYTES, stream));
  CALL(cuStreamCreateWithPriority(&stream, flags, 0));
  CALL(cuCtxSynchronize());
  CALL(cuStreamCreate(&stream, flags)); /* nothing is owed any more */
}

static void take_in_stream(void)
{
  CUstream stream;
  CUdeviceptr taken;
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuMemAllocAsync(&taken, BYTES, stream));
}

static void launch_programmatic(void)
{
#if CUDA_VERSION >= 11080
  uint64_t words = 8, value = 1;
  void *parameters[] = {&block, &words, &value};
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, &attribute, 1};
  CALL(cuLaunchKernelEx(&config, kernel, parameters, NULL));
  CALL(cuLaunchKernelEx(&config, kernel, parameters, NULL));
#endif
}

static void capture(void)
{
  CUgraph graph;
  CALL(cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
  CALL(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
  CALL(cuGraphDestroy(graph));
}

static void look_behind(const char *what)
{
  CUgraph graph;
  CUgraphExec exec;
  (void)dlsym(RTLD_NEXT, "cuMemcpyHtoD_v2");
  if (strcmp(what, "graph") == 0) {
    CALL(cuGraphCreate(&graph, 0));
    CALL(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
    CALL(cuGraphLaunch(exec, NULL));
    CALL(cuGraphLaunch(exec, NULL));
  } else {
    CALL(cuMemsetD8Async(block, 1, BYTES, CU_STREAM_PER_THREAD));
    CALL(cuMemsetD8Async(block, 1, BYTES, CU_STREAM_PER_THREAD));
  }
}

static int go(const char *way, const char *argument)
{
  CUcontext other;
  CUipcMemHandle handle;
  unsigned on = 1;

  if (strcmp(way, "idle_streams") == 0) {
    CUstream stream;
    CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CALL(cuStreamSynchronize(stream));
  } else if (strcmp(way, "stream") == 0) {
    make_stream((unsigned)atoi(argument));
  } else if (strcmp(way, "per_thread") == 0 && strcmp(argument, "ptsz") == 0) {
    CALL(cuMemsetD8Async_ptsz(block, 1, BYTES, NULL));
  } else if (strcmp(way, "per_thread") == 0) {
    CALL(cuMemsetD8Async(block, 1, BYTES, CU_STREAM_PER_THREAD));
  } else if (strcmp(way, "ordered") == 0) {
    take_in_stream();
  } else if (strcmp(way, "context") == 0) {
    CALL(cuCtxCreate_v2(&other, 0, 0));
    CALL(cuCtxSetCurrent(first));
  } else if (strcmp(way, "peer") == 0) {
    (void)cuCtxEnablePeerAccess(first, 0); /* itself: refused, but who knows */
  } else if (strcmp(way, "ipc") == 0) {
    CALL(cuIpcGetMemHandle(&handle, block));
  } else if (strcmp(way, "attribute") == 0) {
    CALL(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
  } else if (strcmp(way, "capture") == 0) {
    capture();
  } else if (strcmp(way, "programmatic") == 0) {
    launch_programmatic();
  } else if (strcmp(way, "behind") == 0) {
    look_behind(argument);
  } else if (strcmp(way, "library") == 0) {
    if (!dlopen(argument, RTLD_NOW)) {
      printf("%s\n", dlerror());
      return 1;
    }
    CALL(cuMemAlloc_v2(&block, 3 * BYTES));
  } else if (strcmp(way, "none") != 0) {
    fprintf(stderr, "usage: single_stream WAY [ARGUMENT]\n");
    return 2;
  }
  return 0;
}

int main(int argc, char **argv)
{
  static char image[] = "no image";
  CUmodule module;

  CALL(cuInit(0));
  CALL(cuCtxCreate_v2(&first, 0, 0));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuModuleGetFunction(&kernel, module, "simcuda_fill"));
  run_rounds();
  int status = go(argc > 1 ? argv[1] : "none", argc > 2 ? argv[2] : "0");
  if (status != 0)
    return status;
  run_rounds();
  CALL(cuCtxSynchronize());
  return 0;
}
