/*
 * What is known of single streams.
 *
 * A context has completed epoch e if each of its streams has: a stream that a synchronization covered up to
 * e, or one whose flag is clean. Clean is read after a new epoch has begun: work that was submitted before a
 * free of the old epoch set its flag before that free, whose stamp is a read-modify-write on the epoch; so
 * the flag is seen, unless it has been cleared because the work is complete (work_flags.h). Frees that come
 * later have a later stamp and are not concerned.
 *
 * Uses: streams.h, stamps.h, mode.h, work_flags.h.
 */
#include "pool/mode.h"
#include "pool/reuse/epoch_facts.h"
#include "pool/reuse/stamps.h"
#include "pool/reuse/stream_record.h"
#include "pool/reuse/streams.h"

bool gp_epoch_is_built(void)
{
  return true;
}

static bool is_default(const gp_stream_t *stream)
{
  return stream->handle == GP_STREAM_DEFAULT;
}

gp_stream_fact_t gp_stream_fact_begin(gp_engine_t *engine, gp_stream_t *stream)
{
  gp_stream_fact_t fact = {.stream = stream};

  gp_assert(!gp_holds_engine_lock());
  gp_work_submitted();
  if (!stream)
    return fact;
  fact.id = gp_stream_id(stream);
  fact.epoch = gp_epoch_begin(engine);
  gp_lock_take(&engine->contexts_lock);
  if (!is_default(stream) || gp_streams_have_one_context(engine))
    fact.token = gp_work_flag_sync_begin(stream->flag);
  gp_lock_release(&engine->contexts_lock);
  return fact;
}

/* The caller holds contexts_lock. */
static void note_completed(const gp_engine_t *engine, gp_stream_t *stream, const gp_stream_fact_t *fact)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (atomic_load(&stream->completed) < fact->epoch)
    atomic_store(&stream->completed, fact->epoch);
  gp_work_flag_sync_end(stream->flag, fact->token);
}

void gp_stream_fact_settle(gp_engine_t *engine, const gp_stream_fact_t *fact)
{
  gp_stream_t *stream = fact->stream;

  if (!stream || !gp_mode_uses_streams(engine))
    return;
  gp_lock_take(&engine->contexts_lock);
  if (gp_stream_id(stream) == fact->id)
    note_completed(engine, stream, fact);
  gp_lock_release(&engine->contexts_lock);
}

/*
 * The default stream has the same handle in all contexts, so one flag stands for the default streams of all:
 * dirty if any of them was given work. With one context it is cleared as others are. With several it is
 * cleared when all of them have completed an epoch that began after the token was taken: what set the flag
 * before is complete, and what has set it since has replaced the token.
 */
static void begin_default(gp_engine_t *engine)
{
  gp_stream_table_t *table = engine->streams;
  gp_work_flag_t *flag = gp_work_flag_place(GP_STREAM_DEFAULT);

  if (table->default_token && atomic_load(&flag->state) == table->default_token)
    return;
  table->default_token = gp_work_flag_sync_begin(flag);
  table->default_epoch = gp_epoch_begin(engine) + 1;
}

static void settle_default(gp_engine_t *engine)
{
  gp_stream_table_t *table = engine->streams;

  if (!table->default_token)
    return;
  GP_LIST_EACH(gp_live_contexts(engine), const gp_context_t, live_link, context)
    if (atomic_load(&context->completed) < table->default_epoch)
      return;
  gp_work_flag_sync_end(gp_work_flag_place(GP_STREAM_DEFAULT), table->default_token);
  table->default_token = 0;
}

void gp_epoch_sync_begin(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  bool one_context = gp_streams_have_one_context(engine);

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  GP_LIST_EACH(&context->streams, gp_stream_t, link, stream) {
    if (is_default(stream) && !one_context)
      continue;
    stream->sync_token = gp_work_flag_sync_begin(stream->flag);
    stream->sync_epoch = epoch;
  }
  if (!one_context)
    begin_default(engine);
}

void gp_epoch_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  GP_LIST_EACH(&context->streams, gp_stream_t, link, stream)
    if (stream->sync_epoch == epoch)
      gp_work_flag_sync_end(stream->flag, stream->sync_token);
}

uint64_t gp_epoch_default_completed(const gp_context_t *context)
{
  return context->default_stream ? atomic_load(&context->default_stream->completed) : 0;
}

/* The epoch that all streams of a context have completed, at most `epoch`, which has just ended. With the
 * lock. */
static uint64_t completed_by_streams(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  uint64_t by_context = atomic_load(&context->completed);
  uint64_t completed = epoch;

  gp_streams_drop_ended(engine, context, epoch, by_context);
  GP_LIST_EACH(&context->streams, const gp_stream_t, link, stream) {
    uint64_t own = atomic_load(&stream->completed);
    if (own < by_context)
      own = by_context;
    if (own < completed && !gp_work_flag_is_clean(stream->flag))
      completed = own;
  }
  return completed;
}

void gp_epoch_settle(gp_engine_t *engine)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (!gp_mode_uses_streams(engine))
    return;
  settle_default(engine);
  uint64_t epoch = gp_epoch_begin(engine); /* before any flag is read: see above */
  if (!gp_mode_uses_streams(engine))
    return; /* it ended meanwhile: work that sets no flag may be older than the epoch */
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context)
    gp_epoch_complete(context, completed_by_streams(engine, context, epoch));
}
