/*
 * Memory of graphs beside memory of the same program that a pool may keep: captured or made by nodes, in a
 * child graph, brought by an upload, freed in the graph and outside it, and trimmed. Prints codes, what is in
 * the memory, and what the driver says that graphs hold; a pool changes none of it.
 *
 * graph_memory CASE; a case is a function below.
 */
#include "calls.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cuda.h>

#define BYTES (1u << 20)

static CUcontext context;
static CUstream stream;
static CUgraph graph;
static CUgraphExec exec;
static CUdeviceptr node_memory;
static unsigned char *host;

static void show_held(void)
{
  cuuint64_t used = 0, reserved = 0;
  SAY(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
  SAY(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
  printf("graphs use %llu and hold %llu\n", (unsigned long long)used, (unsigned long long)reserved);
}

static void show_host(void)
{
  unsigned differ = 0;
  for (unsigned i = 1; i < BYTES; i++)
    differ += host[i] != host[0];
  printf("host memory holds %d, %u bytes differ\n", host[0], differ);
}

/* Memory that a pool has when the graph comes. */
static void come_and_go(void)
{
  CUdeviceptr block = 0;
  for (int i = 0; i < 2; i++) {
    SAY(cuMemAllocAsync(&block, BYTES, stream));
    SAY(cuMemsetD8Async(block, 99, BYTES, stream));
    SAY(cuMemFreeAsync(block, stream));
  }
}

/* Allocates, fills and reads; frees: in the graph, too. */
static void capture(bool frees)
{
  SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  SAY(cuMemAllocAsync(&node_memory, BYTES, stream));
  SAY(cuMemsetD8Async(node_memory, 17, BYTES, stream));
  SAY(cuMemcpyDtoHAsync(host, node_memory, BYTES, stream));
  if (frees)
    SAY(cuMemFreeAsync(node_memory, stream));
  SAY(cuStreamEndCapture(stream, &graph));
}

static void launch(void)
{
  memset(host, 0, BYTES);
  SAY(cuGraphLaunch(exec, stream));
  come_and_go();
  SAY(cuStreamSynchronize(stream));
  show_host();
}

static void end(void)
{
  SAY(cuGraphExecDestroy(exec));
  SAY(cuGraphDestroy(graph));
  show_held();
  SAY(cuDeviceGraphMemTrim(0));
  show_held();
  come_and_go();
}

static void uploaded(void)
{
  capture(true);
  SAY(cuGraphInstantiate(&exec, graph, 0));
  show_held();
  SAY(cuGraphUpload(exec, stream));
  SAY(cuStreamSynchronize(stream));
  launch();
  launch();
  show_held();
  SAY(cuDeviceGraphMemTrim(0));
  show_held();
  launch();
  end();
}

/* Memory nodes are in a child graph only where that was moved there. */
static void moved(void)
{
#if CUDA_VERSION >= 13000
  CUgraph outer;
  CUgraphNode node;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
  capture(true);
  parameters.graph.graph = graph;
  parameters.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  SAY(cuGraphCreate(&outer, 0));
  SAY(cuGraphAddNode(&node, outer, NULL, NULL, 0, &parameters));
  graph = outer;
  SAY(cuGraphInstantiate(&exec, graph, 0));
  launch();
  launch();
  end();
#endif
}

static void child(void)
{
  CUgraph outer;
  CUgraphNode node;
  capture(true);
  SAY(cuGraphCreate(&outer, 0));
  SAY(cuGraphAddChildGraphNode(&node, outer, NULL, 0, graph));
  if (SAY(cuGraphInstantiate(&exec, outer, 0)) == CUDA_SUCCESS) {
    launch();
    launch();
    SAY(cuGraphExecDestroy(exec));
  }
  SAY(cuGraphDestroy(outer));
  SAY(cuGraphInstantiate(&exec, graph, 0));
  launch();
  end();
}

/* What the graph does not free the program frees, in a stream's order or not, before each next launch. */
static void freed_outside(void)
{
  capture(false);
  SAY(cuGraphInstantiate(&exec, graph, 0));
  launch();
  SAY(cuMemFreeAsync(node_memory, stream));
  launch();
  SAY(cuMemFree(node_memory));
  SAY(cuMemFree(node_memory));
  launch();
  SAY(cuMemFreeAsync(node_memory, stream));
  SAY(cuStreamSynchronize(stream));
  end();
}

/* Nor does another graph have it at its capture, though it may free it. */
static void freed_by_a_graph(void)
{
  CUdeviceptr pooled = 0;
  CUgraph freeing;
  capture(false);
  SAY(cuGraphInstantiate(&exec, graph, 0));
  launch();
  SAY(cuMemAllocAsync(&pooled, BYTES, stream));
  SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  SAY(cuMemFreeAsync(pooled, stream));
  SAY(cuMemFreeAsync(node_memory, stream));
  if (SAY(cuStreamEndCapture(stream, &freeing)) == CUDA_SUCCESS)
    SAY(cuGraphDestroy(freeing));
  SAY(cuMemFreeAsync(pooled, stream));
  SAY(cuMemFreeAsync(node_memory, stream));
  SAY(cuStreamSynchronize(stream));
  end();
}

/* A launch into a stream that is captured: the graph becomes part of the other one. */
static void launched_in_capture(void)
{
  CUgraph outer;
  CUgraphExec outer_exec;
  SAY(cuGraphCreate(&graph, 0));
  SAY(cuGraphInstantiate(&exec, graph, 0));
  SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  SAY(cuGraphLaunch(exec, stream));
  SAY(cuStreamEndCapture(stream, &outer));
  if (SAY(cuGraphInstantiate(&outer_exec, outer, 0)) == CUDA_SUCCESS) {
    SAY(cuGraphLaunch(outer_exec, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuGraphExecDestroy(outer_exec));
  }
  SAY(cuGraphDestroy(outer));
  end();
}

static const prog_case_t cases[] = {
    CASE(uploaded),
    CASE(child),
    CASE(moved),
    CASE(freed_outside),
    CASE(freed_by_a_graph),
    CASE(launched_in_capture),
};

int main(int argc, char **argv)
{
  const size_t chosen = CASE_OF(argv[1], cases);
  SAY(cuInit(0));
  SAY(cuDevicePrimaryCtxRetain(&context, 0));
  SAY(cuCtxSetCurrent(context));
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (SAY(cuMemHostAlloc((void **)&host, BYTES, 0)) != CUDA_SUCCESS)
    return 1;
  come_and_go();
  cases[chosen].run();
  SAY(cuCtxSynchronize());
  SAY(cuMemFreeHost(host));
  return 0;
}
