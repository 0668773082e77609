/*
 * A program with one planted fault: it writes past the end of a block, or into a block after its free.
 *
 *   damaged MEMORY WHEN HOW OFFSET BYTES [SIZE]
 *
 * MEMORY: malloc, or async (cudaMallocAsync). WHEN: live (OFFSET counts from the end of the block), freed (at
 * once after the free), later (after a synchronization that follows the free), ending (live, and the program
 * resets the device instead of freeing the block) or queried (freed; the program queries the stream until it
 * has no work, and ends). HOW: memset, copy, kernel, stream (a memset in another stream), graph (a memset in
 * one), thread (a memset by another thread) or none. Afterwards the program allocates the same size again,
 * and frees everything.
 */
#include "calls.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

static CUstream stream, other;
static CUmodule module;
static bool is_async;
static CUdeviceptr target;
static size_t bytes;

static CUdeviceptr allocate(size_t size)
{
  CUdeviceptr memory;

  if (is_async)
    CALL(cuMemAllocAsync(&memory, size, stream));
  else
    CALL(cuMemAlloc(&memory, size));
  return memory;
}

static void release(CUdeviceptr memory)
{
  if (is_async)
    CALL(cuMemFreeAsync(memory, stream));
  else
    CALL(cuMemFree(memory));
}

static void *write_in_thread(void *context)
{
  CALL(cuCtxSetCurrent(context));
  CALL(cuMemsetD8Async(target, 7, bytes, stream));
  return NULL;
}

static void write_in_graph(void)
{
  CUgraph graph;
  CUgraphExec executable;

  CALL(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CALL(cuMemsetD8Async(target, 7, bytes, stream));
  CALL(cuStreamEndCapture(stream, &graph));
  CALL(cuGraphInstantiateWithFlags(&executable, graph, 0));
  CALL(cuGraphLaunch(executable, stream));
  CALL(cuStreamSynchronize(stream));
  CALL(cuGraphExecDestroy(executable));
  CALL(cuGraphDestroy(graph));
}

static void write_bytes(const char *how)
{
  static unsigned char source[1 << 16];
  CUcontext context;
  CUfunction copy;
  CUdeviceptr from;
  pthread_t thread;
  void *params[] = {&target, &from, &bytes};

  if (strcmp(how, "memset") == 0) {
    CALL(cuMemsetD8Async(target, 7, bytes, stream));
  } else if (strcmp(how, "copy") == 0) {
    CALL(cuMemcpyHtoDAsync(target, source, bytes, stream));
  } else if (strcmp(how, "kernel") == 0) {
    CALL(cuMemAlloc(&from, bytes));
    CALL(cuMemsetD8(from, 7, bytes));
    CALL(cuModuleGetFunction(&copy, module, "simcuda_copy"));
    CALL(cuLaunchKernel(copy, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    CALL(cuStreamSynchronize(stream));
    CALL(cuMemFree(from));
  } else if (strcmp(how, "stream") == 0) {
    CALL(cuMemsetD8Async(target, 7, bytes, other));
    CALL(cuStreamSynchronize(other));
  } else if (strcmp(how, "graph") == 0) {
    write_in_graph();
  } else if (strcmp(how, "thread") == 0) {
    CALL(cuCtxGetCurrent(&context));
    CALL(pthread_create(&thread, NULL, write_in_thread, context));
    CALL(pthread_join(thread, NULL));
  }
  CALL(cuStreamSynchronize(stream));
}

static int query(void)
{
  CUresult result;

  while ((result = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
    ;
  CALL(result);
  printf("end\n");
  return 0;
}

int main(int argc, char **argv)
{
  CUcontext context;

  if (argc < 6) {
    fprintf(stderr, "usage: damaged MEMORY WHEN HOW OFFSET BYTES [SIZE]\n");
    return 2;
  }
  const char *when = argv[2];
  size_t size = argc > 6 ? strtoul(argv[6], NULL, 10) : 3420;
  size_t offset = strtoul(argv[4], NULL, 10);
  bool is_ending = strcmp(when, "ending") == 0;
  bool is_live = is_ending || strcmp(when, "live") == 0;
  is_async = strcmp(argv[1], "async") == 0;
  bytes = strtoul(argv[5], NULL, 10);
  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CALL(cuModuleLoadData(&module, "simcuda"));
  CUdeviceptr block = allocate(size);
  CALL(cuMemsetD8Async(block, 1, size, stream));
  CALL(cuStreamSynchronize(stream));
  if (!is_live) {
    release(block);
    if (strcmp(when, "later") == 0)
      CALL(cuCtxSynchronize());
    if (strcmp(when, "queried") == 0)
      return query();
  }
  target = block + (is_live ? size : 0) + offset;
  write_bytes(argv[3]);
  if (!is_ending) {
    if (is_live)
      release(block);
    CALL(cuCtxSynchronize());
    release(allocate(size));
  }
  CALL(cuCtxSynchronize());
  CALL(is_ending ? cuDevicePrimaryCtxReset(0) : CUDA_SUCCESS);
  printf("end\n");
  return 0;
}
