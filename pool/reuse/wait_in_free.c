#include "pool/reuse/wait_in_free.h"

#include <sched.h>

#include "pool/space/driver_calls.h"
#include "pool/limits/limit.h"
#include "pool/reuse/mode.h"
#include "pool/limits/reclaim.h"
#include "pool/limits/release.h"
#include "pool/reuse/fences.h"
#include "pool/reuse/stamps.h"
#include "base/log.h"

static bool is_sticky(const gp_driver_ops_t *ops, int code)
{
  return ops->code_is_sticky && ops->code_is_sticky(code);
}

int gp_free_a_little(gp_engine_t *engine, gp_context_t *context)
{
  if (!gp_limit_reserve(engine, context, GP_BLOCK_GRANULE, GP_SUPPLY_PLAIN))
    return engine->driver.ops->code_out_of_memory;
  int code = gp_driver_wait_as_free(engine, &context->driver);
  gp_limit_cancel(engine, context->device, GP_BLOCK_GRANULE, GP_SUPPLY_PLAIN);
  return code;
}

/* Calls gp_free_a_little, and returns the driver's code. Also returns code_out_of_memory if the engine may
 * make no driver calls of its own, for example after the device has failed. */
static int wait_in_driver(gp_engine_t *engine, gp_context_t *context)
{
  if (!gp_engine_enter_wait(engine))
    return engine->driver.ops->code_out_of_memory;
  int code = gp_free_a_little(engine, context);
  gp_engine_leave_wait(engine);
  return code;
}

/* Repeats the call to confirm a sticky error, and returns the second code, unless the second call ran out of
 * memory. Calls the driver even after the engine has stopped its own calls, because the call replaces the
 * program's free. */
static int confirm(gp_engine_t *engine, gp_context_t *context, int code)
{
  int again = gp_engine_service(engine) == GP_SERVICE_DEAD ? gp_free_a_little(engine, context)
                                                           : wait_in_driver(engine, context);
  return again == engine->driver.ops->code_out_of_memory ? code : again;
}

/*
 * Called after the driver's free has returned. If a fence recorded before that free is still outstanding,
 * this driver's free does not wait for the device. A program may then rely on a cudaFree that returns, so no
 * free of the process waits again. older_epoch is the epoch of such a fence; 0: there was none.
 */
static void note_return(gp_engine_t *engine, gp_context_t *context, uint64_t older_epoch)
{
  if (older_epoch == 0 || !gp_fences_ask(engine, context))
    return;
  uint64_t oldest = atomic_load(&context->fences.oldest_epoch);
  if (oldest == 0 || oldest > older_epoch || gp_engine_service(engine) != GP_SERVICE_POOL ||
      atomic_exchange(&engine->free_returns, true))
    return;
  gp_log(GP_LOG_INFO,
      "cudaFree does not wait for the device, because the driver's free does not: GPUPOOL_MAX_DEFERRED has no effect");
}

/*
 * Waits as the driver's own free does: returns when the device has completed the work for which such a free
 * waits, with the device's error if that work failed. If no work is pending, the driver's free would not have
 * waited either. If gp_free_a_little finds no memory, the block itself is freed in the driver. A part of a
 * segment cannot be freed there, and then nothing waits: synchronizing the whole context could take longer
 * than the driver's free, and hang.
 *
 * A sticky error is returned by every later call. If the error were not sticky, the program would free the
 * block again, which it no longer owns. So the driver is called twice before an error is returned.
 *
 * older_epoch is the epoch of a fence recorded before; 0: none. *ret_made is true if a driver call that waits
 * was made.
 */
static int wait_as_driver(gp_engine_t *engine, gp_context_t *context, gp_block_t *block, uint64_t block_id,
    uint64_t older_epoch, bool *ret_made)
{
  const gp_driver_ops_t *ops = engine->driver.ops;
  int code = wait_in_driver(engine, context);

  if (code == ops->code_out_of_memory)
    (void)gp_release_deferred(engine, block, block_id, &code);
  if (code == 0)
    note_return(engine, context, older_epoch);
  if (is_sticky(ops, code))
    code = confirm(engine, context, code);
  *ret_made = code != ops->code_out_of_memory;
  if (*ret_made)
    gp_driver_note(engine, context, code);
  gp_driver_count(context, GP_COUNT_HOST_WAIT);
  return is_sticky(ops, code) ? code : 0;
}

int gp_free_strictly(gp_engine_t *engine, gp_context_t *context, gp_block_t *block, uint64_t block_id)
{
  int code = 0;
  bool made;

  if (!gp_fences_are_quiet(engine, context->device)) {
    code = wait_as_driver(engine, context, block, block_id, 0, &made);
    (void)gp_fences_are_quiet(engine, context->device); /* records that the work is complete after the wait */
  }
  gp_reclaim(engine);
  return code;
}

/* LONGEST_POLL_NS: time for which a free polls before it waits in the driver. POLLS_AT_FIRST: number of polls
 * without pauses; in that time, about a millisecond, the driver's free would spin. LOOK_DIVISION: after a
 * poll found no reason to wait, the next poll follows when 1/LOOK_DIVISION of the bound more is deferred.
 * REST_NS: pause after the driver's wait was impossible, so that polls take a hundredth of the time. */
#define LONGEST_POLL_NS UINT64_C(100000000)
#define POLLS_AT_FIRST  1000u
#define LOOK_DIVISION   8
#define REST_NS         (100 * LONGEST_POLL_NS)

/* Returns the most bytes that a context may have deferred: gp_deferred_bound, but at most half of the memory
 * that is left for the program. That memory is the idle memory, plus the free memory that the driver last
 * reported or that the limit leaves. The caller holds the device's lock. */
static uint64_t bound_of(const gp_engine_t *engine, const gp_device_t *device)
{
  uint64_t bound = gp_deferred_bound(engine, device);
  uint64_t left = device->limit > device->committed_bytes ? device->limit - device->committed_bytes : 0;

  if (device->told_ns != 0 && gp_device_left(device) < left)
    left = gp_device_left(device);
  uint64_t room = left / 2 + gp_device_idle(device) / 2;
  return bound < room || bound == UINT64_MAX ? bound : room;
}

bool gp_wait_in_free_is_beyond(gp_engine_t *engine, gp_context_t *context, uint64_t bytes)
{
  uint64_t bound = bound_of(engine, context->device);

  if (bytes <= bound) {
    context->waits_beyond = 0;
    return false;
  }
  return bytes > context->waits_beyond && gp_device_time(context->device, 0) >= context->waits_after_ns &&
         gp_engine_service(engine) == GP_SERVICE_POOL && gp_engine_reuse_mode(engine) != GP_MODE_STRICT &&
         engine->driver.ops->fence_record &&
         !atomic_load_explicit(&engine->free_returns, memory_order_relaxed);
}

/* Returns true if at most half of the bound is deferred. Otherwise *ret_epoch is the epoch of the oldest
 * free. */
static bool is_relieved(gp_engine_t *engine, gp_context_t *context, uint64_t *ret_epoch)
{
  gp_device_t *device = context->device;

  gp_lock_take(&device->lock);
  bool is = gp_list_is_empty(&context->deferred) || context->deferred_bytes <= bound_of(engine, device) / 2;
  if (!is)
    *ret_epoch = gp_list_entry(context->deferred.next, gp_block_t, order)->free_epoch;
  gp_lock_release(&device->lock);
  return is;
}

static void note_no_reason(gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;

  gp_lock_take(&device->lock);
  context->waits_beyond = context->deferred_bytes + bound_of(engine, device) / LOOK_DIVISION;
  gp_lock_release(&device->lock);
}

/* Waits until a fence of the context is complete, or for one pause. */
static void await_fence(gp_engine_t *engine, gp_context_t *context, unsigned *polls, uint64_t *pause_ns)
{
  uint64_t completed = atomic_load(&context->completed);

  while (*polls < POLLS_AT_FIRST) {
    (*polls)++;
    (void)gp_fences_ask(engine, context);
    if (atomic_load(&context->completed) != completed || gp_engine_service(engine) != GP_SERVICE_POOL)
      return;
    (void)sched_yield();
  }
  gp_driver_pause(engine, *pause_ns);
  *pause_ns = gp_next_pause(*pause_ns);
}

/* Polls until at most half of the bound is deferred, or until all work submitted before the newest free is
 * complete. `last` is the epoch of that free. Returns false after LONGEST_POLL_NS. */
static bool poll(gp_engine_t *engine, gp_context_t *context, uint64_t last)
{
  uint64_t until_ns = gp_now(engine) + LONGEST_POLL_NS;
  uint64_t pause_ns = GP_FIRST_PAUSE_NS;
  uint64_t failures = atomic_load(&context->fences.failures);
  uint64_t epoch = 0;
  unsigned polls = 0;

  for (;;) {
    if (gp_fences_poll_twice(engine)) /* then an idle context has completed all its work */
      gp_reclaim(engine);
    if (is_relieved(engine, context, &epoch))
      return true;
    bool is_own = atomic_load(&context->completed) < epoch;
    if (!is_own)
      gp_reclaim(engine); /* another thread may just have proved the completion */
    if (gp_engine_service(engine) != GP_SERVICE_POOL || atomic_load(&context->fences.failures) != failures ||
        atomic_load(&context->gone) || (!is_own && gp_covered(engine) < epoch)) {
      note_no_reason(engine, context);
      return true;
    }
    if (atomic_load(&context->completed) >= last)
      return true;
    if (gp_now(engine) >= until_ns)
      return false;
    if (polls == 0)
      gp_driver_count(context, GP_COUNT_HOST_WAIT);
    await_fence(engine, context, &polls, &pause_ns);
  }
}

int gp_wait_in_free(gp_engine_t *engine, gp_context_t *context, gp_block_t *block, uint64_t block_id)
{
  uint64_t last = atomic_load(&engine->newest_free_epoch);

  gp_assert(!gp_holds_engine_lock());
  if (atomic_load(&context->fences.at_free_epoch) < last)
    (void)gp_fences_record_at_free(engine, context->device);
  if (poll(engine, context, last))
    return 0;
  bool made = false;
  int code =
      wait_as_driver(engine, context, block, block_id, atomic_load(&context->fences.at_free_epoch), &made);
  gp_reclaim_poll(engine);
  if (!made) {
    gp_lock_take(&context->device->lock);
    context->waits_after_ns = gp_device_time(context->device, gp_now(engine)) + REST_NS;
    gp_lock_release(&context->device->lock);
  }
  return code;
}

/* Returns true if the context is live and no other context delays the epoch. */
static bool is_alone(gp_engine_t *engine, const gp_context_t *context, uint64_t epoch)
{
  bool is = !atomic_load(&context->gone);

  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(gp_live_contexts(engine), const gp_context_t, live_link, other)
    is = is && (other == context || atomic_load(&other->gone) || atomic_load(&other->completed) >= epoch);
  gp_lock_release(&engine->contexts_lock);
  return is;
}

bool gp_wait_in_free_for_quiet(gp_engine_t *engine, gp_context_t *context)
{
  uint64_t epoch = atomic_load(&context->fences.at_free_epoch);

  gp_assert(!gp_holds_engine_lock());
  if (epoch == 0 || engine->max_deferred.is_none || atomic_load(&engine->free_returns) ||
      gp_engine_service(engine) != GP_SERVICE_POOL || !is_alone(engine, context, epoch))
    return false;
  int code = wait_in_driver(engine, context);
  gp_driver_count(context, GP_COUNT_HOST_WAIT);
  if (code == 0)
    note_return(engine, context, epoch);
  else if (code != engine->driver.ops->code_out_of_memory)
    gp_driver_note(engine, context, code);
  return code == 0 && gp_fences_are_quiet(engine, context->device);
}
