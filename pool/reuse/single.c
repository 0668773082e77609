#include "pool/reuse/single.h"

#include <sched.h>

#include "pool/driver_calls.h"
#include "pool/reuse/fences.h"
#include "pool/util/log.h"

/* The caller holds contexts_lock. True: this call ended the mode. */
static bool end(gp_engine_t *engine)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (gp_engine_reuse_mode(engine) != GP_MODE_SINGLE)
    return false;
  gp_mode_end_single(engine);
  return true;
}

/*
 * The work of the newest owner whose block was handed out at once is not known to be complete. Without such
 * work its epoch is forgotten once the mode is over. The caller holds contexts_lock.
 */
static bool has_unordered(gp_engine_t *engine)
{
  uint64_t epoch = atomic_load(&engine->single.unordered_epoch);
  const gp_context_t *context = engine->single.context;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (epoch == 0)
    return false;
  if (context && !atomic_load(&context->gone) && atomic_load(&context->completed) < epoch)
    return true;
  if (gp_engine_reuse_mode(engine) != GP_MODE_SINGLE)
    atomic_store(&engine->single.unordered_epoch, 0);
  return false;
}

/* Once the mode is over its unordered work is there to be seen. If it is not, but the mode has ended, another
 * thread is about to end it, with allocations in flight. */
bool gp_single_is_over(const gp_engine_t *engine)
{
  return gp_engine_reuse_mode(engine) != GP_MODE_SINGLE && atomic_load(&engine->single.unordered_epoch) == 0;
}

/* Ends the mode, and returns the context with unordered work; NULL: there is none. */
static gp_context_t *end_and_find(gp_engine_t *engine, const char *why)
{
  gp_assert(!gp_holds_engine_lock());
  if (gp_single_is_over(engine))
    return NULL;
  gp_lock_take(&engine->contexts_lock);
  bool ended = end(engine);
  gp_context_t *context = has_unordered(engine) ? engine->single.context : NULL;
  gp_lock_release(&engine->contexts_lock);
  if (ended) {
    gp_log(GP_LOG_INFO, "reuse mode is context from now on: %s", why);
    gp_mode_record(engine, GP_DETAIL_MODE_CONTEXT);
  }
  return context;
}

/*
 * Waits for unordered work against captures: each side announces itself first and looks at the other
 * afterwards, as with gp_engine_enter_wait. That is not used here, for a thread that destroys a context need
 * not wait for this. A thread that begins a capture waits for the same thing anyhow, if there is unordered
 * work.
 */
int gp_single_end(gp_engine_t *engine, const char *why)
{
  if (gp_single_is_over(engine))
    return 0;
  atomic_fetch_add(&engine->single.settling, 1);
  gp_context_t *context = end_and_find(engine, why);
  int code = context ? gp_fences_wait_context(engine, context) : 0;
  atomic_fetch_sub(&engine->single.settling, 1);
  return code;
}

int gp_single_end_for_stream(gp_engine_t *engine, uint64_t handle, const char *why)
{
  gp_context_t *context = end_and_find(engine, why);

  if (!context || handle == 0)
    return 0;
  if (engine->driver.ops->order && gp_engine_enter(engine)) {
    int code = gp_driver_order(engine, &context->driver, handle);
    gp_engine_leave(engine);
    if (code == 0)
      return 0;
  }
  return gp_single_end(engine, why);
}

void gp_single_end_for_capture(gp_engine_t *engine)
{
  gp_context_t *context = end_and_find(engine, "a stream is captured");

  if (context)
    (void)gp_fences_wait_context(engine, context); /* what went wrong the capture will say */
  while (atomic_load(&engine->single.settling) > 0)
    sched_yield(); /* a thread saw the unordered work before it was settled */
}

bool gp_single_has_unordered(gp_engine_t *engine)
{
  if (gp_single_is_over(engine))
    return false;
  gp_lock_take(&engine->contexts_lock);
  bool has = has_unordered(engine);
  gp_lock_release(&engine->contexts_lock);
  return has;
}

void gp_single_add_context(gp_engine_t *engine, gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (!engine->single.context && gp_engine_reuse_mode(engine) == GP_MODE_SINGLE)
    engine->single.context = context;
}

void gp_single_drop_context(gp_engine_t *engine, const gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (engine->single.context != context)
    return;
  if (end(engine))
    gp_mode_record(engine, GP_DETAIL_MODE_CONTEXT);
  engine->single.context = NULL; /* its work is over, and its memory gone: nothing is unordered */
}
