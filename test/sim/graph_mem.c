/*
 * Memory of graphs.
 */
#include "sim.h"

static CUresult graph_mem(CUdevice dev)
{
  return sim_device_get(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

SIM_FN(cuDeviceGraphMemTrim, (CUdevice dev), graph_mem(dev), "%d", dev)

static CUresult graph_mem_attribute(CUdevice dev, void *ret)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  if (graph_mem(dev) == CUDA_SUCCESS)
    *(cuuint64_t *)ret = 0;
  return graph_mem(dev);
}

SIM_FN(cuDeviceGetGraphMemAttribute, (CUdevice dev, CUgraphMem_attribute attribute, void *ret),
    graph_mem_attribute(dev, ret), "%d %d", dev, (int)attribute)
SIM_FN(cuDeviceSetGraphMemAttribute, (CUdevice dev, CUgraphMem_attribute attribute, void *value),
    graph_mem(dev), "%d %d", dev, (int)attribute)
