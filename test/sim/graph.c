/*
 * Graphs: lists of operations that a launch submits again, in an order that respects the dependencies.
 */
#include "sim.h"

#include <stdlib.h>

#define MAGIC 0x67726170u

struct CUgraphExec_st {
  uint32_t magic;
  sim_op_t **ops;
  unsigned count;
  sim_block_t **blocks; /* memory of its allocation nodes, which outlives the graph it was made from */
  unsigned block_count;
};

static uint64_t last_number;

sim_graph_t *sim_graph_new(void)
{
  sim_graph_t *graph = calloc(1, sizeof *graph);
  if (!graph)
    abort();
  graph->magic = MAGIC;
  graph->number = ++last_number;
  return graph;
}

static bool is_graph(const sim_graph_t *graph)
{
  return graph && graph->magic == MAGIC;
}

static void unref(sim_block_t *block)
{
  if (--block->graph_refs == 0)
    sim_block_delete(block);
}

void sim_graph_delete(sim_graph_t *graph)
{
  for (unsigned i = 0; i < graph->count; i++) {
    struct CUgraphNode_st *node = graph->nodes[i];
    if (node->op)
      sim_op_delete(node->op);
    if (node->block)
      unref(node->block);
    free(node->deps);
    free(node);
  }
  free(graph->nodes);
  graph->magic = 0;
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
  if (!is_graph(graph))
    return CUDA_ERROR_INVALID_VALUE;
  sim_graph_delete(graph);
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphDestroy, (CUgraph graph), destroy(graph), " ")

static CUresult add_empty(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t count,
    sim_op_t *op, CUgraphNodeType type)
{
  if (!ret || !is_graph(graph) || (count && !deps)) {
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
  if (!is_graph(graph) || !count)
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

static CUresult instantiate(CUgraphExec *ret, const sim_graph_t *graph)
{
  if (!ret || !is_graph(graph))
    return CUDA_ERROR_INVALID_VALUE;
  struct CUgraphExec_st *exec = calloc(1, sizeof *exec);
  if (exec) {
    exec->ops = calloc(graph->count + 1, sizeof(*exec->ops));
    exec->blocks = calloc(graph->count + 1, sizeof(*exec->blocks));
  }
  if (!exec || !exec->ops || !exec->blocks)
    abort();
  exec->magic = MAGIC + 1;
  for (unsigned i = 0; i < graph->count; i++) {
    if (graph->nodes[i]->op)
      exec->ops[exec->count++] = sim_op_clone(graph->nodes[i]->op);
    if (graph->nodes[i]->block) {
      exec->blocks[exec->block_count++] = graph->nodes[i]->block;
      graph->nodes[i]->block->graph_refs++;
    }
  }
  *ret = exec;
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphInstantiate, (CUgraphExec * ret, CUgraph graph, CUgraphNode *error, char *log, size_t bytes),
    instantiate(ret, graph), " ")
SIM_FN(cuGraphInstantiate_v2, (CUgraphExec * ret, CUgraph graph, CUgraphNode *error, char *log, size_t bytes),
    instantiate(ret, graph), " ")
SIM_FN(cuGraphInstantiateWithFlags, (CUgraphExec * ret, CUgraph graph, unsigned long long flags),
    instantiate(ret, graph), "%llu", flags)

static CUresult instantiate_params(CUgraphExec *ret, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
  CUresult result = params ? instantiate(ret, graph) : CUDA_ERROR_INVALID_VALUE;
  if (params) {
    params->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    params->hErrNode_out = NULL;
  }
  return result;
}

SIM_FN2(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz,
    (CUgraphExec * ret, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
    instantiate_params(ret, graph, params), " ")

static bool is_exec(CUgraphExec exec)
{
  return exec && exec->magic == MAGIC + 1;
}

static CUresult exec_destroy(CUgraphExec exec)
{
  if (!is_exec(exec))
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < exec->count; i++)
    sim_op_delete(exec->ops[i]);
  for (unsigned i = 0; i < exec->block_count; i++)
    unref(exec->blocks[i]);
  exec->magic = 0;
  free(exec->blocks);
  free(exec->ops);
  free(exec);
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphExecDestroy, (CUgraphExec exec), exec_destroy(exec), " ")

static CUresult launch(sim_call_t *call, CUgraphExec exec, CUstream handle)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  if (!is_exec(exec))
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < exec->count; i++) {
    sim_op_t *op = sim_op_clone(exec->ops[i]);
    CUresult result;
    if (sim_capture_take(stream, op, &result)) {
      if (result != CUDA_SUCCESS)
        return result;
      continue;
    }
    result = sim_op_prepare(op);
    if (result != CUDA_SUCCESS) {
      sim_op_delete(op);
      sim_violation("a graph was launched whose memory is not allocated");
      continue;
    }
    sim_sched_submit(stream, op);
  }
  return CUDA_SUCCESS;
}

SIM_FN2(cuGraphLaunch, cuGraphLaunch_ptsz, (CUgraphExec exec, CUstream stream), launch(&call, exec, stream),
    "%s", sim_str_stream(stream))
SIM_FN2(cuGraphUpload, cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream),
    is_exec(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, "%s", sim_str_stream(stream))
