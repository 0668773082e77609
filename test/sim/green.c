/*
 * Green contexts: a share of a device beside its primary context. Converted, one is a context with its own
 * streams; memory allocated in it belongs to the primary context, which it retains. The shares themselves are
 * not modelled.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct CUgreenCtx_st {
  sim_ctx_t *ctx;
  bool alive;
};

static CUresult resource(CUdevResource *ret, CUdevResourceType type, CUdevice dev)
{
  if (!sim_device_get(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!ret || type != CU_DEV_RESOURCE_TYPE_SM)
    return CUDA_ERROR_INVALID_VALUE;
  memset(ret, 0, sizeof *ret);
  ret->type = type;
  ret->sm.smCount = 132;
  return CUDA_SUCCESS;
}

SIM_FN(cuDeviceGetDevResource, (CUdevice dev, CUdevResource *ret, CUdevResourceType type),
    resource(ret, type, dev), "%d %d", dev, (int)type)

static CUresult describe(CUdevResourceDesc *ret, const CUdevResource *resources, unsigned count)
{
  static int any; /* all shares are alike */
  if (!ret || !resources || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = (CUdevResourceDesc)&any;
  return CUDA_SUCCESS;
}

SIM_FN(cuDevResourceGenerateDesc, (CUdevResourceDesc * desc, CUdevResource *resources, unsigned int count),
    describe(desc, resources, count), "%u", count)

static CUresult create(CUgreenCtx *ret_green, CUdevResourceDesc desc, CUdevice dev, unsigned flags)
{
  CUcontext primary;
  if (!ret_green || !desc || flags != CU_GREEN_CTX_DEFAULT_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  CUgreenCtx green = calloc(1, sizeof *green);
  if (!green)
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = sim_ctx_primary_retain(&primary, dev);
  if (result == CUDA_SUCCESS && !(green->ctx = sim_ctx_new(primary->device))) {
    (void)sim_ctx_primary_release(dev); /* retained just now */
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) {
    free(green);
    return result;
  }
  green->ctx->green_of = primary;
  green->alive = true;
  *ret_green = green;
  return CUDA_SUCCESS;
}

SIM_FN(cuGreenCtxCreate, (CUgreenCtx * green, CUdevResourceDesc desc, CUdevice dev, unsigned int flags),
    create(green, desc, dev, flags), "%d %u", dev, flags)

static CUresult convert(CUcontext *ret_ctx, CUgreenCtx green)
{
  if (!ret_ctx)
    return CUDA_ERROR_INVALID_VALUE;
  if (!green || !green->alive)
    return CUDA_ERROR_INVALID_CONTEXT;
  *ret_ctx = green->ctx;
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxFromGreenCtx, (CUcontext * ctx, CUgreenCtx green), convert(ctx, green), " ")

/* Handles are not used again: one struct is lost with each. */
static CUresult destroy(CUgreenCtx green)
{
  if (!green || !green->alive)
    return CUDA_ERROR_INVALID_CONTEXT;
  sim_device_t *device = green->ctx->device;
  sim_memory_move(green->ctx, device->primary);
  sim_ctx_end(green->ctx);
  green->alive = false;
  return sim_ctx_primary_release(device->ordinal);
}

SIM_FN(cuGreenCtxDestroy, (CUgreenCtx green), destroy(green), " ")

static CUresult create_stream(
    sim_call_t *call, CUstream *ret_stream, CUgreenCtx green, unsigned flags, int priority)
{
  if (!green || !green->alive)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  call->ctx = green->ctx;
  return sim_stream_create(call, ret_stream, flags, priority);
}

SIM_FN(cuGreenCtxStreamCreate, (CUstream * stream, CUgreenCtx green, unsigned int flags, int priority),
    create_stream(&call, stream, green, flags, priority), "%u %d", flags, priority)

SIM_FN(cuGreenCtxRecordEvent, (CUgreenCtx green, CUevent event),
    green && green->alive ? sim_event_record_context(green->ctx, event) : CUDA_ERROR_INVALID_CONTEXT, "%s",
    sim_str_event(event))
