/*
 * Memory of graphs. An allocation node has its address range from the start; physical memory is charged to
 * the device when an executable graph with the node is first launched or uploaded, and stays mapped until the
 * graph is gone or the device is trimmed while nothing uses it. Each node has memory of its own: a driver
 * shares it between allocations that are never live together.
 *
 * A block is allocated (free_called is false) from a launch until it is freed. It exists while a graph or an
 * executable graph refers to it, or it is allocated, or work on it is pending.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* used: mapped to blocks of graphs. reserved - used: what destroyed graphs left, for the next ones. reserved
 * is charged to the device. */
static struct {
  uint64_t reserved, used, reserved_high, used_high;
} memory[SIM_MAX_DEVICES];

static sim_block_t *blocks; /* by pool_next */

sim_block_t *sim_graph_mem_new(sim_device_t *device, uint64_t bytes, CUresult *ret_result)
{
  sim_block_t *block = sim_block_new(&device->arena, device, NULL, SIM_MEM_GRAPH, bytes, false, ret_result);
  if (block) {
    block->free_called = true;
    block->pool_next = blocks;
    blocks = block;
  }
  return block;
}

static bool is_in_use(const sim_block_t *block)
{
  return !block->free_called || (block->free_at.stream && !sim_dep_done(&block->free_at));
}

static void unback(sim_block_t *block)
{
  if (block->graph.backed)
    memory[block->device->ordinal].used -= sim_device_bytes_taken(block->size);
  block->graph.backed = false;
}

static void trim(sim_device_t *device)
{
  for (sim_block_t *block = blocks; block; block = block->pool_next) {
    if (block->device == device && !is_in_use(block))
      unback(block);
  }
  uint64_t idle = memory[device->ordinal].reserved - memory[device->ordinal].used;
  sim_device_credit(device, idle);
  memory[device->ordinal].reserved -= idle;
}

static bool reserve(sim_device_t *device, uint64_t bytes)
{
  uint64_t idle = memory[device->ordinal].reserved - memory[device->ordinal].used;
  uint64_t more = bytes > idle ? bytes - idle : 0;
  if (!sim_device_charge(device, more))
    return false;
  memory[device->ordinal].reserved += more;
  if (memory[device->ordinal].reserved > memory[device->ordinal].reserved_high)
    memory[device->ordinal].reserved_high = memory[device->ordinal].reserved;
  memory[device->ordinal].used += bytes;
  if (memory[device->ordinal].used > memory[device->ordinal].used_high)
    memory[device->ordinal].used_high = memory[device->ordinal].used;
  return true;
}

/* What fits only without the idle memory of other graphs is tried a second time. */
CUresult sim_graph_mem_back(sim_block_t *const *list, unsigned count)
{
  for (int attempt = 0; attempt < 2; attempt++) {
    unsigned i = 0;
    while (i < count &&
           (list[i]->graph.backed || reserve(list[i]->device, sim_device_bytes_taken(list[i]->size))))
      list[i++]->graph.backed = true;
    if (i == count)
      return CUDA_SUCCESS;
    for (unsigned j = 0; j < count; j++)
      trim(list[j]->device); /* also what this attempt has taken */
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_graph_mem_reap(void)
{
  for (sim_block_t **link = &blocks; *link;) {
    sim_block_t *block = *link;
    if (block->graph.refs || is_in_use(block)) {
      link = &block->pool_next;
      continue;
    }
    *link = block->pool_next;
    unback(block);
    sim_block_delete(block);
  }
}

void sim_graph_mem_unref(sim_block_t *block)
{
  if (--block->graph.refs == 0)
    sim_graph_mem_reap();
}

/* Of an allocated block, so not of one that its own graph frees. Nothing is waited for. */
CUresult sim_graph_mem_free(sim_block_t *block, sim_stream_t *stream)
{
  block->free_called = true;
  if (stream)
    block->free_at = sim_dep_now(stream);
  sim_graph_mem_reap();
  return CUDA_SUCCESS;
}

/* ---- nodes ---- */

void sim_graph_mem_set_alloc(
    struct CUgraphNode_st *node, sim_block_t *block, const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
  node->block = block;
  block->graph.refs = 1;
  block->graph.owner = node->graph;
  node->alloc = *params;
  node->alloc.dptr = block->node.key;
  if (params->accessDescCount == 0) {
    node->alloc.accessDescs = NULL;
    return;
  }
  CUmemAccessDesc *copy = calloc(params->accessDescCount, sizeof *copy);
  if (!copy)
    abort();
  memcpy(copy, params->accessDescs, params->accessDescCount * sizeof *copy);
  node->alloc.accessDescs = copy;
}

static sim_block_t *find(CUdeviceptr address)
{
  sim_block_t *block = sim_arena_find(address);
  return block && block->kind == SIM_MEM_GRAPH && block->node.key == address ? block : NULL;
}

/* "It is not possible to free an allocation in both the owning graph and another graph", nor twice in a
 * graph, nor an address that is not an allocation's (cuda.h). */
CUresult sim_graph_mem_may_free(const sim_graph_t *graph, CUdeviceptr address)
{
  const sim_block_t *block = find(address);
  if (!block || graph->embedded)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < graph->count; i++) {
    if (graph->nodes[i]->freed == address)
      return CUDA_ERROR_INVALID_VALUE;
  }
  bool conflict = block->graph.owner == graph ? block->graph.freed_outside : block->graph.freed_inside;
  return conflict ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

void sim_graph_mem_set_free(struct CUgraphNode_st *node, CUdeviceptr address)
{
  sim_block_t *block = find(address);
  node->freed = address;
  if (block->graph.owner == node->graph)
    block->graph.freed_inside = true;
  else
    block->graph.freed_outside = true;
}

/* ---- what the device tells ---- */

static CUresult trim_device(CUdevice dev)
{
  sim_device_t *device = sim_device_get(dev);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  sim_graph_mem_reap();
  trim(device);
  return CUDA_SUCCESS;
}

SIM_FN(cuDeviceGraphMemTrim, (CUdevice dev), trim_device(dev), "%d", dev)

static CUresult get_attribute(CUdevice dev, CUgraphMem_attribute attribute, void *ret)
{
  if (!sim_device_get(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
  case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)ret = memory[dev].used; break;
  case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: *(cuuint64_t *)ret = memory[dev].used_high; break;
  case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)ret = memory[dev].reserved; break;
  case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)ret = memory[dev].reserved_high; break;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIM_FN(cuDeviceGetGraphMemAttribute, (CUdevice dev, CUgraphMem_attribute attribute, void *ret),
    get_attribute(dev, attribute, ret), "%d %d", dev, (int)attribute)

/* "High watermark can only be reset to zero" (cuda.h): it then starts from what is current. */
static CUresult set_attribute(CUdevice dev, CUgraphMem_attribute attribute, const void *value)
{
  if (!sim_device_get(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!value || *(const cuuint64_t *)value)
    return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
    memory[dev].used_high = memory[dev].used;
  else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    memory[dev].reserved_high = memory[dev].reserved;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

SIM_FN(cuDeviceSetGraphMemAttribute, (CUdevice dev, CUgraphMem_attribute attribute, void *value),
    set_attribute(dev, attribute, value), "%d %d", dev, (int)attribute)
