/*
 * The two states in which the engine stands aside: suspended for a while, and for good after a sticky error.
 */
#include <sched.h>

#include "pool/state.h"
#include "pool/util/log.h"

/*
 * Suspensions against our own driver calls: each side announces itself first and looks at the other
 * afterwards, in sequentially consistent order, so that not both can miss the other.
 */
bool gp_engine_enter(gp_engine_t *engine)
{
  atomic_fetch_add(&engine->own_calls, 1);
  if (!gp_engine_forwards(engine))
    return true;
  gp_engine_leave(engine);
  return false;
}

void gp_engine_leave(gp_engine_t *engine)
{
  atomic_fetch_sub(&engine->own_calls, 1);
}

bool gp_engine_enter_wait(gp_engine_t *engine)
{
  atomic_fetch_add(&engine->own_waits, 1);
  if (!gp_engine_forwards(engine))
    return true;
  gp_engine_leave_wait(engine);
  return false;
}

void gp_engine_leave_wait(gp_engine_t *engine)
{
  atomic_fetch_sub(&engine->own_waits, 1);
}

/*
 * The suspension is counted already. A call that waits for the device is waited for as long as the caller has
 * patience: the work may need the calling thread to go on. What matters is that the call has reached the
 * driver before the program's does, which after that time it has: from the look at the suspensions to the
 * driver it is a few instructions.
 */
static void await_own_calls(gp_engine_t *engine)
{
  while (atomic_load(&engine->own_calls) > 0)
    sched_yield(); /* a driver call of another thread, which does not wait for us */
  if (atomic_load(&engine->own_waits) == 0)
    return;
  uint64_t begin_ns = gp_now(engine);
  while (atomic_load(&engine->own_waits) > 0 && gp_now(engine) - begin_ns < GP_PATIENCE_NS)
    sched_yield();
}

/* See gp_engine_may_conclude. Called where captures are counted as begun and not begun yet, or ended and
 * counted still. */
static void void_facts(gp_engine_t *engine)
{
  uint64_t epoch = gp_reuse_begin(engine);
  uint64_t before = atomic_load(&engine->void_epoch);
  while (before < epoch && !atomic_compare_exchange_weak(&engine->void_epoch, &before, epoch)) {
  }
}

uint64_t gp_engine_ask_begin(const gp_engine_t *engine)
{
  return atomic_load(&engine->epoch);
}

bool gp_engine_may_conclude(const gp_engine_t *engine, uint64_t token)
{
  return atomic_load(&engine->suspensions) == 0 && token > atomic_load(&engine->void_epoch);
}

void gp_engine_suspend(gp_engine_t *engine)
{
  atomic_fetch_add(&engine->suspensions, 1);
  await_own_calls(engine);
}

void gp_engine_resume(gp_engine_t *engine)
{
  int before = atomic_fetch_sub(&engine->suspensions, 1);
  gp_assert(before > 0);
  (void)before;
}

gp_context_t *gp_engine_suspend_in(gp_engine_t *engine, gp_context_t *context)
{
  gp_lock_take(&engine->contexts_lock);
  if (context && atomic_load(&context->lost))
    context = NULL;
  if (context)
    context->suspensions++;
  atomic_fetch_add(&engine->suspensions, 1);
  void_facts(engine);
  gp_lock_release(&engine->contexts_lock);
  await_own_calls(engine);
  return context;
}

void gp_engine_resume_in(gp_engine_t *engine, gp_context_t *owner)
{
  gp_lock_take(&engine->contexts_lock);
  if (!owner || owner->suspensions > 0) { /* else it went with its owner */
    if (owner)
      owner->suspensions--;
    void_facts(engine);
    gp_engine_resume(engine);
  }
  gp_lock_release(&engine->contexts_lock);
}

void gp_suspend_context_lost(gp_engine_t *engine, gp_context_t *context)
{
  if (context->suspensions > 0)
    void_facts(engine);
  atomic_fetch_sub(&engine->suspensions, context->suspensions);
  context->suspensions = 0;
}

bool gp_engine_is_suspended(const gp_engine_t *engine)
{
  return atomic_load(&engine->suspensions) > 0;
}

bool gp_engine_forwards(const gp_engine_t *engine)
{
  return atomic_load(&engine->suspensions) > 0 || atomic_load(&engine->dead);
}

/* What is cached cannot be used any more: the driver gets it now. */
static void give_all_back(gp_engine_t *engine)
{
  for (uint64_t devices = atomic_load(&engine->device_mask); devices; devices &= devices - 1)
    (void)gp_release_largest(
        engine, &engine->devices[__builtin_ctzll(devices)], UINT64_MAX, GP_TRIM_REQUESTED);
}

gp_mode_t gp_engine_mode(const gp_engine_t *engine)
{
  if (atomic_load(&engine->dead))
    return atomic_load(&engine->aside) ? GP_MODE_ASIDE : GP_MODE_DEAD;
  if (engine->strict)
    return GP_MODE_STRICT;
  if (gp_single_stream_holds(engine))
    return GP_MODE_SINGLE;
  return gp_engine_uses_streams(engine) ? GP_MODE_EPOCH : GP_MODE_CONTEXT;
}

static void die(gp_engine_t *engine)
{
  if (atomic_exchange(&engine->dead, true))
    return;
  for (uint64_t devices = atomic_load(&engine->device_mask); devices; devices &= devices - 1) {
    gp_device_t *device = &engine->devices[__builtin_ctzll(devices)];
    gp_lock_take(&device->lock);
    gp_event_device(engine, device->ordinal, GP_ACTION_MODE, gp_engine_mode(engine), 0, gp_now(engine));
    gp_lock_release(&device->lock);
  }
}

void gp_engine_note_result(gp_engine_t *engine, int code)
{
  if (code == 0 || !engine->driver.ops->code_is_sticky || !engine->driver.ops->code_is_sticky(code))
    return;
  atomic_store(&engine->aside, false); /* nothing can go back any more */
  if (atomic_load(&engine->dead))
    return;
  gp_log(GP_LOG_ERROR,
      "the driver reported error %d, after which nothing works in the context; no more pooling", code);
  die(engine); /* without giving back: no call would work */
}

/*
 * Called from look-ups, too, and others of the program's calls that do not wait. What the device may still
 * use is therefore left to the program's next free, as a kernel may be waiting for this very thread.
 */
void gp_engine_stop_pooling(gp_engine_t *engine)
{
  if (atomic_load(&engine->dead))
    return;
  gp_reuse_poll(engine);
  give_all_back(engine);
  atomic_store(&engine->aside, true);
  die(engine);
}

/*
 * No waits, fences or rules of ours: the engine stands aside because they may not hold. The driver's free is
 * right whoever uses the memory. As with gp_reuse_wait, it is not between enter and leave.
 */
uint64_t gp_aside_release(gp_engine_t *engine)
{
  uint64_t bytes = 0;

  if (!atomic_load_explicit(&engine->aside, memory_order_relaxed) || atomic_load(&engine->suspensions) > 0)
    return 0;
  for (uint64_t devices = atomic_load(&engine->device_mask); devices; devices &= devices - 1)
    bytes += gp_release_unused(engine, &engine->devices[__builtin_ctzll(devices)], GP_TRIM_REQUESTED);
  return bytes;
}
