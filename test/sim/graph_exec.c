/*
 * Executable graphs: lists of steps that a launch submits again, in an order that respects the dependencies.
 */
#include "sim.h"

#include <stdlib.h>

typedef struct {
  sim_op_t *op;
  sim_block_t *alloc; /* begins to be allocated */
  CUdeviceptr freed;  /* ends to be, unless 0 */
} step_t;

struct CUgraphExec_st {
  sim_node_t node;    /* key: the handle */
  sim_graph_t *graph; /* of graphs with memory nodes, while it exists */
  bool auto_free;
  step_t *steps;
  unsigned count;
  sim_block_t **blocks; /* of its allocation nodes, which outlive the graph they were made in */
  unsigned block_count;
  sim_dep_t last; /* launch */
  sim_clock_t *last_clock;
};

static sim_tree_t execs; /* by handle: one that was destroyed is not looked at */

static unsigned count_nodes(const sim_graph_t *graph)
{
  unsigned n = graph->count;
  for (unsigned i = 0; i < graph->count; i++) {
    if (graph->nodes[i]->child)
      n += count_nodes(graph->nodes[i]->child);
  }
  return n;
}

/* Child graphs are laid out where their node is. */
static void add_steps(struct CUgraphExec_st *exec, const sim_graph_t *graph)
{
  for (unsigned i = 0; i < graph->count; i++) {
    const struct CUgraphNode_st *node = graph->nodes[i];
    if (node->child)
      add_steps(exec, node->child);
    if (!node->op && !node->block && !node->freed)
      continue;
    step_t *step = &exec->steps[exec->count++];
    step->op = node->op ? sim_op_clone(node->op) : NULL;
    step->alloc = node->block;
    step->freed = node->freed;
    if (node->block) {
      exec->blocks[exec->block_count++] = node->block;
      node->block->graph.refs++;
    }
  }
}

static CUresult instantiate(CUgraphExec *ret, sim_graph_t *graph, unsigned long long flags)
{
  if (!ret || !sim_graph_is_valid(graph) || graph->embedded)
    return CUDA_ERROR_INVALID_VALUE;
  bool has_memory = sim_graph_has_memory(graph);
  if (has_memory && graph->exec) /* "there can be at most one executable graph in existence" (cuda.h) */
    return CUDA_ERROR_INVALID_VALUE;
  struct CUgraphExec_st *exec = calloc(1, sizeof *exec);
  unsigned room = count_nodes(graph) + 1;
  if (exec) {
    exec->steps = calloc(room, sizeof(*exec->steps));
    exec->blocks = calloc(room, sizeof(*exec->blocks));
  }
  if (!exec || !exec->steps || !exec->blocks)
    abort();
  exec->node.key = (uintptr_t)exec;
  sim_tree_insert(&execs, &exec->node);
  exec->auto_free = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  add_steps(exec, graph);
  if (has_memory) {
    exec->graph = graph;
    graph->exec = exec;
  }
  *ret = exec;
  return CUDA_SUCCESS;
}

void sim_graph_exec_forget(struct CUgraphExec_st *exec)
{
  exec->graph = NULL;
}

SIM_FN(cuGraphInstantiate, (CUgraphExec * ret, CUgraph graph, CUgraphNode *error, char *log, size_t bytes),
    instantiate(ret, graph, 0), " ")
SIM_FN(cuGraphInstantiate_v2, (CUgraphExec * ret, CUgraph graph, CUgraphNode *error, char *log, size_t bytes),
    instantiate(ret, graph, 0), " ")
SIM_FN(cuGraphInstantiateWithFlags, (CUgraphExec * ret, CUgraph graph, unsigned long long flags),
    flags &CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD ? CUDA_ERROR_INVALID_VALUE : instantiate(ret, graph, flags),
    "%llu", flags)

static bool is_exec(const struct CUgraphExec_st *exec)
{
  return sim_tree_find(&execs, (uintptr_t)exec, 0) != NULL;
}

static void delete_steps(struct CUgraphExec_st *exec)
{
  for (unsigned i = 0; i < exec->count; i++) {
    if (exec->steps[i].op)
      sim_op_delete(exec->steps[i].op);
  }
  free(exec->steps);
}

static CUresult exec_destroy(CUgraphExec exec)
{
  if (!is_exec(exec))
    return CUDA_ERROR_INVALID_VALUE;
  delete_steps(exec);
  for (unsigned i = 0; i < exec->block_count; i++)
    sim_graph_mem_unref(exec->blocks[i]);
  if (exec->graph)
    exec->graph->exec = NULL;
  sim_tree_remove(&execs, &exec->node);
  free(exec->blocks);
  free(exec->last_clock);
  free(exec);
  return CUDA_SUCCESS;
}

SIM_FN(cuGraphExecDestroy, (CUgraphExec exec), exec_destroy(exec), " ")

static CUgraphExecUpdateResult compare(const struct CUgraphExec_st *exec, const struct CUgraphExec_st *next)
{
  if (next->count != exec->count)
    return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (unsigned i = 0; i < exec->count; i++) {
    const sim_op_t *op = exec->steps[i].op, *other = next->steps[i].op;
    if (op->kind != other->kind || op->is_kernel != other->is_kernel)
      return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* Launches in flight have operations of their own. Graphs with memory nodes are not updated. */
static CUresult update(CUgraphExec exec, sim_graph_t *graph, CUgraphExecUpdateResultInfo *ret)
{
  if (!ret || !is_exec(exec) || !sim_graph_is_valid(graph))
    return CUDA_ERROR_INVALID_VALUE;
  *ret = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED};
  if (exec->block_count || sim_graph_has_memory(graph))
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  struct CUgraphExec_st next = {.steps = calloc(count_nodes(graph) + 1, sizeof *next.steps)};
  if (!next.steps)
    abort();
  add_steps(&next, graph);
  ret->result = compare(exec, &next);
  if (ret->result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
    step_t *old = exec->steps;
    exec->steps = next.steps;
    next.steps = old;
  }
  delete_steps(&next);
  return ret->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

SIM_FN(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *ret),
    update(exec, graph, ret), " ")

static CUresult upload(sim_call_t *call, CUgraphExec exec, CUstream handle)
{
  if (!sim_stream_get(call, handle))
    return call->result;
  return is_exec(exec) ? sim_graph_mem_back(exec->blocks, exec->block_count) : CUDA_ERROR_INVALID_VALUE;
}

SIM_FN2(cuGraphUpload, cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream), upload(&call, exec, stream),
    "%s", sim_str_stream(stream))

static CUresult instantiate_params(
    sim_call_t *call, CUgraphExec *ret, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
  CUresult result = params ? instantiate(ret, graph, params->flags) : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)) {
    call->ctx = sim_ctx_current();
    result = call->ctx ? upload(call, *ret, params->hUploadStream) : CUDA_ERROR_INVALID_CONTEXT;
    if (result != CUDA_SUCCESS)
      (void)exec_destroy(*ret); /* a valid one */
  }
  if (params) {
    params->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    params->hErrNode_out = NULL;
  }
  return result;
}

SIM_FN2(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz,
    (CUgraphExec * ret, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
    instantiate_params(&call, ret, graph, params), " ")

/* ---- launches ---- */

static bool is_own(const struct CUgraphExec_st *exec, CUdeviceptr address)
{
  for (unsigned i = 0; i < exec->block_count; i++) {
    if (exec->blocks[i]->node.key == address)
      return true;
  }
  return false;
}

static sim_block_t *allocated(CUdeviceptr address)
{
  sim_block_t *block = sim_arena_find(address);
  bool usable = block && block->kind == SIM_MEM_GRAPH && block->node.key == address && !block->free_called;
  return usable ? block : NULL;
}

/* "If any allocations created by hGraphExec remain unfreed" (cuda.h, cuGraphLaunch); what it frees of another
 * graph has to be allocated. */
static CUresult check_memory(const struct CUgraphExec_st *exec)
{
  for (unsigned i = 0; i < exec->block_count; i++) {
    if (!exec->blocks[i]->free_called && !exec->auto_free)
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned i = 0; i < exec->count; i++) {
    CUdeviceptr freed = exec->steps[i].freed;
    if (freed && !is_own(exec, freed) && !allocated(freed))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return sim_graph_mem_back(exec->blocks, exec->block_count);
}

/* The first operation waits for all that is in front of the graph, also where it was captured as a launch
 * that does not. */
static void submit(struct CUgraphExec_st *exec, sim_stream_t *stream, const sim_op_t *step, bool is_first)
{
  sim_op_t *op = sim_op_clone(step);
  op->programmatic &= !is_first;
  op->ctx = op->is_kernel ? stream->ctx : NULL;
  if (sim_op_prepare(op) != CUDA_SUCCESS) {
    sim_op_delete(op);
    sim_violation("a graph was launched whose memory is not allocated, or not accessible");
    return;
  }
  if (exec->last.stream) /* "ordered behind [...] any previous launches" (cuda.h) */
    sim_op_depend(op, exec->last);
  sim_sched_submit(stream, op);
}

/* A launch into a capture adds its operations to that graph. */
static CUresult capture_launch(const struct CUgraphExec_st *exec, sim_stream_t *stream)
{
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < exec->count; i++) {
    if (!exec->steps[i].op)
      return CUDA_ERROR_NOT_SUPPORTED; /* memory nodes cannot be copied */
  }
  for (unsigned i = 0; i < exec->count && result == CUDA_SUCCESS; i++)
    (void)sim_capture_take(stream, sim_op_clone(exec->steps[i].op), &result);
  return result;
}

static CUresult launch(sim_call_t *call, CUgraphExec exec, CUstream handle)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  if (!is_exec(exec))
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture)
    return capture_launch(exec, stream);
  CUresult result = sim_capture_legacy(stream);
  if (result == CUDA_SUCCESS)
    result = check_memory(exec);
  if (result != CUDA_SUCCESS)
    return result;
  sim_oracle_wait(stream, exec->last_clock);
  bool is_first = true;
  for (unsigned i = 0; i < exec->count; i++) {
    const step_t *step = &exec->steps[i];
    if (step->alloc)
      step->alloc->free_called = false;
    if (step->op) {
      submit(exec, stream, step->op, is_first);
      is_first = false;
    }
    sim_block_t *freed = step->freed ? allocated(step->freed) : NULL;
    if (freed) {
      freed->free_called = true;
      freed->free_at = sim_dep_now(stream);
    }
  }
  exec->last = sim_dep_now(stream);
  free(exec->last_clock);
  exec->last_clock = sim_oracle_stream_clock(stream);
  for (unsigned i = 0; i < exec->block_count; i++)
    exec->blocks[i]->free_at = exec->last;
  return CUDA_SUCCESS;
}

SIM_FN2(cuGraphLaunch, cuGraphLaunch_ptsz, (CUgraphExec exec, CUstream stream), launch(&call, exec, stream),
    "%s", sim_str_stream(stream))
