#include "interpose/hooks/default_stream.h"

#include "interpose/hooks/current_context.h"

gp_default_call_t gp_default_call_begin_barrier(gp_engine_t *engine)
{
  gp_default_call_t call = {.engine = engine, .context = gp_current_context(engine)};
  if (call.context)
    call.epoch = gp_barrier_begin(engine, call.context);
  return call;
}
