#include "pool/reuse/single_stream.h"

#include <sched.h>

#include "pool/driver_calls.h"
#include "pool/mode.h"
#include "pool/reuse/epoch_facts.h"
#include "pool/reuse/fences.h"
#include "pool/reuse/single_order.h"

/*
 * The work of the newest owner whose block was handed out at once is not known to be complete. Without such
 * work, the epoch of it is forgotten once the mode is over. The caller holds contexts_lock.
 */
static bool has_unordered(gp_engine_t *engine)
{
  uint64_t epoch = atomic_load(&engine->single.unordered_epoch);
  gp_context_t *context = engine->single.context;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (epoch == 0 || !context || atomic_load(&context->gone))
    return false;
  if (atomic_load(&context->completed) < epoch)
    gp_epoch_settle(engine); /* perhaps the facts about streams cover it */
  if (atomic_load(&context->completed) < epoch && gp_epoch_default_completed(context) < epoch)
    return true;
  if (atomic_load(&engine->reuse_mode) != GP_MODE_SINGLE)
    atomic_store(&engine->single.unordered_epoch, 0);
  return false;
}

/* One hold of the lock: a thread that sees that all contexts bar the mode may rely on it that it is over. */
static bool leave(gp_engine_t *engine, gp_mode_cause_t why, void (*and_then)(gp_engine_t *engine))
{
  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&engine->contexts_lock);
  gp_detail_t left = gp_single_order_end(engine, why);
  if (and_then)
    and_then(engine);
  bool unordered = has_unordered(engine);
  gp_lock_release(&engine->contexts_lock);
  gp_single_order_tell(engine, left);
  return unordered;
}

bool gp_single_stream_leave(gp_engine_t *engine, gp_mode_cause_t why)
{
  return leave(engine, why, NULL);
}

bool gp_single_stream_bar(gp_engine_t *engine, gp_mode_cause_t why)
{
  const gp_single_state_t *single = &engine->single;

  if (!single->is_wanted || (atomic_load(&single->all_barred) && atomic_load(&single->unordered_epoch) == 0))
    return false; /* nothing to do: launches come here */
  return leave(engine, why, gp_single_order_bar);
}

bool gp_single_stream_forbid(gp_engine_t *engine, gp_mode_cause_t why)
{
  return leave(engine, why, gp_single_order_forbid);
}

/*
 * Once the mode is over its unordered work is there to be seen. If it is not, but the mode has ended, another
 * thread is about to end it, with allocations in flight.
 */
static bool may_have_unordered(const gp_engine_t *engine)
{
  return atomic_load(&engine->reuse_mode) == GP_MODE_SINGLE ||
         atomic_load(&engine->single.unordered_epoch) != 0;
}

/* The context with unordered work, or NULL if there is none. */
static gp_context_t *unordered_context(gp_engine_t *engine)
{
  if (!may_have_unordered(engine))
    return NULL;
  gp_lock_take(&engine->contexts_lock);
  if (!gp_mode_uses_streams(engine))
    (void)gp_single_order_end(engine, GP_DETAIL_NONE); /* reuse/advance.c tells why */
  gp_context_t *context = has_unordered(engine) ? engine->single.context : NULL;
  gp_lock_release(&engine->contexts_lock);
  return context;
}

bool gp_single_stream_has_unordered(gp_engine_t *engine)
{
  return unordered_context(engine) != NULL;
}

/*
 * Waits for unordered work against captures: each side announces itself first and looks at the other
 * afterwards, as with gp_engine_enter_wait. That is not used here, for a thread that destroys a context need
 * not wait for this. A thread that begins a capture waits for the same thing anyhow, if there is unordered
 * work.
 */
int gp_single_stream_settle(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  if (!may_have_unordered(engine))
    return 0;
  atomic_fetch_add(&engine->single.settling, 1);
  gp_context_t *context = unordered_context(engine);
  int code = context ? gp_fences_wait_context(engine, context) : 0;
  atomic_fetch_sub(&engine->single.settling, 1);
  return code;
}

void gp_single_stream_capture(gp_engine_t *engine)
{
  bool unordered = gp_single_stream_leave(engine, GP_MODE_CAUSE_CAPTURE);
  gp_context_t *context = unordered ? unordered_context(engine) : NULL;

  gp_assert(!gp_holds_engine_lock());
  if (context)
    (void)gp_fences_wait_context(engine, context); /* what went wrong the capture will say */
  while (atomic_load(&engine->single.settling) > 0)
    sched_yield(); /* a thread saw the unordered work before it was settled */
}

int gp_single_stream_order(gp_engine_t *engine, uint64_t stream)
{
  gp_context_t *context = unordered_context(engine);

  if (!context)
    return 0;
  if (engine->driver.ops->order && gp_engine_enter(engine)) {
    int code = gp_driver_order(engine, &context->driver, stream);
    gp_engine_leave(engine);
    if (code == 0)
      return 0;
  }
  return gp_single_stream_settle(engine);
}
