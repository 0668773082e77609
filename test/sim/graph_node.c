/*
 * Memory nodes, child graphs, and cuGraphAddNode for them.
 */
#include "sim.h"

static bool is_usable(const CUgraphNode *ret, const sim_graph_t *graph, const CUgraphNode *deps, size_t count)
{
  return ret && sim_graph_is_valid(graph) && (count == 0 || deps);
}

/* ---- memory ---- */

static CUresult check(const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
  if (!params || params->bytesize == 0 || params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      params->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      params->accessDescCount > (size_t)sim_knobs.devices ||
      (params->accessDescCount && !params->accessDescs))
    return CUDA_ERROR_INVALID_VALUE;
  if (params->poolProps.location.type == CU_MEM_LOCATION_TYPE_HOST ||
      params->poolProps.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
    return CUDA_ERROR_NOT_SUPPORTED;
  return params->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                 sim_device_get(params->poolProps.location.id)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

static CUresult add_alloc(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t count,
    CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
  if (!is_usable(ret, graph, deps, count) || graph->embedded)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check(params);
  if (result != CUDA_SUCCESS)
    return result;
  sim_device_t *device = sim_device_get(params->poolProps.location.id);
  sim_block_t *block = sim_graph_mem_new(device, params->bytesize, &result);
  if (!block)
    return result;
  *ret = sim_graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, NULL, deps, (unsigned)count);
  sim_graph_mem_set_alloc(*ret, block, params);
  params->dptr = block->node.key;
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphAddMemAllocNode,
    (CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t count,
        CUDA_MEM_ALLOC_NODE_PARAMS *params),
    add_alloc(ret, graph, deps, count, params), "%zu %zu -> %llx", count, params ? params->bytesize : 0,
    params ? sim_str_out(&params->dptr, call.result) : 0)

static CUresult add_free(
    CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t count, CUdeviceptr address)
{
  CUresult result =
      is_usable(ret, graph, deps, count) ? sim_graph_mem_may_free(graph, address) : CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS)
    return result;
  *ret = sim_graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, NULL, deps, (unsigned)count);
  sim_graph_mem_set_free(*ret, address);
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphAddMemFreeNode,
    (CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t count, CUdeviceptr address),
    add_free(ret, graph, deps, count, address), "%zu %s", count, sim_str_ptr(address))

static CUresult alloc_params(const struct CUgraphNode_st *node, CUDA_MEM_ALLOC_NODE_PARAMS *ret)
{
  if (!node || !ret || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = node->alloc;
  return CUDA_SUCCESS;
}

static CUresult free_params(const struct CUgraphNode_st *node, CUdeviceptr *ret)
{
  if (!node || !ret || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = node->freed;
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphMemAllocNodeGetParams, (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *ret),
    alloc_params(node, ret), " ")
SIM_FN(cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr *ret), free_params(node, ret), " ")

/* ---- child graphs ---- */

static struct CUgraphNode_st *twin_of(
    const struct CUgraphNode_st *node, const sim_graph_t *from, const sim_graph_t *to)
{
  unsigned i = 0;
  while (from->nodes[i] != node)
    i++;
  return to->nodes[i];
}

/* Of a graph without memory nodes. Dependencies precede their dependents. */
static sim_graph_t *copy_of(const sim_graph_t *graph)
{
  sim_graph_t *copy = sim_graph_new();
  for (unsigned i = 0; i < graph->count; i++) {
    const struct CUgraphNode_st *node = graph->nodes[i];
    struct CUgraphNode_st *twin = sim_graph_add(
        copy, node->type, node->op ? sim_op_clone(node->op) : NULL, node->deps, node->dep_count);
    for (unsigned j = 0; j < node->dep_count; j++)
      twin->deps[j] = twin_of(node->deps[j], graph, copy);
    if (node->child) {
      twin->child = copy_of(node->child);
      twin->child->embedded = true;
    }
  }
  return copy;
}

static CUresult add_child(
    CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraph child, bool move)
{
  if (!is_usable(ret, graph, deps, count) || !sim_graph_is_valid(child) || child == graph)
    return CUDA_ERROR_INVALID_VALUE;
  if (move ? child->embedded || child->exec != NULL : sim_graph_has_memory(child))
    return CUDA_ERROR_INVALID_VALUE;
  *ret = sim_graph_add(graph, CU_GRAPH_NODE_TYPE_GRAPH, NULL, deps, (unsigned)count);
  (*ret)->child = move ? child : copy_of(child);
  (*ret)->child->embedded = true;
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphAddChildGraphNode,
    (CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraph child),
    add_child(ret, graph, deps, count, child, false), "%zu", count)

static CUresult get_child(const struct CUgraphNode_st *node, CUgraph *ret)
{
  if (!node || !ret || !node->child)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = node->child;
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph *ret), get_child(node, ret), " ")

/* ---- any of them ---- */

static CUresult add_node(
    CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraphNodeParams *params)
{
  if (!params || !is_usable(ret, graph, deps, count))
    return CUDA_ERROR_INVALID_VALUE;
  switch ((int)params->type) {
  case CU_GRAPH_NODE_TYPE_EMPTY:
    *ret = sim_graph_add(graph, CU_GRAPH_NODE_TYPE_EMPTY, NULL, deps, (unsigned)count);
    return CUDA_SUCCESS;
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC: /* both versions of the parameters have one layout */
    return add_alloc(ret, graph, deps, count, (CUDA_MEM_ALLOC_NODE_PARAMS *)&params->alloc);
  case CU_GRAPH_NODE_TYPE_MEM_FREE: return add_free(ret, graph, deps, count, params->free.dptr);
  case CU_GRAPH_NODE_TYPE_GRAPH:
#if CUDA_VERSION >= 13000
    return add_child(ret, graph, deps, count, params->graph.graph,
        params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);
#else
    return add_child(ret, graph, deps, count, params->graph.graph, false);
#endif
  default: return CUDA_ERROR_NOT_SUPPORTED;
  }
}

SIM_FN(cuGraphAddNode,
    (CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraphNodeParams *params),
    add_node(ret, graph, deps, count, params), "%d %zu", params ? (int)params->type : -1, count)
SIM_FN(cuGraphAddNode_v2,
    (CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count,
        CUgraphNodeParams *params),
    add_node(ret, graph, deps, count, params), "%d %zu", params ? (int)params->type : -1, count)
