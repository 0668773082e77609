/*
 * Memory of graphs. An allocation node gets its address when the node is created. A launch or an upload of
 * the executable graph allocates memory at the address, which remains with the graph (CUDA C++ Programming
 * Guide, Graph Memory Nodes). So the first launch or upload counts the memory against the limit, until the
 * executable graph is destroyed. If graphs share memory, the library counts more than they use.
 *
 * Instantiating a graph also allocates memory for the driver's own use: if the driver is out of memory, the
 * hook makes room and tries again.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "interpose/hooks/hooks.h"
#include "interpose/library.h"
#include "interpose/hooks/forward.h"
#include "interpose/routes/real.h"
#include "pool/async/pools_use.h"
#include "pool/space/address_map.h"
#include "base/assert.h"

/* Maps executable graphs that have allocation nodes and were not launched yet to the memory that they need.
 * The map owns the records. Most programs have no such graphs, and pay one load at each launch. */
typedef struct need {
  uint64_t bytes;   /* requested bytes */
  uint64_t counted; /* sum of the bytes that each allocation counts against the limit */
  int device;       /* device of the first allocation node; nodes on all devices count for this device */
} need_t;

static gp_address_map_t needs = GP_ADDRESS_MAP_INIT;
static atomic_size_t need_count;

#define MAX_DEPTH 16 /* maximum depth of nested graphs */

/* Adds all allocation nodes of a graph and of its child graphs to *need. Nodes that the driver does not
 * describe are not counted. */
static void add_graph(CUgraph graph, int depth, need_t *need)
{
  size_t count = 0;

  if (!GP_REAL(cuGraphMemAllocNodeGetParams) || depth > MAX_DEPTH ||
      GP_REAL_CALL(cuGraphGetNodes, graph, NULL, &count) != CUDA_SUCCESS || count == 0)
    return;
  CUgraphNode *nodes = malloc(count * sizeof(CUgraphNode));
  if (!nodes || GP_REAL_CALL(cuGraphGetNodes, graph, nodes, &count) != CUDA_SUCCESS)
    count = 0;
  for (size_t i = 0; i < count; i++) {
    CUgraphNodeType type;
    CUgraph child;
    CUDA_MEM_ALLOC_NODE_PARAMS parameters;
    if (GP_REAL_CALL(cuGraphNodeGetType, nodes[i], &type) != CUDA_SUCCESS)
      continue;
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
        GP_REAL(cuGraphMemAllocNodeGetParams)(nodes[i], &parameters) == CUDA_SUCCESS) {
      need->bytes += parameters.bytesize;
      need->counted += gp_pools_taken(parameters.bytesize);
      if (need->device == GP_CURRENT_DEVICE &&
          parameters.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        need->device = parameters.poolProps.location.id;
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
               GP_REAL_CALL(cuGraphChildGraphNodeGetGraph, nodes[i], &child) == CUDA_SUCCESS) {
      add_graph(child, depth + 1, need);
    }
  }
  free(nodes);
}

/* Records the memory that an executable graph needs. If there is no host memory for the record, the graph is
 * not counted. */
static void file_need(CUgraphExec exec, need_t *need)
{
  if (gp_address_map_insert(&needs, (uint64_t)(uintptr_t)exec, need))
    atomic_fetch_add(&need_count, 1);
  else
    free(need);
}

static void note_instantiated(CUgraphExec exec, CUgraph graph)
{
  need_t all = {.device = GP_CURRENT_DEVICE};

  add_graph(graph, 0, &all);
  need_t *need = all.bytes > 0 ? malloc(sizeof(*need)) : NULL;
  if (!need)
    return;
  *need = all;
  file_need(exec, need);
}

/* Removes and returns the record of an executable graph, or returns NULL. Not inline, because the caller may
 * jump back to a point before this call, and an inlined variable would not survive the jump. */
static __attribute__((noinline)) need_t *take_need(CUgraphExec exec)
{
  if (atomic_load_explicit(&need_count, memory_order_relaxed) == 0 || !exec)
    return NULL;
  need_t *need = gp_address_map_remove(&needs, (uint64_t)(uintptr_t)exec);
  if (need)
    atomic_fetch_sub(&need_count, 1);
  return need;
}

static CUresult instantiated(CUresult result, const CUgraphExec *exec, CUgraph graph)
{
  if (result == CUDA_SUCCESS && gp_library_engine())
    note_instantiated(*exec, graph);
  return result;
}

CUresult CUDAAPI hook_cuGraphInstantiate(
    CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes)
{
  CUresult result;
  GP_FORWARD_HIDDEN(result, GP_REAL_CALL(cuGraphInstantiate, exec, graph, error_node, log, log_bytes));
  return instantiated(result, exec, graph);
}

CUresult CUDAAPI hook_cuGraphInstantiate_v2(
    CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes)
{
  CUresult result;
  GP_FORWARD_HIDDEN(result, GP_REAL_CALL(cuGraphInstantiate_v2, exec, graph, error_node, log, log_bytes));
  return instantiated(result, exec, graph);
}

CUresult CUDAAPI hook_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
  CUresult result;
  GP_FORWARD_HIDDEN(result, GP_REAL_CALL(cuGraphInstantiateWithFlags, exec, graph, flags));
  return instantiated(result, exec, graph);
}

CUresult CUDAAPI hook_cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *parameters)
{
  CUresult result;
  GP_FORWARD_HIDDEN(result, GP_REAL_CALL(cuGraphInstantiateWithParams, exec, graph, parameters));
  return instantiated(result, exec, graph);
}

CUresult CUDAAPI hook_cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, void *parameters)
{
  CUresult result;
  GP_FORWARD_HIDDEN(result, GP_REAL_CALL(cuGraphInstantiateWithParams_ptsz, exec, graph, parameters));
  return instantiated(result, exec, graph);
}

/* Calls one of the four functions that launch or upload a graph, which have the same type. */
static CUresult note_and_launch(gp_function_t symbol, CUgraphExec exec, CUstream stream, bool per_thread)
{
  (void)gp_library_engine(); /* binds the driver */
  gp_fn_cuGraphLaunch function = (gp_fn_cuGraphLaunch)gp_real_get(symbol);
  return function ? function(exec, stream) : CUDA_ERROR_NOT_FOUND;
}

/* Launches or uploads an executable graph: the first such call allocates memory for its allocation nodes. */
static CUresult launch(gp_function_t symbol, CUgraphExec exec, CUstream stream, bool per_thread)
{
  need_t *need = take_need(exec);
  CUresult result;

  if (!need)
    return note_and_launch(symbol, exec, stream, per_thread);
  gp_assert(need->bytes > 0);
  gp_forward_call_t call = {
      .bytes = need->bytes, .counted = need->counted, .kind = GP_FORWARDED_GRAPH, .device = need->device};
  GP_FORWARD_ALLOC(result, &call, &exec, note_and_launch(symbol, exec, stream, per_thread));
  if (call.is_counted)
    free(need);
  else
    file_need(exec, need); /* the graph may be launched again */
  return result;
}

CUresult CUDAAPI hook_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
  return launch(GP_FN_cuGraphLaunch, exec, stream, false);
}

CUresult CUDAAPI hook_cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
  return launch(GP_FN_cuGraphLaunch_ptsz, exec, stream, true);
}

CUresult CUDAAPI hook_cuGraphUpload(CUgraphExec exec, CUstream stream)
{
  return launch(GP_FN_cuGraphUpload, exec, stream, false);
}

CUresult CUDAAPI hook_cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
  return launch(GP_FN_cuGraphUpload_ptsz, exec, stream, true);
}

CUresult CUDAAPI hook_cuGraphExecDestroy(CUgraphExec exec)
{
  need_t *need = take_need(exec);
  CUresult result;

  GP_FORWARD_FREE(result, gp_library_engine(), GP_SPACE_GRAPH, (uint64_t)(uintptr_t)exec,
      GP_REAL_CALL(cuGraphExecDestroy, exec));
  if (need && result != CUDA_SUCCESS)
    file_need(exec, need);
  else
    free(need);
  return result;
}
