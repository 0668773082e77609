#include "pool/reuse/single_order.h"

#include "pool/reuse/streams.h"
#include "pool/util/log.h"

static const char *sentence(gp_detail_t why)
{
  switch (why) {
  case GP_DETAIL_MODE_CAUSE_STREAM: return "a stream was created";
  case GP_DETAIL_MODE_CAUSE_PER_THREAD: return "a thread uses its own default stream";
  case GP_DETAIL_MODE_CAUSE_CONTEXT: return "there is a second context";
  case GP_DETAIL_MODE_CAUSE_PEER: return "contexts reach each other's memory";
  case GP_DETAIL_MODE_CAUSE_EXPORT: return "memory is shared with others";
  case GP_DETAIL_MODE_CAUSE_PROGRAMMATIC: return "launches overlap the ones in front of them";
  case GP_DETAIL_MODE_CAUSE_CAPTURE: return "a stream is captured";
  default: return "a library is loaded by which other devices reach the memory";
  }
}

void gp_single_order_tell(const gp_engine_t *engine, gp_detail_t what)
{
  gp_assert(!gp_holds_engine_lock());
  if (what == GP_DETAIL_MODE_SINGLE)
    gp_log(GP_LOG_INFO, "reuse mode is single: all work is in one stream");
  else if (what != GP_DETAIL_NONE)
    gp_log(GP_LOG_INFO, "reuse mode is %s from now on: %s",
        engine->epoch_mode == GP_MODE_EPOCH ? "epoch" : "context", sentence(what));
}

gp_detail_t gp_single_order_end(gp_engine_t *engine, gp_detail_t why)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  engine->single.sync_epoch = 0;
  if (atomic_load(&engine->reuse_mode) != GP_MODE_SINGLE)
    return GP_DETAIL_NONE;
  gp_mode_change_reuse(engine, GP_MODE_EPOCH);
  if (why != GP_DETAIL_NONE)
    gp_mode_record(engine, engine->epoch_mode == GP_MODE_EPOCH ? why : GP_DETAIL_MODE_CONTEXT);
  return why;
}

static gp_detail_t begin(gp_engine_t *engine, gp_context_t *context)
{
  gp_single_state_t *single = &engine->single;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (!single->is_wanted || single->is_forbidden || context->bars_single || gp_engine_is_suspended(engine) ||
      !gp_mode_uses_streams(engine))
    return GP_DETAIL_NONE;
  single->context = context;
  atomic_store(&single->unordered_epoch, 0);
  gp_mode_change_reuse(engine, GP_MODE_SINGLE);
  gp_mode_record(engine, GP_DETAIL_MODE_SINGLE);
  return GP_DETAIL_MODE_SINGLE;
}

void gp_single_order_bar(gp_engine_t *engine)
{
  gp_assert(atomic_load(&engine->reuse_mode) != GP_MODE_SINGLE);
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context)
    context->bars_single = true;
  atomic_store(&engine->single.all_barred, true);
}

void gp_single_order_forbid(gp_engine_t *engine)
{
  gp_single_order_bar(engine);
  engine->single.is_forbidden = true;
}

gp_detail_t gp_single_order_add_context(gp_engine_t *engine, gp_context_t *context)
{
  atomic_store(&engine->single.all_barred, false);
  if (gp_streams_have_one_context(engine))
    return begin(engine, context);
  return gp_single_order_end(engine, GP_DETAIL_MODE_CAUSE_CONTEXT);
}

void gp_single_order_drop_context(gp_engine_t *engine, const gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (engine->single.context != context) {
    engine->single.sync_epoch = 0;
    return;
  }
  (void)gp_single_order_end(engine, GP_DETAIL_NONE);
  gp_assert_internal(!gp_single_order_holds(engine));
  engine->single.context = NULL; /* its work is over, and its memory gone: nothing is unordered */
}

void gp_single_order_sync_begin(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  bool is_only_context =
      gp_streams_have_one_context(engine) && gp_live_contexts(engine)->next == &context->live_link;
  bool can_begin = engine->single.is_wanted && is_only_context &&
                   atomic_load(&engine->reuse_mode) != GP_MODE_SINGLE && gp_streams_are_default_only(context);
  engine->single.sync_epoch = can_begin ? epoch : 0;
}

gp_detail_t gp_single_order_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (engine->single.sync_epoch != epoch)
    return GP_DETAIL_NONE;
  engine->single.sync_epoch = 0;
  return begin(engine, context);
}
