#include "pool/reuse/stream_calls.h"

#include "pool/mode.h"
#include "pool/reuse/single_order.h"
#include "pool/reuse/stream_record.h"

static void no_memory(gp_engine_t *engine)
{
  gp_streams_escape(engine, "the host has no memory to follow streams");
}

void gp_stream_created(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  if (!engine->streams)
    return;
  gp_lock_take(&engine->contexts_lock);
  bool kept = gp_stream_add(engine, context, handle) != NULL;
  gp_detail_t left = gp_single_order_end(engine, GP_DETAIL_MODE_CAUSE_STREAM);
  gp_lock_release(&engine->contexts_lock);
  gp_single_order_tell(engine, left);
  if (!kept)
    no_memory(engine);
}

void gp_stream_restored(gp_engine_t *engine, gp_stream_t *stream)
{
  if (stream && !gp_stream_put_back(engine, stream))
    no_memory(engine);
}

gp_stream_t *gp_stream_of_thread(gp_engine_t *engine, gp_context_t *context)
{
  gp_stream_t *stream = gp_stream_known_of_thread(engine, context);

  if (stream || !engine->streams)
    return stream;
  gp_lock_take(&engine->contexts_lock);
  stream = gp_stream_add_of_thread(engine, context);
  gp_detail_t left = gp_single_order_end(engine, GP_DETAIL_MODE_CAUSE_PER_THREAD);
  gp_lock_release(&engine->contexts_lock);
  gp_single_order_tell(engine, left);
  if (!stream)
    no_memory(engine);
  return stream;
}

void gp_stream_mark(gp_engine_t *engine, gp_stream_t *stream)
{
  if (gp_submitter_init())
    gp_work_flag_set(stream->flag);
  else
    no_memory(engine);
}

void gp_stream_mark_own(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  if (!gp_mode_uses_streams(engine))
    return;
  gp_stream_t *stream = handle > GP_STREAM_PER_THREAD    ? gp_stream_find(engine, handle)
                        : handle == GP_STREAM_PER_THREAD ? gp_stream_of_thread(engine, context)
                                                         : gp_stream_default(context);
  if (stream)
    gp_stream_mark(engine, stream);
  else if (handle > GP_STREAM_PER_THREAD)
    gp_streams_escape(engine, "memory was taken in a stream that was made by an unknown way");
}

void gp_stream_fact_end(gp_engine_t *engine, const gp_stream_fact_t *fact)
{
  if (!fact->stream || !gp_mode_uses_streams(engine))
    return;
  gp_stream_fact_settle(engine, fact);
  gp_advance(engine);
}
