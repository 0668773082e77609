/*
 * A server that holds memory of its own and of libraries, and may sleep before it ends: then it frees its
 * own.
 *
 *   components awake|asleep TORCH NCCL CUBLAS CUDNN   paths of libraries (library.c, framework.c)
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "components.h"

#define NOINLINE __attribute__((noinline))

static void fail(const char *what)
{
  fprintf(stderr, "%s failed\n", what);
  exit(1);
}

static void *find(const char *path, const char *name)
{
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  void *function = library ? dlsym(library, name) : NULL;
  if (!function)
    fail(name);
  return function;
}

static NOINLINE void *load_model(void)
{
  void *weights = NULL;
  if (cudaMalloc(&weights, WEIGHTS_BYTES) != cudaSuccess)
    fail("load_model");
  return weights;
}

/* As in a program with a static cuSOLVER. */
int cusolverDnCreate(void);

NOINLINE int cusolverDnCreate(void)
{
  static void *kept;
  volatile cudaError_t error = cudaMalloc(&kept, STATIC_BYTES);
  return error == cudaSuccess ? 0 : 1;
}

static void make_graph(void)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphNode_t alloc, node;
  struct cudaMemAllocNodeParams parameters = {
      .poolProps = {.allocType = cudaMemAllocationTypePinned,
          .location = {.type = cudaMemLocationTypeDevice}},
      .bytesize = GRAPH_BYTES,
  };
  if (cudaGraphCreate(&graph, 0) || cudaGraphAddMemAllocNode(&alloc, graph, NULL, 0, &parameters) ||
      cudaGraphAddMemFreeNode(&node, graph, &alloc, 1, parameters.dptr) ||
      cudaGraphInstantiateWithFlags(&exec, graph, 0) || cudaGraphLaunch(exec, NULL) ||
      cudaDeviceSynchronize())
    fail("make_graph");
}

static void *call_pointer(void *function)
{
  void *(*call)(void);
  memcpy(&call, &function, sizeof(call));
  void *volatile pointer = call();
  if (!pointer)
    fail("a call of the framework");
  return pointer;
}

static void call_library(void *function)
{
  int (*call)(void);
  memcpy(&call, &function, sizeof(call));
  if (call())
    fail("a call of a library");
}

int main(int argc, char **argv)
{
  void *(*get_tensor)(size_t);
  int (*reduce)(int (*)(void)), (*nccl)(void);
  void *host = NULL;

  if (argc != 6)
    return 2;
  void *symbol = find(argv[2], "tensor");
  memcpy(&get_tensor, &symbol, sizeof(get_tensor));
  symbol = find(argv[2], "all_reduce");
  memcpy(&reduce, &symbol, sizeof(reduce));
  symbol = find(argv[3], "ncclCommInitRank");
  memcpy(&nccl, &symbol, sizeof(nccl));

  void *weights = load_model();
  void *activations = get_tensor(TENSOR_BYTES);
  if (!activations || reduce(nccl) || cusolverDnCreate() || cudaMallocHost(&host, HOST_BYTES))
    fail("main");
  call_pointer(find(argv[2], "backward"));
  call_pointer(find(argv[2], "multiply"));
  call_library(find(argv[4], "cublasCreate_v2"));
  call_library(find(argv[5], "cudnnCreate"));
  make_graph();
  if (strcmp(argv[1], "asleep") == 0 && (cudaFree(weights) || cudaFree(activations)))
    fail("cudaFree");
  puts("done");
  return 0;
}
