#include "pool/reuse/single_stream.h"

#include <sched.h>

#include "pool/state.h"
#include "pool/util/log.h"

/*
 * engine->mono changes with contexts_lock and the lock of its context's device held, and is read under the
 * latter by allocations and frees: when a thread has changed it, none that saw it as it was before is still
 * at work.
 */

static const char *sentence(gp_detail_t why)
{
  switch (why) {
  case GP_MODE_CAUSE_STREAM: return "a stream was created";
  case GP_MODE_CAUSE_PER_THREAD: return "a thread uses its own default stream";
  case GP_MODE_CAUSE_CONTEXT: return "there is a second context";
  case GP_MODE_CAUSE_PEER: return "contexts reach each other's memory";
  case GP_MODE_CAUSE_EXPORT: return "memory is shared with others";
  case GP_MODE_CAUSE_PROGRAMMATIC: return "launches overlap the ones in front of them";
  case GP_MODE_CAUSE_CAPTURE: return "a stream is captured";
  default: return "a library is loaded by which other devices reach the memory";
  }
}

void gp_single_stream_tell(gp_detail_t why)
{
  if (why == GP_MODE_SINGLE)
    gp_log(GP_LOG_INFO, "reuse mode is single: all work is in one stream");
  else if (why != GP_DETAIL_NONE)
    gp_log(GP_LOG_INFO, "reuse mode is epoch from now on: %s", sentence(why));
}

static void record_mode(gp_engine_t *engine, gp_detail_t mode)
{
  for (uint64_t devices = atomic_load(&engine->device_mask); devices; devices &= devices - 1) {
    gp_device_t *device = &engine->devices[__builtin_ctzll(devices)];
    gp_lock_take(&device->lock);
    gp_event_device(engine, device->ordinal, GP_ACTION_MODE, mode, 0, gp_now(engine));
    gp_lock_release(&device->lock);
  }
}

gp_detail_t gp_single_stream_end(gp_engine_t *engine, gp_detail_t why)
{
  gp_context_t *context = engine->mono_context;

  engine->mono_sync = 0;
  if (!atomic_load(&engine->mono))
    return GP_DETAIL_NONE;
  gp_lock_take(&context->device->lock);
  atomic_store(&engine->mono, false);
  gp_lock_release(&context->device->lock);
  if (why != GP_MODE_CONTEXT)
    record_mode(engine, why);
  return why;
}

static gp_detail_t begin(gp_engine_t *engine, gp_context_t *context)
{
  if (!engine->single || context->mono_barred || engine->mono_forbidden ||
      atomic_load(&engine->suspensions) > 0 || !gp_engine_uses_streams(engine))
    return GP_DETAIL_NONE;
  gp_lock_take(&context->device->lock);
  engine->mono_context = context;
  atomic_store(&engine->mono_debt, 0);
  atomic_store(&engine->mono, true);
  gp_lock_release(&context->device->lock);
  record_mode(engine, GP_MODE_SINGLE);
  return GP_MODE_SINGLE;
}

gp_detail_t gp_single_stream_add_context(gp_engine_t *engine, gp_context_t *context)
{
  atomic_store(&engine->mono_all_barred, false);
  if (engine->contexts.next == engine->contexts.prev)
    return begin(engine, context);
  return gp_single_stream_end(engine, GP_MODE_CAUSE_CONTEXT);
}

void gp_single_stream_drop_context(gp_engine_t *engine, const gp_context_t *context)
{
  engine->mono_sync = 0;
  if (engine->mono_context != context)
    return;
  gp_lock_take(&context->device->lock);
  atomic_store(&engine->mono, false);
  gp_lock_release(&context->device->lock);
  engine->mono_context = NULL; /* its work is over, and its memory gone: no debt */
}

void gp_single_stream_sync_begin(gp_engine_t *engine, gp_context_t *context, uint64_t epoch, bool alone)
{
  bool can_begin = alone && !atomic_load(&engine->mono) && engine->contexts.next == engine->contexts.prev &&
                   engine->contexts.next == &context->live_link;
  engine->mono_sync = can_begin ? epoch : 0;
}

gp_detail_t gp_single_stream_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  if (engine->mono_sync != epoch)
    return GP_DETAIL_NONE;
  engine->mono_sync = 0;
  return begin(engine, context);
}

/* With contexts_lock held. */
static bool is_indebted(gp_engine_t *engine)
{
  uint64_t debt = atomic_load(&engine->mono_debt);
  gp_context_t *context = engine->mono_context;

  if (debt == 0 || !context)
    return false;
  if (atomic_load(&context->completed) < debt)
    gp_streams_settle(engine);
  if (atomic_load(&context->completed) < debt && gp_streams_default_completed(context) < debt)
    return true;
  if (!atomic_load(&engine->mono))
    atomic_store(&engine->mono_debt, 0);
  return false;
}

typedef enum reach {
  REACH_NOW,
  REACH_CONTEXTS,
  REACH_PROCESS,
} reach_t;

static bool leave(gp_engine_t *engine, gp_mode_cause_t why, reach_t reach)
{
  gp_lock_take(&engine->contexts_lock);
  gp_detail_t left = gp_single_stream_end(engine, why);
  for (gp_list_t *link = engine->contexts.next; reach != REACH_NOW && link != &engine->contexts;
       link = link->next)
    gp_list_entry(link, gp_context_t, live_link)->mono_barred = true;
  if (reach != REACH_NOW)
    atomic_store(&engine->mono_all_barred, true);
  engine->mono_forbidden |= reach == REACH_PROCESS;
  bool indebted = is_indebted(engine);
  gp_lock_release(&engine->contexts_lock);
  gp_single_stream_tell(left);
  return indebted;
}

bool gp_single_stream_leave(gp_engine_t *engine, gp_mode_cause_t why)
{
  return leave(engine, why, REACH_NOW);
}

bool gp_single_stream_bar(gp_engine_t *engine, gp_mode_cause_t why)
{
  if (!engine->single || (atomic_load(&engine->mono_all_barred) && atomic_load(&engine->mono_debt) == 0))
    return false; /* nothing to do: launches come here */
  return leave(engine, why, REACH_CONTEXTS);
}

bool gp_single_stream_forbid(gp_engine_t *engine, gp_mode_cause_t why)
{
  return leave(engine, why, REACH_PROCESS);
}

/*
 * Once MONO is over its debt is there to be seen. If it is not, but the mode has ended, another thread is
 * about to end it, with allocations in flight.
 */
static bool may_owe(gp_engine_t *engine)
{
  return atomic_load(&engine->mono) || atomic_load(&engine->mono_debt) != 0;
}

/* The context of the debt, or NULL if there is none. */
static gp_context_t *debtor(gp_engine_t *engine)
{
  if (!may_owe(engine))
    return NULL;
  gp_lock_take(&engine->contexts_lock);
  if (!gp_engine_uses_streams(engine))
    (void)gp_single_stream_end(engine, GP_MODE_CONTEXT); /* which is told by who ends the mode */
  gp_context_t *context = is_indebted(engine) ? engine->mono_context : NULL;
  gp_lock_release(&engine->contexts_lock);
  return context;
}

bool gp_single_stream_has_debt(gp_engine_t *engine)
{
  return debtor(engine) != NULL;
}

/*
 * Waits for what is owed against captures: each side announces itself first and looks at the other
 * afterwards, as with gp_engine_enter_wait. That is not used here, for a thread that destroys a context need
 * not wait for this. A thread that begins a capture waits for the same thing anyhow, if it is owed.
 */
int gp_single_stream_settle(gp_engine_t *engine)
{
  if (!may_owe(engine))
    return 0;
  atomic_fetch_add(&engine->mono_settling, 1);
  gp_context_t *context = debtor(engine);
  int code = context ? gp_reuse_wait_for(engine, context) : 0;
  atomic_fetch_sub(&engine->mono_settling, 1);
  return code;
}

void gp_single_stream_capture(gp_engine_t *engine)
{
  gp_context_t *context = leave(engine, GP_MODE_CAUSE_CAPTURE, REACH_NOW) ? debtor(engine) : NULL;

  if (context)
    (void)gp_reuse_wait_for(engine, context); /* what went wrong the capture will say */
  while (atomic_load(&engine->mono_settling) > 0)
    sched_yield(); /* who saw the debt before it was settled */
}

int gp_single_stream_order(gp_engine_t *engine, uint64_t stream)
{
  const gp_driver_ops_t *ops = engine->driver.ops;
  gp_context_t *context = debtor(engine);

  if (!context)
    return 0;
  if (ops->order && gp_engine_enter(engine)) {
    int code = gp_driver_order(engine, &context->driver, stream);
    gp_engine_leave(engine);
    if (code == 0)
      return 0;
  }
  return gp_single_stream_settle(engine);
}
