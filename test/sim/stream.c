/*
 * Streams: handles, the queues behind them, and which queue a call means.
 */
#include "sim.h"

#include "oracle.h"

#include <stdlib.h>

#define MAGIC 0x73747265u

sim_stream_t *sim_streams;
static sim_stream_t *free_streams;
static sim_handle_t *free_handles;
static uint64_t last_id, last_number;

sim_stream_t *sim_stream_new(sim_ctx_t *ctx, int kind, unsigned flags, int priority)
{
  sim_stream_t *stream = free_streams;
  if (stream) {
    free_streams = stream->next_free;
    *stream = (sim_stream_t){.active_index = -1};
  } else {
    stream = calloc(1, sizeof *stream);
    if (!stream)
      abort();
    stream->active_index = -1;
  }
  stream->id = ++last_id;
  stream->ctx = ctx;
  stream->ctx_id = ctx->id;
  stream->kind = kind;
  stream->flags = flags;
  stream->nonblocking = kind == SIM_STREAM_USER && (flags & CU_STREAM_NON_BLOCKING);
  stream->priority = priority;
  stream->next = sim_streams;
  if (sim_streams)
    sim_streams->prev = stream;
  sim_streams = stream;
  return stream;
}

/* Called when a queue runs empty or loses its handle: whichever comes last ends the stream. */
void sim_stream_release(sim_stream_t *stream)
{
  if (!stream->zombie || stream->head || stream->running)
    return;
  if (stream->prev)
    stream->prev->next = stream->next;
  else
    sim_streams = stream->next;
  if (stream->next)
    stream->next->prev = stream->prev;
  sim_oracle_stream_gone(stream);
  stream->id = 0; /* every position in it counts as reached from now on */
  stream->next_free = free_streams;
  free_streams = stream;
}

static void drop_handle(sim_stream_t *stream)
{
  if (stream->handle) {
    stream->handle->magic = 0;
    stream->handle->next_free = free_handles;
    free_handles = stream->handle;
    stream->handle = NULL;
  }
  if (stream->capture)
    sim_capture_forget_stream(stream);
  stream->zombie = true;
  sim_stream_release(stream);
}

void sim_stream_drop_context(sim_ctx_t *ctx)
{
  for (sim_stream_t *stream = sim_streams, *next; stream; stream = next) {
    next = stream->next;
    if (stream->ctx == ctx)
      drop_handle(stream);
  }
  ctx->legacy = NULL;
}

void sim_stream_drop_thread(uint64_t thread)
{
  for (sim_stream_t *stream = sim_streams, *next; stream; stream = next) {
    next = stream->next;
    if (stream->kind == SIM_STREAM_THREAD && stream->thread == thread)
      drop_handle(stream);
  }
}

static sim_stream_t *thread_stream(sim_ctx_t *ctx)
{
  static _Thread_local struct {
    sim_stream_t *stream;
    uint64_t id;
  } last;
  if (last.stream && last.stream->id == last.id && last.stream->ctx == ctx)
    return last.stream;
  uint64_t serial = sim_thread_self()->serial;
  sim_stream_t *stream = sim_streams;
  while (stream && !(stream->kind == SIM_STREAM_THREAD && stream->thread == serial && stream->ctx == ctx))
    stream = stream->next;
  if (!stream) {
    stream = sim_stream_new(ctx, SIM_STREAM_THREAD, 0, 0);
    stream->thread = serial;
  }
  last.stream = stream;
  last.id = stream->id;
  return stream;
}

sim_stream_t *sim_stream_get(sim_call_t *call, CUstream handle)
{
  if (!handle)
    handle = sim_call_is_ptds(call) ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (!call->ctx && (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)) {
    call->result = sim_thread_self()->depth ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
    return NULL;
  }
  if (handle == CU_STREAM_LEGACY)
    return call->ctx->legacy;
  if (handle == CU_STREAM_PER_THREAD)
    return thread_stream(call->ctx);
  if (handle->magic != MAGIC) {
    call->result = CUDA_ERROR_INVALID_HANDLE;
    return NULL;
  }
  return handle->stream;
}

CUresult sim_stream_create(sim_call_t *call, CUstream *ret_stream, unsigned flags, int priority)
{
  if (!ret_stream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
    return CUDA_ERROR_INVALID_VALUE;
  sim_handle_t *handle = free_handles;
  if (handle)
    free_handles = handle->next_free;
  else if (!(handle = calloc(1, sizeof *handle)))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (priority > 0)
    priority = 0;
  if (priority < -5)
    priority = -5;
  handle->magic = MAGIC;
  handle->number = ++last_number;
  handle->stream = sim_stream_new(call->ctx, SIM_STREAM_USER, flags, priority);
  handle->stream->handle = handle;
  *ret_stream = handle;
  return CUDA_SUCCESS;
}

/* By its own name for the log, without passing by an export that could be another library's (-Bsymbolic). */
int simcuda_unseen_stream(void **ret_stream)
{
  return (int)cuStreamCreate((CUstream *)ret_stream, CU_STREAM_NON_BLOCKING);
}

SIM_FN(cuStreamCreate, (CUstream * stream, unsigned int flags), sim_stream_create(&call, stream, flags, 0),
    "%u -> %s", flags, call.result == CUDA_SUCCESS ? sim_str_stream(*stream) : "")
SIM_FN(cuStreamCreateWithPriority, (CUstream * stream, unsigned int flags, int priority),
    sim_stream_create(&call, stream, flags, priority), "%u %d -> %s", flags, priority,
    call.result == CUDA_SUCCESS ? sim_str_stream(*stream) : "")

static CUresult destroy(CUstream handle)
{
  if ((uintptr_t)handle <= 2 || handle->magic != MAGIC)
    return CUDA_ERROR_INVALID_HANDLE;
  drop_handle(handle->stream); /* "returns immediately", queued work still runs (cuda.h, cuStreamDestroy) */
  return CUDA_SUCCESS;
}

/* The number is taken before the handle dies. */
#define DESTROY(name)                                                                                        \
  CUresult CUDAAPI name(CUstream stream)                                                                     \
  {                                                                                                          \
    sim_call_t call;                                                                                         \
    bool go = sim_call_begin(&call, SIM_API_##name);                                                         \
    const char *text = sim_str_stream(stream);                                                               \
    if (go)                                                                                                  \
      call.result = destroy(stream);                                                                         \
    return sim_call_end(&call, "%s", text);                                                                  \
  }
DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)

static CUresult synchronize(sim_call_t *call, CUstream handle)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  CUresult result = sim_capture_refuses(stream);
  if (result != CUDA_SUCCESS)
    return result;
  sim_ctx_t *ctx = stream->ctx;
  sim_clock_t *clock = sim_oracle_stream_clock(stream);
  sim_sched_wait(sim_dep_now(stream));
  sim_oracle_know(clock);
  free(clock);
  sim_pool_trim_all();
  return ctx->sticky;
}

SIM_FN2(cuStreamSynchronize, cuStreamSynchronize_ptsz, (CUstream stream), synchronize(&call, stream), "%s",
    sim_str_stream(stream))

static CUresult query(sim_call_t *call, CUstream handle)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  CUresult result = sim_capture_refuses(stream);
  if (result != CUDA_SUCCESS)
    return result;
  if (stream->submitted == stream->completed) {
    sim_clock_t *clock = sim_oracle_stream_clock(stream);
    sim_oracle_know(clock);
    free(clock);
    return CUDA_SUCCESS;
  }
  sim_sched_nudge(sim_dep_now(stream));
  return CUDA_ERROR_NOT_READY;
}

SIM_FN2(
    cuStreamQuery, cuStreamQuery_ptsz, (CUstream stream), query(&call, stream), "%s", sim_str_stream(stream))

#define GETTER(fn, type, value)                                                                              \
  static CUresult fn(sim_call_t *call, CUstream handle, type *ret)                                           \
  {                                                                                                          \
    const sim_stream_t *stream = sim_stream_get(call, handle);                                               \
    if (!stream)                                                                                             \
      return call->result;                                                                                   \
    if (!ret)                                                                                                \
      return CUDA_ERROR_INVALID_VALUE;                                                                       \
    *ret = (value);                                                                                          \
    return CUDA_SUCCESS;                                                                                     \
  }
GETTER(get_priority, int, stream->priority)
GETTER(get_flags, unsigned int, stream->flags)
GETTER(get_id, unsigned long long, stream->id)
GETTER(get_ctx, CUcontext, stream->ctx)
GETTER(get_device, CUdevice, stream->ctx->device->ordinal)

SIM_FN2(cuStreamGetPriority, cuStreamGetPriority_ptsz, (CUstream stream, int *ret),
    get_priority(&call, stream, ret), "%s", sim_str_stream(stream))
SIM_FN2(cuStreamGetFlags, cuStreamGetFlags_ptsz, (CUstream stream, unsigned int *ret),
    get_flags(&call, stream, ret), "%s", sim_str_stream(stream))
SIM_FN2(cuStreamGetId, cuStreamGetId_ptsz, (CUstream stream, unsigned long long *ret),
    get_id(&call, stream, ret), "%s", sim_str_stream(stream))
SIM_FN2(cuStreamGetCtx, cuStreamGetCtx_ptsz, (CUstream stream, CUcontext *ret), get_ctx(&call, stream, ret),
    "%s", sim_str_stream(stream))
SIM_FN2(cuStreamGetDevice, cuStreamGetDevice_ptsz, (CUstream stream, CUdevice *ret),
    get_device(&call, stream, ret), "%s", sim_str_stream(stream))

static CUresult get_ctx_v2(sim_call_t *call, CUstream handle, CUcontext *ret, CUgreenCtx *ret_green)
{
  if (ret_green)
    *ret_green = NULL;
  return get_ctx(call, handle, ret);
}

SIM_FN2(cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz, (CUstream stream, CUcontext *ret, CUgreenCtx *ret_green),
    get_ctx_v2(&call, stream, ret, ret_green), "%s", sim_str_stream(stream))

/* Attributes are accepted and forgotten. */
static CUresult attribute(sim_call_t *call, CUstream handle)
{
  return sim_stream_get(call, handle) ? CUDA_SUCCESS : call->result;
}

SIM_FN2(cuStreamSetAttribute, cuStreamSetAttribute_ptsz,
    (CUstream stream, CUstreamAttrID attr, const CUstreamAttrValue *value), attribute(&call, stream), "%s %d",
    sim_str_stream(stream), (int)attr)
SIM_FN2(cuStreamCopyAttributes, cuStreamCopyAttributes_ptsz, (CUstream dst, CUstream src),
    attribute(&call, dst), "%s %s", sim_str_stream(dst), sim_str_stream(src))
