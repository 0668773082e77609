/*
 * Nodes of graphs that do work on memory: kernels and copies.
 */
#include "sim.h"

static CUresult add(CUgraphNode *ret, CUgraph graph, CUgraphNodeType type, const CUgraphNode *deps,
    size_t count, sim_op_t *op)
{
  if (ret && op && sim_graph_is_valid(graph) && (count == 0 || deps)) {
    *ret = sim_graph_add(graph, type, op, deps, (unsigned)count);
    return CUDA_SUCCESS;
  }
  if (op)
    sim_op_delete(op);
  return CUDA_ERROR_INVALID_VALUE;
}

static CUresult add_kernel(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t count,
    const sim_func_t *function, void **params, void **extra)
{
  if (params && extra) /* one of the two (cuda.h, cuLaunchKernel) */
    return CUDA_ERROR_INVALID_VALUE;
  return add(ret, graph, CU_GRAPH_NODE_TYPE_KERNEL, deps, count, sim_kernel_op(function, params, extra));
}

/* "The kernel [...] can either be a CUfunction or a CUkernel" (cuda.h), which are the same here. */
static const sim_func_t *function_of(const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
  return params->func ? params->func : (const sim_func_t *)params->kern;
}

SIM_FN(cuGraphAddKernelNode,
    (CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t count,
        const CUDA_KERNEL_NODE_PARAMS_v1 *params),
    params ? add_kernel(ret, graph, deps, count, params->func, params->kernelParams, params->extra)
           : CUDA_ERROR_INVALID_VALUE,
    "%zu", count)
SIM_FN(cuGraphAddKernelNode_v2,
    (CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t count,
        const CUDA_KERNEL_NODE_PARAMS_v2 *params),
    params ? add_kernel(ret, graph, deps, count, function_of(params), params->kernelParams, params->extra)
           : CUDA_ERROR_INVALID_VALUE,
    "%zu", count)

static CUresult add_copy(
    CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_MEMCPY3D *plan)
{
  sim_op_t *op;
  CUresult result = sim_copy_plan(plan, &op);
  return result == CUDA_SUCCESS ? add(ret, graph, CU_GRAPH_NODE_TYPE_MEMCPY, deps, count, op) : result;
}

SIM_FN(cuGraphAddMemcpyNode,
    (CUgraphNode * ret, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_MEMCPY3D *plan,
        CUcontext ctx),
    add_copy(ret, graph, deps, count, plan), "%zu %s", count, sim_str_ctx(ctx))
