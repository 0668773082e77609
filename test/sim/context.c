/*
 * Contexts: primary and created ones, the stack of each thread, limits and peer access.
 *
 * A handle is the address of a struct that is reused, as drivers do; ctx->id tells one incarnation from the
 * next.
 */
#include "sim.h"

#include "oracle.h"

#include <cudaProfiler.h>
#include <stdlib.h>

static uint64_t last_id;
static sim_ctx_t *free_contexts;

static void activate(sim_ctx_t *ctx, sim_device_t *device, bool primary)
{
  ctx->id = ++last_id;
  ctx->alive = true;
  ctx->primary = primary;
  ctx->green_of = NULL;
  ctx->device = device;
  ctx->sticky = CUDA_SUCCESS;
  ctx->blocks = NULL;
  ctx->captures = 0;
  ctx->peers = 0;
  ctx->api_version = 3020;
  ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
  ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7340032;
  ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608;
  ctx->legacy = sim_stream_new(ctx, SIM_STREAM_LEGACY, 0, 0);
}

/* Everything in it dies with a context, after its work has run. */
static void deactivate(sim_ctx_t *ctx)
{
  sim_clock_t *clock = sim_oracle_ctx_clock(ctx);
  sim_sched_wait_ctx(ctx);
  sim_oracle_know(clock); /* nothing of it runs when the context is gone */
  free(clock);
  while (sim_captures && ctx->captures) {
    sim_capture_t *capture = sim_captures;
    while (capture->ctx != ctx)
      capture = capture->next;
    sim_capture_forget_stream(capture->origin);
  }
  sim_event_drop_context(ctx);
  sim_memory_drop_context(ctx);
  sim_kernel_drop_context(ctx);
  sim_stream_drop_context(ctx);
  ctx->alive = false;
  ctx->retained = 0;
}

sim_ctx_t *sim_ctx_lookup(CUcontext ctx)
{
  return ctx && ctx->alive ? ctx : NULL;
}

/* NULL also when the context on top has been destroyed meanwhile. A primary context keeps its handle when it
 * comes back. */
sim_ctx_t *sim_ctx_current(void)
{
  const sim_thread_t *thread = sim_thread_self();
  if (thread->depth == 0)
    return NULL;
  sim_ctx_t *ctx = thread->stack[thread->depth - 1].ctx;
  return ctx->alive && (ctx->primary || ctx->id == thread->stack[thread->depth - 1].id) ? ctx : NULL;
}

static CUresult push(sim_ctx_t *ctx)
{
  sim_thread_t *thread = sim_thread_self();
  if (!sim_ctx_lookup(ctx))
    return CUDA_ERROR_INVALID_CONTEXT;
  if (thread->depth == sizeof thread->stack / sizeof thread->stack[0])
    return CUDA_ERROR_OUT_OF_MEMORY;
  thread->stack[thread->depth].ctx = ctx;
  thread->stack[thread->depth++].id = ctx->id;
  return CUDA_SUCCESS;
}

void sim_ctx_switch(sim_ctx_t *ctx)
{
  sim_thread_t *thread = sim_thread_self();
  if (thread->depth)
    thread->depth--;
  if (ctx)
    (void)push(ctx); /* there is room: one was popped or the stack was empty */
}

sim_ctx_t *sim_ctx_new(sim_device_t *device)
{
  sim_ctx_t *ctx = free_contexts;
  if (ctx)
    free_contexts = ctx->next_free;
  else if (!(ctx = calloc(1, sizeof *ctx)))
    return NULL;
  activate(ctx, device, false);
  ctx->attached = 1;
  return ctx;
}

void sim_ctx_end(sim_ctx_t *ctx)
{
  deactivate(ctx);
  ctx->next_free = free_contexts;
  free_contexts = ctx;
}

static CUresult create(CUcontext *ret_ctx, unsigned flags, CUdevice dev, unsigned api_version)
{
  sim_device_t *device = sim_device_get(dev);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!ret_ctx)
    return CUDA_ERROR_INVALID_VALUE;
  sim_ctx_t *ctx = sim_ctx_new(device);
  if (!ctx)
    return CUDA_ERROR_OUT_OF_MEMORY;
  ctx->flags = flags;
  ctx->api_version = api_version;
  CUresult result = push(ctx);
  if (result == CUDA_SUCCESS)
    *ret_ctx = ctx;
  return result;
}

SIM_FN(cuCtxCreate, (CUcontext * ctx, unsigned int flags, CUdevice dev), create(ctx, flags, dev, 3010),
    "%u %d", flags, dev)
SIM_FN(cuCtxCreate_v2, (CUcontext * ctx, unsigned int flags, CUdevice dev), create(ctx, flags, dev, 3020),
    "%u %d", flags, dev)
SIM_FN(cuCtxCreate_v3,
    (CUcontext * ctx, CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice dev),
    create(ctx, flags, dev, 3030), "%d %u %d", count, flags, dev)
SIM_FN(cuCtxCreate_v4, (CUcontext * ctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev),
    create(ctx, flags, dev, 3040), "%u %d", flags, dev)

static CUresult destroy(CUcontext ctx)
{
  if (!sim_ctx_lookup(ctx) || ctx->primary)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (sim_ctx_current() == ctx)
    sim_thread_self()->depth--;
  sim_ctx_end(ctx);
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxDestroy, (CUcontext ctx), destroy(ctx), "%s", sim_str_ctx(ctx))
SIM_FN(cuCtxDestroy_v2, (CUcontext ctx), destroy(ctx), "%s", sim_str_ctx(ctx))

/* "Increments the usage count of the context"; "detaching decrements it, and destroys at 0" (cuda.h) */
static CUresult attach(CUcontext *ret_ctx, unsigned flags, sim_ctx_t *ctx)
{
  if (!ret_ctx || flags)
    return CUDA_ERROR_INVALID_VALUE;
  ctx->attached++;
  *ret_ctx = ctx;
  return CUDA_SUCCESS;
}

static CUresult detach(CUcontext ctx)
{
  if (!sim_ctx_lookup(ctx) || ctx->primary || sim_ctx_current() != ctx)
    return CUDA_ERROR_INVALID_CONTEXT;
  return --ctx->attached ? CUDA_SUCCESS : destroy(ctx);
}

SIM_FN(cuCtxAttach, (CUcontext * ctx, unsigned int flags), attach(ctx, flags, call.ctx), "%u", flags)
SIM_FN(cuCtxDetach, (CUcontext ctx), detach(ctx), "%s", sim_str_ctx(ctx))

static CUresult pop(CUcontext *ret_ctx)
{
  sim_thread_t *thread = sim_thread_self();
  if (thread->depth == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  sim_ctx_t *ctx = thread->stack[--thread->depth].ctx;
  if (ret_ctx)
    *ret_ctx = ctx;
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxPopCurrent, (CUcontext * ctx), pop(ctx), " ")
SIM_FN(cuCtxPopCurrent_v2, (CUcontext * ctx), pop(ctx), " ")
SIM_FN(cuCtxPushCurrent, (CUcontext ctx), push(ctx), "%s", sim_str_ctx(ctx))
SIM_FN(cuCtxPushCurrent_v2, (CUcontext ctx), push(ctx), "%s", sim_str_ctx(ctx))

static CUresult set_current(CUcontext ctx)
{
  if (ctx && !sim_ctx_lookup(ctx))
    return CUDA_ERROR_INVALID_CONTEXT;
  sim_ctx_switch(ctx);
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxSetCurrent, (CUcontext ctx), set_current(ctx), "%s", sim_str_ctx(ctx))

int simcuda_unseen_current(void *context)
{
  return (int)cuCtxSetCurrent(context); /* the driver's own: see simcuda_unseen_stream */
}

static CUresult get_current(CUcontext *ret_ctx)
{
  const sim_thread_t *thread = sim_thread_self();
  if (!ret_ctx)
    return CUDA_ERROR_INVALID_VALUE;
  *ret_ctx = thread->depth ? thread->stack[thread->depth - 1].ctx : NULL;
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxGetCurrent, (CUcontext * ctx), get_current(ctx), "%s",
    ctx &&call.result == CUDA_SUCCESS ? sim_str_ctx(*ctx) : "")

static CUresult get_device(CUdevice *ret_dev, sim_ctx_t *ctx)
{
  if (!ret_dev)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ctx)
    return CUDA_ERROR_INVALID_CONTEXT;
  *ret_dev = ctx->device->ordinal;
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxGetDevice, (CUdevice * dev), get_device(dev, call.ctx), " ")
SIM_FN(cuCtxGetDevice_v2, (CUdevice * dev, CUcontext ctx),
    get_device(dev, ctx ? sim_ctx_lookup(ctx) : sim_ctx_current()), "%s", sim_str_ctx(ctx))

static CUresult get_id(CUcontext ctx, unsigned long long *ret_id)
{
  if (!ctx)
    ctx = sim_ctx_current();
  if (!sim_ctx_lookup(ctx))
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (!ret_id)
    return CUDA_ERROR_INVALID_VALUE;
  *ret_id = ctx->id;
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxGetId, (CUcontext ctx, unsigned long long *id), get_id(ctx, id), "%s", sim_str_ctx(ctx))

static CUresult get_version(CUcontext ctx, unsigned *ret_version)
{
  if (!ctx)
    ctx = sim_ctx_current();
  if (!sim_ctx_lookup(ctx))
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!ret_version)
    return CUDA_ERROR_INVALID_VALUE;
  *ret_version = ctx->api_version;
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxGetApiVersion, (CUcontext ctx, unsigned int *version), get_version(ctx, version), "%s",
    sim_str_ctx(ctx))

static CUresult get_flags(unsigned *ret_flags, const sim_ctx_t *ctx)
{
  if (!ret_flags)
    return CUDA_ERROR_INVALID_VALUE;
  *ret_flags = ctx->flags;
  return CUDA_SUCCESS;
}

static CUresult set_flags(unsigned flags, sim_ctx_t *ctx)
{
  ctx->flags = flags;
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxGetFlags, (unsigned int *flags), get_flags(flags, call.ctx), " ")
SIM_FN(cuCtxSetFlags, (unsigned int flags), set_flags(flags, call.ctx), "%u", flags)

static CUresult synchronize(sim_ctx_t *ctx)
{
  if (!ctx)
    return CUDA_ERROR_INVALID_CONTEXT;
  CUresult refused = sim_capture_refuses_ctx(ctx);
  if (refused != CUDA_SUCCESS)
    return refused;
  sim_clock_t *clock = sim_oracle_ctx_clock(ctx);
  sim_sched_wait_ctx(ctx);
  sim_oracle_know(clock);
  free(clock);
  sim_pool_trim_all();
  return ctx->sticky;
}

SIM_FN(cuCtxSynchronize, (void), synchronize(call.ctx), " ")
SIM_FN(cuCtxSynchronize_v2, (CUcontext ctx), synchronize(ctx ? sim_ctx_lookup(ctx) : sim_ctx_current()), "%s",
    sim_str_ctx(ctx))

static CUresult get_limit(size_t *ret_value, CUlimit limit, const sim_ctx_t *ctx)
{
  if (!ret_value)
    return CUDA_ERROR_INVALID_VALUE;
  if ((unsigned)limit >= sizeof ctx->limits / sizeof ctx->limits[0])
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *ret_value = ctx->limits[limit];
  return CUDA_SUCCESS;
}

static CUresult set_limit(CUlimit limit, size_t value, sim_ctx_t *ctx)
{
  if ((unsigned)limit >= sizeof ctx->limits / sizeof ctx->limits[0])
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  ctx->limits[limit] = value;
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxGetLimit, (size_t * value, CUlimit limit), get_limit(value, limit, call.ctx), "%d", (int)limit)
SIM_FN(cuCtxSetLimit, (CUlimit limit, size_t value), set_limit(limit, value, call.ctx), "%d %zu", (int)limit,
    value)

static CUresult get_cache(CUfunc_cache *ret_config, const sim_ctx_t *ctx)
{
  if (!ret_config)
    return CUDA_ERROR_INVALID_VALUE;
  *ret_config = ctx->cache_config;
  return CUDA_SUCCESS;
}

static CUresult set_cache(CUfunc_cache config, sim_ctx_t *ctx)
{
  ctx->cache_config = config;
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxGetCacheConfig, (CUfunc_cache * config), get_cache(config, call.ctx), " ")
SIM_FN(cuCtxSetCacheConfig, (CUfunc_cache config), set_cache(config, call.ctx), "%d", (int)config)
SIM_FN(cuCtxResetPersistingL2Cache, (void), CUDA_SUCCESS, " ")

static CUresult priorities(int *least, int *greatest)
{
  if (least)
    *least = 0;
  if (greatest)
    *greatest = -5;
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxGetStreamPriorityRange, (int *least, int *greatest), priorities(least, greatest), " ")

static CUresult peer(CUcontext other, bool enable, sim_ctx_t *ctx)
{
  if (!sim_ctx_lookup(other) || other == ctx || other->device == ctx->device)
    return CUDA_ERROR_INVALID_CONTEXT;
  uint64_t bit = (uint64_t)1 << other->device->ordinal;
  if (enable == ((ctx->peers & bit) != 0))
    return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  ctx->peers ^= bit;
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxEnablePeerAccess, (CUcontext other, unsigned int flags),
    flags ? CUDA_ERROR_INVALID_VALUE : peer(other, true, call.ctx), "%s", sim_str_ctx(other))
SIM_FN(cuCtxDisablePeerAccess, (CUcontext other), peer(other, false, call.ctx), "%s", sim_str_ctx(other))

/* ---- primary contexts ---- */

CUresult sim_ctx_primary_retain(CUcontext *ret_ctx, CUdevice dev)
{
  sim_device_t *device = sim_device_get(dev);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!ret_ctx)
    return CUDA_ERROR_INVALID_VALUE;
  if (!device->primary && !(device->primary = calloc(1, sizeof *device->primary)))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (!device->primary->alive)
    activate(device->primary, device, true);
  device->primary->retained++;
  *ret_ctx = device->primary;
  return CUDA_SUCCESS;
}

SIM_FN(cuDevicePrimaryCtxRetain, (CUcontext * ctx, CUdevice dev), sim_ctx_primary_retain(ctx, dev), "%d", dev)

CUresult sim_ctx_primary_release(CUdevice dev)
{
  sim_device_t *device = sim_device_get(dev);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!device->primary || !device->primary->alive)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary->retained == 0)
    deactivate(device->primary);
  return CUDA_SUCCESS;
}

SIM_FN(cuDevicePrimaryCtxRelease, (CUdevice dev), sim_ctx_primary_release(dev), "%d", dev)
SIM_FN(cuDevicePrimaryCtxRelease_v2, (CUdevice dev), sim_ctx_primary_release(dev), "%d", dev)

static CUresult primary_reset(CUdevice dev)
{
  sim_device_t *device = sim_device_get(dev);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary && device->primary->alive)
    deactivate(device->primary);
  return CUDA_SUCCESS;
}

SIM_FN(cuDevicePrimaryCtxReset, (CUdevice dev), primary_reset(dev), "%d", dev)
SIM_FN(cuDevicePrimaryCtxReset_v2, (CUdevice dev), primary_reset(dev), "%d", dev)

static CUresult primary_set_flags(CUdevice dev, unsigned flags)
{
  sim_device_t *device = sim_device_get(dev);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!device->primary && !(device->primary = calloc(1, sizeof *device->primary)))
    return CUDA_ERROR_OUT_OF_MEMORY;
  device->primary->flags = flags;
  return CUDA_SUCCESS;
}

SIM_FN(cuDevicePrimaryCtxSetFlags, (CUdevice dev, unsigned int flags), primary_set_flags(dev, flags), "%d %u",
    dev, flags)
SIM_FN(cuDevicePrimaryCtxSetFlags_v2, (CUdevice dev, unsigned int flags), primary_set_flags(dev, flags),
    "%d %u", dev, flags)

static CUresult primary_state(CUdevice dev, unsigned *ret_flags, int *ret_active)
{
  const sim_device_t *device = sim_device_get(dev);
  if (!device)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!ret_flags || !ret_active)
    return CUDA_ERROR_INVALID_VALUE;
  *ret_flags = device->primary ? device->primary->flags : 0;
  *ret_active = device->primary && device->primary->alive;
  return CUDA_SUCCESS;
}

SIM_FN(cuDevicePrimaryCtxGetState, (CUdevice dev, unsigned int *flags, int *active),
    primary_state(dev, flags, active), "%d", dev)

/* A profiler is never attached. */
SIM_FN(cuProfilerInitialize, (const char *config, const char *output, CUoutput_mode mode), CUDA_SUCCESS, " ")
SIM_FN(cuProfilerStart, (void), CUDA_SUCCESS, " ")
SIM_FN(cuProfilerStop, (void), CUDA_SUCCESS, " ")
