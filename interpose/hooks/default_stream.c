#include "interpose/hooks/default_stream.h"

#include "interpose/hooks/current_context.h"
#include "pool/reuse/barriers.h"

gp_default_call_t gp_default_call_begin(gp_engine_t *engine, CUstream stream, bool per_thread)
{
  gp_default_call_t call = {.engine = engine};
  bool is_legacy = stream == CU_STREAM_LEGACY || (!stream && !per_thread);

  if (!engine || !is_legacy || !gp_barriers_would_tell(engine))
    return call;
  call.context = gp_current_context(engine);
  if (call.context)
    call.epoch = gp_barrier_begin(engine, call.context);
  return call;
}

void gp_default_call_end(const gp_default_call_t *call, CUresult result)
{
  if (call->epoch != 0 && result == CUDA_SUCCESS)
    gp_barrier_end(call->engine, call->context, call->epoch);
}
