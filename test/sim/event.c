/*
 * Events: a record is an operation of its stream; the event names that position until it is recorded again.
 */
#include "oracle.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x65766e74u

static sim_event_t *events, *free_events;
static uint64_t last_number;

static sim_event_t *lookup(CUevent event)
{
  return event && event->magic == MAGIC ? event : NULL;
}

static bool is_shared(const sim_event_t *event)
{
  return (event->flags & CU_EVENT_INTERPROCESS) != 0;
}

static CUresult create(sim_call_t *call, CUevent *ret_event, unsigned flags)
{
  if (!ret_event || (flags & ~7u) ||
      (flags & (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)) == CU_EVENT_INTERPROCESS)
    return CUDA_ERROR_INVALID_VALUE;
  sim_event_t *event = free_events;
  if (event) {
    free_events = event->next_free;
    *event = (sim_event_t){
        .version = event->version}; /* an operation may still name an old record of this struct */
  } else if (!(event = calloc(1, sizeof *event))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  event->magic = MAGIC;
  event->number = ++last_number;
  event->ctx = call->ctx;
  event->flags = flags;
  event->version++;
  event->next = events;
  if (events)
    events->prev = event;
  events = event;
  *ret_event = event;
  return CUDA_SUCCESS;
}

SIM_FN(cuEventCreate, (CUevent * event, unsigned int flags), create(&call, event, flags), "%u -> %s", flags,
    call.result == CUDA_SUCCESS ? sim_str_event(*event) : "")

static void drop(sim_event_t *event)
{
  if (event->prev)
    event->prev->next = event->next;
  else
    events = event->next;
  if (event->next)
    event->next->prev = event->prev;
  free(event->deps);
  free(event->clock);
  event->deps = NULL;
  event->clock = NULL;
  event->dep_count = 0;
  event->magic = 0;
  event->version++;
  event->next_free = free_events;
  free_events = event;
}

void sim_event_drop_context(sim_ctx_t *ctx)
{
  for (sim_event_t *event = events, *next; event; event = next) {
    next = event->next;
    if (event->ctx == ctx)
      drop(event);
  }
}

#define DESTROY(name)                                                                                        \
  CUresult CUDAAPI name(CUevent event)                                                                       \
  {                                                                                                          \
    sim_call_t call;                                                                                         \
    bool go = sim_call_begin(&call, SIM_API_##name);                                                         \
    const char *text = sim_str_event(event);                                                                 \
    if (go && !lookup(event))                                                                                \
      call.result = CUDA_ERROR_INVALID_HANDLE;                                                               \
    else if (go)                                                                                             \
      drop(event);                                                                                           \
    return sim_call_end(&call, "%s", text);                                                                  \
  }
DESTROY(cuEventDestroy)
DESTROY(cuEventDestroy_v2)

static void set_deps(sim_event_t *event, unsigned count)
{
  event->deps = realloc(event->deps, (count ? count : 1) * sizeof *event->deps);
  if (!event->deps)
    abort();
  free(event->clock);
  event->clock = NULL;
  event->dep_count = 0;
  event->recorded = true;
  event->version++;
  event->capture = NULL;
  event->capture_id = 0;
}

static CUresult record(sim_call_t *call, CUevent handle, CUstream stream_handle)
{
  sim_event_t *event = lookup(handle);
  sim_stream_t *stream = sim_stream_get(call, stream_handle);
  if (!stream)
    return call->result;
  if (!event || event->ctx != stream->ctx)
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture)
    return sim_capture_record(stream, event);
  CUresult refused = sim_capture_refuses(stream);
  if (refused != CUDA_SUCCESS)
    return refused;
  set_deps(event, 1);
  sim_op_t *op = sim_op_new(SIM_OP_EVENT);
  op->event = event;
  op->event_version = event->version;
  sim_sched_submit(stream, op);
  sim_dep_t now = event->deps[event->dep_count++] = sim_dep_now(stream);
  event->clock = sim_oracle_stream_clock(stream);
  if (is_shared(event))
    sim_sched_wait(now);
  return CUDA_SUCCESS;
}

SIM_FN2(cuEventRecord, cuEventRecord_ptsz, (CUevent event, CUstream stream), record(&call, event, stream),
    "%s %s", sim_str_event(event), sim_str_stream(stream))
SIM_FN2(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz,
    (CUevent event, CUstream stream, unsigned int flags),
    flags > 1 ? CUDA_ERROR_INVALID_VALUE : record(&call, event, stream), "%s %s %u", sim_str_event(event),
    sim_str_stream(stream), flags)

void sim_event_completed(sim_event_t *event, uint64_t version)
{
  if (event->version == version)
    event->time = sim_clock;
}

static bool is_captured(const sim_event_t *event)
{
  for (const sim_capture_t *capture = sim_captures; event->capture && capture; capture = capture->next) {
    if (capture == event->capture && capture->id == event->capture_id)
      return true;
  }
  return false;
}

static bool is_complete(const sim_event_t *event)
{
  for (unsigned i = 0; i < event->dep_count; i++) {
    if (!sim_dep_done(&event->deps[i]))
      return false;
  }
  return true;
}

static CUresult refuse_captured(sim_event_t *event)
{
  if (!is_captured(event))
    return CUDA_SUCCESS;
  sim_capture_invalidate(event->capture);
  return CUDA_ERROR_CAPTURED_EVENT;
}

static CUresult query(CUevent handle)
{
  sim_event_t *event = lookup(handle);
  if (!event)
    return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = refuse_captured(event);
  if (result != CUDA_SUCCESS)
    return result;
  if (is_complete(event)) {
    sim_oracle_know(event->clock);
    return CUDA_SUCCESS;
  }
  for (unsigned i = 0; i < event->dep_count; i++)
    sim_sched_nudge(event->deps[i]);
  return CUDA_ERROR_NOT_READY;
}

SIM_FN(cuEventQuery, (CUevent event), query(event), "%s", sim_str_event(event))

static CUresult synchronize(CUevent handle)
{
  sim_event_t *event = lookup(handle);
  if (!event)
    return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = refuse_captured(event);
  if (result != CUDA_SUCCESS)
    return result;
  sim_ctx_t *ctx = event->ctx;
  /* The record seen now; waiting may release the mutex, and another thread may record again meanwhile. */
  unsigned count = event->dep_count;
  sim_dep_t *deps = malloc((count ? count : 1) * sizeof *deps);
  if (!deps)
    return CUDA_ERROR_OUT_OF_MEMORY;
  for (unsigned i = 0; i < count; i++)
    deps[i] = event->deps[i];
  sim_clock_t *clock = sim_oracle_clock_copy(event->clock);
  for (unsigned i = 0; i < count; i++)
    sim_sched_wait(deps[i]);
  sim_oracle_know(clock);
  free(clock);
  free(deps);
  sim_pool_trim_all();
  return ctx->sticky;
}

SIM_FN(cuEventSynchronize, (CUevent event), synchronize(event), "%s", sim_str_event(event))

/* Virtual time: each completed operation takes a microsecond. */
static CUresult elapsed(float *ret_ms, CUevent start_handle, CUevent end_handle)
{
  const sim_event_t *start = lookup(start_handle), *end = lookup(end_handle);
  if (!ret_ms)
    return CUDA_ERROR_INVALID_VALUE;
  if (!start || !end || !start->recorded || !end->recorded ||
      ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!is_complete(start) || !is_complete(end))
    return CUDA_ERROR_NOT_READY;
  *ret_ms = (float)((double)end->time - (double)start->time) * 0.001f;
  return CUDA_SUCCESS;
}

SIM_FN(cuEventElapsedTime, (float *ms, CUevent start, CUevent end), elapsed(ms, start, end), "%s %s",
    sim_str_event(start), sim_str_event(end))
SIM_FN(cuEventElapsedTime_v2, (float *ms, CUevent start, CUevent end), elapsed(ms, start, end), "%s %s",
    sim_str_event(start), sim_str_event(end))

static CUresult stream_wait(sim_call_t *call, CUstream stream_handle, CUevent handle)
{
  sim_event_t *event = lookup(handle);
  sim_stream_t *stream = sim_stream_get(call, stream_handle);
  CUresult result = CUDA_SUCCESS;
  if (!stream)
    return call->result;
  if (!event)
    return CUDA_ERROR_INVALID_HANDLE;
  if (sim_capture_wait(stream, event, &result))
    return result;
  sim_oracle_wait(stream, event->clock);
  if (is_complete(event) &&
      !sim_oracle_on) /* else an operation in any case: what is ordered is not to depend on luck */
    return CUDA_SUCCESS;
  sim_op_t *op = sim_op_new(SIM_OP_NOP);
  for (unsigned i = 0; i < event->dep_count; i++)
    sim_op_depend(op, event->deps[i]);
  sim_sched_submit(stream, op);
  return CUDA_SUCCESS;
}

SIM_FN2(cuStreamWaitEvent, cuStreamWaitEvent_ptsz, (CUstream stream, CUevent event, unsigned int flags),
    flags > 1 ? CUDA_ERROR_INVALID_VALUE : stream_wait(&call, stream, event), "%s %s %u",
    sim_str_stream(stream), sim_str_event(event), flags)

/* The two calls about a context: with an event that is part of a capture, or a capture in the context, both
 * fail so. */
static CUresult refuse_context(sim_ctx_t *ctx, const sim_event_t *event)
{
  CUresult result = sim_capture_refuses_ctx(ctx);
  if (!is_captured(event))
    return result;
  sim_capture_invalidate(event->capture);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* "captures all the activities of the context at the time of this call"; with a capture active in it the call
 * fails and "the capture is invalidated" (cuda.h, cuCtxRecordEvent). */
CUresult sim_event_record_context(CUcontext ctx_handle, CUevent handle)
{
  sim_event_t *event = lookup(handle);
  sim_ctx_t *ctx = ctx_handle ? sim_ctx_lookup(ctx_handle) : sim_ctx_current();
  if (!ctx)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!event || event->ctx != ctx)
    return CUDA_ERROR_INVALID_HANDLE;
  if (is_shared(event))
    return CUDA_ERROR_NOT_SUPPORTED;
  CUresult refused = refuse_context(ctx, event);
  if (refused != CUDA_SUCCESS)
    return refused;
  unsigned count = 0;
  for (const sim_stream_t *stream = sim_streams; stream; stream = stream->next)
    count += sim_ctx_covers(ctx, stream->ctx) && stream->head;
  set_deps(event, count);
  event->time = sim_clock;
  event->clock = sim_oracle_ctx_clock(ctx);
  for (sim_stream_t *stream = sim_streams; stream; stream = stream->next) {
    if (sim_ctx_covers(ctx, stream->ctx) && stream->head)
      event->deps[event->dep_count++] = sim_dep_now(stream);
  }
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxRecordEvent, (CUcontext ctx, CUevent event), sim_event_record_context(ctx, event), "%s %s",
    sim_str_ctx(ctx), sim_str_event(event))

/* All later work of every stream that the context has waits. Each stream gets a wait of its own. */
static CUresult context_wait(CUcontext ctx_handle, CUevent handle)
{
  sim_event_t *event = lookup(handle);
  sim_ctx_t *ctx = ctx_handle ? sim_ctx_lookup(ctx_handle) : sim_ctx_current();
  if (!ctx)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!event)
    return CUDA_ERROR_INVALID_HANDLE;
  CUresult refused = refuse_context(ctx, event);
  if (refused != CUDA_SUCCESS)
    return refused;
  for (sim_stream_t *stream = sim_streams; stream; stream = stream->next) {
    if (stream->ctx != ctx || stream->zombie || (is_complete(event) && !sim_oracle_on))
      continue;
    sim_oracle_wait(stream, event->clock);
    sim_op_t *op = sim_op_new(SIM_OP_NOP);
    for (unsigned i = 0; i < event->dep_count; i++)
      sim_op_depend(op, event->deps[i]);
    sim_sched_submit(stream, op);
  }
  return CUDA_SUCCESS;
}

SIM_FN(cuCtxWaitEvent, (CUcontext ctx, CUevent event), context_wait(ctx, event), "%s %s", sim_str_ctx(ctx),
    sim_str_event(event))

/*
 * Events of several processes. Work runs in calls of the process that queued it, which need not call again:
 * so it runs when such an event is recorded, and what another process opens is always complete.
 */
typedef struct {
  uint64_t magic, number;
  uint64_t process; /* no padding: equal handles have equal bytes */
} shared_event_t;

static CUresult export_event(CUipcEventHandle *ret, CUevent handle)
{
  const sim_event_t *event = lookup(handle);
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  if (!event || !is_shared(event))
    return CUDA_ERROR_INVALID_HANDLE;
  shared_event_t shared = {MAGIC, event->number, (uint64_t)getpid()};
  memset(ret, 0, sizeof *ret);
  memcpy(ret, &shared, sizeof shared);
  return CUDA_SUCCESS;
}

SIM_FN(cuIpcGetEventHandle, (CUipcEventHandle * ret, CUevent event), export_event(ret, event), "%s",
    sim_str_event(event))

static CUresult open_event(sim_call_t *call, CUevent *ret, const CUipcEventHandle *handle)
{
  shared_event_t shared;
  memcpy(&shared, handle, sizeof shared);
  if (shared.magic != MAGIC)
    return CUDA_ERROR_INVALID_HANDLE;
  if (shared.process == (uint64_t)getpid())
    return CUDA_ERROR_INVALID_CONTEXT; /* as of memory */
  return create(call, ret, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
}

SIM_FN(cuIpcOpenEventHandle, (CUevent * ret, CUipcEventHandle handle), open_event(&call, ret, &handle),
    "-> %s", call.result == CUDA_SUCCESS ? sim_str_event(*ret) : "")

int simcuda_unseen_event(void **ret_event, const volatile void *flag)
{
  CUstream stream = NULL;
  CUevent event = NULL;
  CUresult result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING); /* the driver's own, as the others */
  if (result == CUDA_SUCCESS)
    result = cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
  if (result == CUDA_SUCCESS)
    result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS)
    result = cuEventRecord(event, stream);
  *ret_event = event;
  return (int)result;
}
