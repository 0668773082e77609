/*
 * Calls a function by which the driver takes memory of the device for its own use, after memory was freed:
 * hidden_memory FUNCTION. Prints the function's result.
 */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES ((size_t)1 << 20)

static const unsigned char image[4] = {0};
/* The driver writes to the first and the last of the values. */
static CUjit_option options[] = {
    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
static void *values[] = {(void *)100, (void *)32, (void *)1000};

static CUgraph one_graph(void)
{
  CUgraph graph;
  CUgraphNode node;
  CALL(cuGraphCreate(&graph, 0));
  CALL(cuGraphAddEmptyNode(&node, graph, NULL, 0));
  return graph;
}

static CUfunction one_function(void)
{
  CUmodule module;
  CUfunction function;
  CALL(cuModuleLoadData(&module, image));
  CALL(cuModuleGetFunction(&function, module, "simcuda_wait"));
  return function;
}

/* name is the one that a driver exports: stream-less forms of a function have names of their own. */
static CUresult use(const char *name)
{
  CUmodule module;
  CUlibrary library;
  CUgraphExec exec;
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {0};

  if (strcmp(name, "cuModuleLoad") == 0)
    return cuModuleLoad(&module, "/dev/null");
  if (strcmp(name, "cuModuleLoadData") == 0)
    return cuModuleLoadData(&module, image);
  if (strcmp(name, "cuModuleLoadDataEx") == 0)
    return cuModuleLoadDataEx(&module, image, 3, options, values);
  if (strcmp(name, "cuModuleLoadFatBinary") == 0)
    return cuModuleLoadFatBinary(&module, image);
  if (strcmp(name, "cuLibraryLoadData") == 0)
    return cuLibraryLoadData(&library, image, options, values, 3, NULL, NULL, 0);
  if (strcmp(name, "cuLibraryLoadFromFile") == 0)
    return cuLibraryLoadFromFile(&library, "/dev/null", options, values, 3, NULL, NULL, 0);
  if (strcmp(name, "cuFuncLoad") == 0)
    return cuFuncLoad(one_function());
  if (strcmp(name, "cuCtxSetLimit") == 0)
    return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096);
  if (strcmp(name, "cuGraphInstantiate") == 0)
    return cuGraphInstantiate(&exec, one_graph(), NULL, NULL, 0);
  if (strcmp(name, "cuGraphInstantiate_v2") == 0)
    return cuGraphInstantiate_v2(&exec, one_graph(), NULL, NULL, 0);
  if (strcmp(name, "cuGraphInstantiateWithFlags") == 0)
    return cuGraphInstantiateWithFlags(&exec, one_graph(), 0);
  if (strcmp(name, "cuGraphInstantiateWithParams") == 0)
    return cuGraphInstantiateWithParams(&exec, one_graph(), &parameters);
  if (strcmp(name, "cuGraphInstantiateWithParams_ptsz") == 0)
    return cuGraphInstantiateWithParams_ptsz(&exec, one_graph(), &parameters);
  fprintf(stderr, "hidden_memory: %s is none of its functions\n", name);
  exit(2);
}

int main(int argc, char **argv)
{
  CUcontext context;
  CUdeviceptr block;

  if (argc != 2) {
    fputs("usage: hidden_memory FUNCTION\n", stderr);
    return 2;
  }
  CALL(cuInit(0));
  CALL(cuCtxCreate_v2(&context, 0, 0));
  CALL(cuMemAlloc_v2(&block, BYTES));
  CALL(cuMemFree_v2(block));
  printf("%s: %d\n", argv[1], (int)use(argv[1]));
  return 0;
}
