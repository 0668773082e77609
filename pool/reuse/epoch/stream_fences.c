/*
 * Reuse mode `epoch` on drivers that have no fence over a whole context (before 12.5): a fence for each
 * stream that was created, at most one outstanding, recorded only in streams that have work. The default
 * stream is asked whether it has any, and if so its fence is recorded beside it (known_streams.h). The driver
 * cannot be asked about other streams: those of threads, and destroyed ones.
 *
 * Uses: streams.h, known_streams.h, stream_facts.c, driver_calls.h, mode.h.
 */
#include "pool/driver_calls.h"
#include "pool/mode.h"
#include "pool/reuse/epoch_facts.h"
#include "pool/reuse/known_streams.h"
#include "pool/reuse/stream_record.h"
#include "pool/reuse/streams.h"

#define MAX_ASKED 64

/* The stream holds memory back. With contexts_lock held. */
static bool holds_back(gp_engine_t *engine, const gp_stream_t *stream)
{
  uint64_t newest = atomic_load(&engine->newest_free_epoch);
  return !gp_work_flag_is_clean(stream->flag) && atomic_load(&stream->completed) < newest &&
         atomic_load(&stream->context->completed) < newest;
}

static bool is_default(const gp_stream_t *stream)
{
  return stream == stream->context->default_stream;
}

static bool is_askable(const gp_stream_t *stream)
{
  return is_default(stream) || (stream->handle > GP_STREAM_LAST_OF_DEFAULTS && !stream->end_epoch);
}

bool gp_epoch_can_be_asked(gp_engine_t *engine)
{
  bool can = gp_mode_uses_streams(engine) && engine->driver.ops->stream_fence_record;

  if (!can)
    return false;
  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context)
    GP_LIST_EACH(&context->streams, const gp_stream_t, link, stream)
      can &= !holds_back(engine, stream) || is_askable(stream);
  gp_lock_release(&engine->contexts_lock);
  return can;
}

/*
 * The streams to ask about, which are this thread's to ask until it gives them back. None that is being
 * destroyed: a thread that destroys one takes it out of the table first, and waits for a thread that asks.
 */
static int take_streams(gp_engine_t *engine, gp_stream_t **array)
{
  int count = 0;

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context) {
    GP_LIST_EACH(&context->streams, gp_stream_t, link, stream) {
      bool is_there = is_default(stream) || gp_stream_find(engine, stream->handle) == stream;
      if (is_there && count < MAX_ASKED && is_askable(stream) && holds_back(engine, stream) &&
          !atomic_exchange(&stream->asked, true))
        array[count++] = stream;
    }
  }
  gp_lock_release(&engine->contexts_lock);
  return count;
}

static void answered(gp_engine_t *engine, gp_context_t *context, const gp_stream_fact_t *fact, int code)
{
  if (code == 0)
    gp_stream_fact_settle(engine, fact);
  else if (code != engine->driver.ops->code_not_ready)
    gp_driver_note(engine, context, code);
}

/* The driver is asked nothing more about its streams. */
static bool has_ended(const gp_context_t *context)
{
  return atomic_load(&context->gone) || atomic_load(&context->lost);
}

/* where: the stream in which a fence tells of this stream's work. */
static void record(gp_engine_t *engine, gp_stream_t *stream, gp_context_t *context, uint64_t where)
{
  stream->fence_context = context;
  const gp_stream_fact_t fact =
      gp_stream_fact_begin(engine, stream); /* before the record, as for any fence */
  int code = gp_driver_stream_fence_record(engine, &context->driver, where, &stream->fence);
  if (code == 0) {
    stream->fence_fact = fact;
    gp_driver_count(context, GP_COUNT_FENCE);
  } else {
    gp_driver_note(engine, context, code);
  }
}

/* Asks the fence that is outstanding. False: it has not passed. */
static bool ask_fence(gp_engine_t *engine, gp_stream_t *stream, gp_context_t *context)
{
  if (!stream->fence_fact.stream)
    return true;
  const gp_stream_fact_t fact = stream->fence_fact;
  int code = gp_driver_fence_query(engine, &context->driver, stream->fence);
  if (code == engine->driver.ops->code_not_ready)
    return false;
  stream->fence_fact.stream = NULL;
  answered(engine, context, &fact, code);
  return true;
}

static bool is_worth_recording(gp_engine_t *engine, const gp_stream_t *stream, const gp_context_t *context)
{
  return !has_ended(context) && atomic_load(&stream->completed) < atomic_load(&engine->newest_free_epoch) &&
         !gp_work_flag_is_clean(stream->flag);
}

static void ask_created(gp_engine_t *engine, gp_stream_t *stream, gp_context_t *context)
{
  if (ask_fence(engine, stream, context) && is_worth_recording(engine, stream, context))
    record(engine, stream, context, stream->handle);
}

/* If it has no work the fence tells nothing more, and goes on to be asked until it has passed. */
static void ask_default(gp_engine_t *engine, gp_stream_t *stream, gp_context_t *context)
{
  const gp_stream_fact_t fact = gp_stream_fact_begin(engine, stream);
  answered(engine, context, &fact, gp_driver_default_query(engine, &context->driver));
  if (has_ended(context) || !ask_fence(engine, stream, context) ||
      !is_worth_recording(engine, stream, context))
    return;
  uint64_t side = gp_known_streams_side(engine, context);
  if (side != 0)
    record(engine, stream, context, side);
}

bool gp_epoch_poll(gp_engine_t *engine)
{
  gp_stream_t *asked[MAX_ASKED];

  if (!engine->driver.ops->stream_fence_record || !gp_mode_uses_streams(engine) || !gp_engine_enter(engine))
    return false;
  int count = take_streams(engine, asked);
  for (int i = 0; i < count; i++) {
    gp_context_t *context = asked[i]->context;
    if (!has_ended(context) && is_default(asked[i]))
      ask_default(engine, asked[i], context);
    else if (!has_ended(context))
      ask_created(engine, asked[i], context);
    atomic_store(&asked[i]->asked, false);
  }
  gp_engine_leave(engine);
  return true;
}
