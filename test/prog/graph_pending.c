/*
 * Launches a graph that allocates and then works long on a block, when there is room for its memory only
 * after freed memory has been waited for; frees the block while the graph may be pending, and allocates as
 * much again. The block must not come back before the graph is done: exit status 1 if it did.
 */
#include "calls.h"

#include <cuda.h>
#include <stdio.h>

#define MIB   ((size_t)1 << 20)
#define WORKS 200

int main(void)
{
  CUcontext context;
  CUstream launching, other;
  CUdeviceptr block, again, large;
  CUgraph graph;
  CUgraphNode node, next;
  CUgraphExec exec;
  CUDA_MEM_ALLOC_NODE_PARAMS memory = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
      .bytesize = 200 * MIB};

  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  CALL(cuStreamCreate(&launching, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CALL(cuMemAlloc(&block, MIB));
  CALL(cuMemAlloc(&large, 300 * MIB));

  CALL(cuGraphCreate(&graph, 0));
  CALL(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &memory));
  CALL(cuGraphAddMemFreeNode(&next, graph, &node, 1, memory.dptr));
  for (int i = 0; i < WORKS; i++) {
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = block, .value = 7, .elementSize = 1, .width = MIB, .height = 1};
    node = next;
    CALL(cuGraphAddMemsetNode(&next, graph, &node, 1, &fill, context));
  }
  CALL(cuGraphInstantiate(&exec, graph, 0));

  CALL(cuMemsetD8Async(large, 1, 300 * MIB, other));
  CALL(cuMemFree(large));
  CALL(cuGraphLaunch(exec, launching));
  CALL(cuMemFree(block));
  CALL(cuMemAlloc(&again, MIB));
  int too_early = again == block && cuStreamQuery(launching) == CUDA_ERROR_NOT_READY;
  printf("graph_pending: %s\n", too_early ? "handed out while the graph was pending" : "in order");
  return too_early;
}
