#include "pool/reuse/mode.h"

#include <sched.h>

#include "pool/events.h"
#include "pool/reuse/stamps.h"
#include "base/log.h"

typedef enum change {
  CHANGE_REFUSE,
  CHANGE_ACCEPT,
  CHANGE_SUSPEND,
  CHANGE_RESUME,
  CHANGE_STOP, /* does nothing if the engine forwards permanently */
  CHANGE_DIE,
} change_t;

/* Changes engine->service, and returns its previous value. `count` is the number of suspensions and captures
 * that begin or end, in the units of mode.h. */
static uint64_t change_service(gp_engine_t *engine, change_t change, uint64_t count)
{
  uint64_t before = atomic_load(&engine->service);
  uint64_t after = before;

  do {
    switch (change) {
    case CHANGE_REFUSE: after = before | GP_SERVICE_BIT_REFUSE; break;
    case CHANGE_ACCEPT: after = before & ~GP_SERVICE_BIT_REFUSE; break;
    case CHANGE_SUSPEND: after = before + count; break;
    case CHANGE_RESUME:
      gp_assert(before >= count);
      after = before - count;
      break;
    case CHANGE_STOP: after = before & GP_SERVICE_BIT_DEAD ? before : before | GP_SERVICE_BIT_STOPPED; break;
    case CHANGE_DIE: after = (before & ~GP_SERVICE_BIT_STOPPED) | GP_SERVICE_BIT_DEAD; break;
    }
  } while (!atomic_compare_exchange_weak(&engine->service, &before, after));
  return before;
}

void gp_mode_init(gp_engine_t *engine, bool refuses, gp_mode_t reuse_mode)
{
  atomic_init(&engine->service, 0);
  engine->reuse_mode = reuse_mode;
  if (refuses)
    (void)change_service(engine, CHANGE_REFUSE, 0);
}

void gp_mode_accept_limits(gp_engine_t *engine)
{
  (void)change_service(engine, CHANGE_ACCEPT, 0);
}

static bool forwards_for_good(uint64_t service)
{
  return (service & (GP_SERVICE_BIT_STOPPED | GP_SERVICE_BIT_DEAD)) != 0;
}

bool gp_mode_stop(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  if (forwards_for_good(change_service(engine, CHANGE_STOP, 0)))
    return false;
  gp_mode_record(engine, gp_engine_mode(engine));
  return true;
}

void gp_engine_note_result(gp_engine_t *engine, int code)
{
  if (code == 0 || !engine->driver.ops->code_is_sticky || !engine->driver.ops->code_is_sticky(code))
    return;
  if (forwards_for_good(change_service(engine, CHANGE_DIE, 0)) || code == engine->driver.ops->code_ended)
    return; /* for code_ended, because other threads still run while the process exits */
  gp_log(
      GP_LOG_ERROR, "the driver reported sticky error %d, so the context is unusable; pooling stops", code);
  gp_mode_record(engine, gp_engine_mode(engine)); /* releases no memory, because driver calls would fail */
}

/*
 * The common end of the gp_engine_enter functions. Suspensions exclude the engine's own driver calls. A
 * suspension and a call each first increment their own count and then read the count of the other, in
 * sequentially consistent order. So they cannot both miss each other.
 *
 * may_call is the result of that read, and is returned. If it is false, uncounts the call first.
 */
static bool entered(gp_engine_t *engine, bool may_call)
{
  if (may_call)
    return true;
  gp_engine_leave(engine);
  return false;
}

bool gp_engine_enter(gp_engine_t *engine)
{
  atomic_fetch_add(&engine->own_calls, 1);
  return entered(engine, !gp_engine_forwards(engine));
}

bool gp_engine_enter_stream(gp_engine_t *engine)
{
  atomic_fetch_add(&engine->own_calls, 1);
  return entered(engine, !gp_mode_forwards_async(engine));
}

bool gp_engine_enter_question(gp_engine_t *engine)
{
  atomic_fetch_add(&engine->own_calls, 1);
  uint64_t service = atomic_load(&engine->service);
  return entered(engine, !gp_service_is_suspended(service) && !(service & GP_SERVICE_BIT_DEAD));
}

void gp_engine_leave(gp_engine_t *engine)
{
  int before = atomic_fetch_sub(&engine->own_calls, 1);
  gp_assert(before > 0);
  (void)before;
}

bool gp_engine_enter_wait(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  atomic_fetch_add(&engine->own_waits, 1);
  if (!gp_engine_forwards(engine))
    return true;
  gp_engine_leave_wait(engine);
  return false;
}

void gp_engine_leave_wait(gp_engine_t *engine)
{
  int before = atomic_fetch_sub(&engine->own_waits, 1);
  gp_assert(before > 0);
  (void)before;
}

/*
 * Waits for the engine's own driver calls, after the caller has counted the suspension. Waits for calls that
 * wait for the device (own_waits) only for GP_AWAIT_CALLS_NS, because the device's work may need the calling
 * thread to continue. Such a call must reach the driver before the program's call does. After that time it
 * has reached the driver, because only a few instructions separate the driver call from its check for
 * suspensions.
 */
static void await_own_calls(gp_engine_t *engine)
{
  while (atomic_load(&engine->own_calls) > 0)
    sched_yield(); /* these calls do not wait for this thread */
  if (atomic_load(&engine->own_waits) == 0)
    return;
  uint64_t begin_ns = gp_now(engine);
  while (atomic_load(&engine->own_waits) > 0 && gp_now(engine) - begin_ns < GP_AWAIT_CALLS_NS)
    sched_yield();
}

/* Invalidates completion proofs that began before now (gp_engine_may_conclude). Called while a capture is
 * counted, but before it begins or after it has ended. The caller holds contexts_lock. */
static void void_proofs(gp_engine_t *engine)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  uint64_t epoch = gp_epoch_begin(engine);
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
  return !gp_engine_is_suspended(engine) && token > atomic_load(&engine->void_epoch);
}

void gp_engine_suspend(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  atomic_fetch_add(&engine->endings, 1);
  (void)change_service(engine, CHANGE_SUSPEND, GP_SERVICE_SUSPENSION);
  await_own_calls(engine);
}

void gp_engine_resume(gp_engine_t *engine)
{
  (void)change_service(engine, CHANGE_RESUME, GP_SERVICE_SUSPENSION);
  atomic_fetch_add(&engine->endings_over, 1);
  atomic_fetch_sub(&engine->endings, 1);
}

/* Numbers of threads that have begun a capture of reach GP_REACH_THREAD. A number is never reused. */
static _Atomic uint64_t last_capturer;
static _Thread_local uint64_t own_capturer __attribute__((tls_model("initial-exec"))); /* 0: none yet */

bool gp_mode_thread_captures(const gp_engine_t *engine)
{
  bool captures = false;

  for (int i = 0; own_capturer != 0 && i < GP_CAPTURERS; i++)
    captures = captures || atomic_load(&engine->capturers[i].thread) == own_capturer;
  return captures;
}

/* Returns the entry of the thread with this number and owner; NULL if there is none. With thread 0, returns
 * the first free entry. The caller holds contexts_lock. */
static gp_capturer_t *find_capturer(gp_engine_t *engine, uint64_t thread, const gp_context_t *owner)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  for (int i = 0; i < GP_CAPTURERS; i++) {
    gp_capturer_t *capturer = &engine->capturers[i];
    if (atomic_load(&capturer->thread) == thread && (thread == 0 || capturer->owner == owner))
      return capturer;
  }
  return NULL;
}

/* Registers the calling thread as capturing. Called before the capture is counted, so that no request of the
 * thread comes in between. Returns false if there is no free entry. The caller holds contexts_lock. */
static bool note_capturer(gp_engine_t *engine, gp_suspension_t *suspension)
{
  gp_capturer_t *place = find_capturer(engine, 0, NULL);

  if (!place)
    return false;
  if (own_capturer == 0)
    own_capturer = atomic_fetch_add(&last_capturer, 1) + 1;
  place->owner = suspension->owner;
  atomic_store(&place->thread, own_capturer);
  suspension->thread = own_capturer;
  return true;
}

/* Returns the unit of engine->service in which the suspension counts. If more threads capture than there are
 * entries, the capture reaches all threads. */
static uint64_t unit_of(gp_engine_t *engine, gp_reach_t reach, gp_suspension_t *suspension)
{
  if (reach == GP_REACH_EVERYTHING || gp_engine_reuse_mode(engine) != GP_MODE_CONTEXT)
    return GP_SERVICE_SUSPENSION;
  if (reach == GP_REACH_THREADS || (reach == GP_REACH_THREAD && !note_capturer(engine, suspension)))
    return GP_SERVICE_CAPTURE_FOR_ALL;
  return GP_SERVICE_CAPTURE;
}

gp_suspension_t gp_engine_suspend_in(gp_engine_t *engine, gp_context_t *context, gp_reach_t reach)
{
  gp_suspension_t suspension = {.owner = context};

  gp_lock_take(&engine->contexts_lock);
  if (context && atomic_load(&context->lost))
    suspension.owner = NULL;
  suspension.unit = unit_of(engine, reach, &suspension);
  if (suspension.owner)
    suspension.owner->suspensions += suspension.unit;
  (void)change_service(engine, CHANGE_SUSPEND, suspension.unit);
  void_proofs(engine);
  gp_lock_release(&engine->contexts_lock);
  await_own_calls(engine);
  return suspension;
}

/* A lost context has no suspensions, because gp_mode_context_lost has ended them. */
void gp_engine_resume_in(gp_engine_t *engine, const gp_suspension_t *suspension)
{
  gp_context_t *owner = suspension->owner;

  gp_lock_take(&engine->contexts_lock);
  if (!owner || owner->suspensions != 0) {
    gp_assert(!owner || owner->suspensions >= suspension->unit);
    if (owner)
      owner->suspensions -= suspension->unit;
    if (suspension->thread != 0)
      atomic_store(&find_capturer(engine, suspension->thread, owner)->thread, 0);
    void_proofs(engine);
    (void)change_service(engine, CHANGE_RESUME, suspension->unit);
  }
  gp_lock_release(&engine->contexts_lock);
}

void gp_mode_context_lost(gp_engine_t *engine, gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (context->suspensions == 0)
    return;
  void_proofs(engine);
  for (int i = 0; i < GP_CAPTURERS; i++)
    if (engine->capturers[i].owner == context)
      atomic_store(&engine->capturers[i].thread, 0);
  (void)change_service(engine, CHANGE_RESUME, context->suspensions);
  context->suspensions = 0;
}

bool gp_engine_is_suspended(const gp_engine_t *engine)
{
  return gp_service_is_suspended(atomic_load(&engine->service));
}

bool gp_engine_pools(const gp_engine_t *engine)
{
  return engine->type->keeps_blocks && gp_engine_service(engine) == GP_SERVICE_POOL;
}

/* ASIDE and DEAD take precedence even if the engine refuses requests, because they are still true after a new
 * limit is set. */
gp_mode_t gp_engine_mode(const gp_engine_t *engine)
{
  uint64_t service = atomic_load(&engine->service);

  if (forwards_for_good(service))
    return service & GP_SERVICE_BIT_DEAD ? GP_MODE_DEAD : GP_MODE_ASIDE;
  return engine->reuse_mode;
}

void gp_mode_record(gp_engine_t *engine, gp_detail_t mode)
{
  GP_DEVICE_EACH(engine, device)
  {
    gp_lock_take(&device->lock);
    gp_event_device(engine, device->ordinal, GP_ACTION_MODE, mode, 0, gp_now(engine));
    gp_lock_release(&device->lock);
  }
}

atomic_bool gp_mode_distrusted;

void gp_mode_distrust(void)
{
  atomic_store(&gp_mode_distrusted, true);
}
