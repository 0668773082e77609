#include "interpose/passthrough.h"

#include "interpose/clock.h"
#include "interpose/current.h"
#include "interpose/library.h"

static int repeat_call(void *arg)
{
  const gp_passthrough_call_t *call = arg;
  return (int)call->call(call->arg);
}

CUresult gp_passthrough_alloc(const gp_passthrough_call_t *call)
{
  gp_engine_t *engine = gp_library_engine();
  gp_context_t *context = engine && call->pointer && call->bytes > 0 ? gp_current_context(engine) : NULL;
  gp_passthrough_t memory = {
      .size = call->bytes,
      .kind = call->kind,
      .stream = (uint64_t)(uintptr_t)call->stream,
      .has_stream = call->has_stream,
  };

  if (!context)
    return call->call(call->arg);
  if (!gp_engine_passthrough_reserve(engine, context, call->bytes, call->kind))
    return CUDA_ERROR_OUT_OF_MEMORY;
  bool capturing = gp_engine_is_suspended(engine);
  memory.time_ns = gp_clock_now_ns();
  CUresult result = call->call(call->arg);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && !capturing)
    result = (CUresult)gp_engine_passthrough_retry(engine, context, call->bytes, repeat_call, (void *)(uintptr_t)call);
  gp_engine_note_result(engine, (int)result);
  if (result != CUDA_SUCCESS) {
    gp_engine_passthrough_cancel(engine, context, call->bytes, call->kind);
    return result;
  }
  memory.address = (uint64_t)*call->pointer;
  gp_engine_passthrough_commit(engine, context, &memory, gp_clock_now_ns() - memory.time_ns);
  return result;
}

CUresult gp_passthrough_free(gp_engine_t *engine, CUdeviceptr pointer, gp_free_fn free_fn, void *arg)
{
  gp_passthrough_t memory;
  bool known = gp_engine_passthrough_take(engine, (uint64_t)pointer, &memory);
  uint64_t start_ns = gp_clock_now_ns();
  int code = free_fn(arg);

  if (known && code == CUDA_SUCCESS)
    gp_engine_passthrough_freed(engine, &memory, start_ns, gp_clock_now_ns() - start_ns);
  else if (known)
    gp_engine_passthrough_restore(engine, &memory);
  gp_engine_note_result(engine, code);
  return (CUresult)code;
}
