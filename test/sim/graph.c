/*
 * Graphs and their nodes.
 */
#include "sim.h"

#include <stdlib.h>

static sim_tree_t graphs; /* by handle: one that was destroyed is not looked at */
static uint64_t last_number;

sim_graph_t *sim_graph_new(void)
{
  sim_graph_t *graph = calloc(1, sizeof *graph);
  if (!graph)
    abort();
  graph->node.key = (uintptr_t)graph;
  sim_tree_insert(&graphs, &graph->node);
  graph->number = ++last_number;
  return graph;
}

bool sim_graph_is_valid(const sim_graph_t *graph)
{
  return sim_tree_find(&graphs, (uintptr_t)graph, 0) != NULL;
}

void sim_graph_delete(sim_graph_t *graph)
{
  for (unsigned i = 0; i < graph->count; i++) {
    struct CUgraphNode_st *node = graph->nodes[i];
    if (node->op)
      sim_op_delete(node->op);
    if (node->block) {
      node->block->graph.owner = NULL;
      sim_graph_mem_unref(node->block);
      free((void *)(uintptr_t)node->alloc.accessDescs);
    }
    if (node->child)
      sim_graph_delete(node->child);
    free(node->deps);
    free(node);
  }
  if (graph->exec)
    sim_graph_exec_forget(graph->exec);
  free(graph->nodes);
  sim_tree_remove(&graphs, &graph->node);
  free(graph);
}

struct CUgraphNode_st *sim_graph_add(sim_graph_t *graph, CUgraphNodeType type, sim_op_t *op,
    struct CUgraphNode_st *const *deps, unsigned dep_count)
{
  struct CUgraphNode_st *node = calloc(1, sizeof *node);
  if (graph->count == graph->room) {
    graph->room = graph->room ? 2 * graph->room : 16;
    graph->nodes = realloc(graph->nodes, graph->room * sizeof *graph->nodes);
  }
  if (!node || !graph->nodes)
    abort();
  node->type = type;
  node->op = op;
  node->graph = graph;
  if (dep_count) {
    node->deps = malloc(dep_count * sizeof *node->deps);
    if (!node->deps)
      abort();
    for (unsigned i = 0; i < dep_count; i++)
      node->deps[i] = deps[i];
    node->dep_count = dep_count;
  }
  graph->nodes[graph->count++] = node;
  return node;
}

bool sim_graph_has_memory(const sim_graph_t *graph)
{
  for (unsigned i = 0; i < graph->count; i++) {
    const struct CUgraphNode_st *node = graph->nodes[i];
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
        (node->child && sim_graph_has_memory(node->child)))
      return true;
  }
  return false;
}

static CUresult create(CUgraph *ret, unsigned flags)
{
  if (!ret || flags)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = sim_graph_new();
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphCreate, (CUgraph * ret, unsigned int flags), create(ret, flags), "%u", flags)

static CUresult destroy(CUgraph graph)
{
  if (!sim_graph_is_valid(graph) || graph->embedded)
    return CUDA_ERROR_INVALID_VALUE;
  sim_graph_delete(graph);
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphDestroy, (CUgraph graph), destroy(graph), " ")

static CUresult add_empty(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t count,
    sim_op_t *op, CUgraphNodeType type)
{
  if (!ret || !sim_graph_is_valid(graph) || (count && !deps)) {
    if (op)
      sim_op_delete(op);
    return CUDA_ERROR_INVALID_VALUE;
  }
  *ret = sim_graph_add(graph, type, op, deps, (unsigned)count);
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphAddEmptyNode, (CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t count),
    add_empty(ret, graph, deps, count, NULL, CU_GRAPH_NODE_TYPE_EMPTY), "%zu", count)

static sim_op_t *host_op(const CUDA_HOST_NODE_PARAMS *params)
{
  sim_op_t *op = sim_op_new(SIM_OP_HOST);
  op->fn = (void *)params->fn;
  op->user = params->userData;
  return op;
}

SIM_FN(cuGraphAddHostNode,
    (CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t count,
        const CUDA_HOST_NODE_PARAMS *params),
    params && params->fn ? add_empty(ret, graph, deps, count, host_op(params), CU_GRAPH_NODE_TYPE_HOST)
                         : CUDA_ERROR_INVALID_VALUE,
    "%zu", count)

static sim_op_t *memset_op(const CUDA_MEMSET_NODE_PARAMS *params)
{
  sim_op_t *op = sim_op_new(SIM_OP_FILL);
  op->dst = (sim_span_t){.address = params->dst, .pitch = params->pitch};
  op->unit = params->elementSize;
  op->value = params->value;
  op->width = params->width * params->elementSize;
  op->height = params->height;
  op->depth = 1;
  return op;
}

SIM_FN(cuGraphAddMemsetNode,
    (CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t count,
        const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx),
    params && (params->elementSize == 1 || params->elementSize == 2 || params->elementSize == 4)
        ? add_empty(ret, graph, deps, count, memset_op(params), CU_GRAPH_NODE_TYPE_MEMSET)
        : CUDA_ERROR_INVALID_VALUE,
    "%zu", count)

static CUresult get_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots)
{
  if (!sim_graph_is_valid(graph) || !count)
    return CUDA_ERROR_INVALID_VALUE;
  size_t n = 0;
  for (unsigned i = 0; i < graph->count; i++) {
    if (roots && graph->nodes[i]->dep_count)
      continue;
    if (nodes && n < *count)
      nodes[n] = graph->nodes[i];
    n++;
  }
  if (!nodes) {
    *count = n;
  } else {
    for (size_t i = n; i < *count; i++)
      nodes[i] = NULL;
    if (n < *count)
      *count = n;
  }
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count),
    get_nodes(graph, nodes, count, false), " ")
SIM_FN(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count),
    get_nodes(graph, nodes, count, true), " ")

static CUresult get_type(CUgraphNode node, CUgraphNodeType *ret)
{
  if (!node || !ret)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = node->type;
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType *ret), get_type(node, ret), " ")
