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

/* In place of the program's free. Out of memory also where the limit has no room for it. */
int gp_free_a_little(gp_engine_t *engine, gp_context_t *context)
{
  if (!gp_limit_reserve(engine, context, GP_BLOCK_GRANULE, GP_SUPPLY_PLAIN))
    return engine->driver.ops->code_out_of_memory;
  int code = gp_driver_wait_as_free(engine, &context->driver);
  gp_limit_cancel(engine, context->device, GP_BLOCK_GRANULE, GP_SUPPLY_PLAIN);
  return code;
}

/* The driver waits in a free of a little memory. Out of memory: it has none, or the engine may make no calls
 * of its own (the device has failed, say). */
static int wait_in_driver(gp_engine_t *engine, gp_context_t *context)
{
  if (!gp_engine_enter_wait(engine))
    return engine->driver.ops->code_out_of_memory;
  int code = gp_free_a_little(engine, context);
  gp_engine_leave_wait(engine);
  return code;
}

/* Asks once more where the engine has taken the error for one that stays, and makes no calls of its own: the
 * call stands for the program's free. */
static int confirm(gp_engine_t *engine, gp_context_t *context, int code)
{
  int again = gp_engine_service(engine) == GP_SERVICE_DEAD ? gp_free_a_little(engine, context)
                                                           : wait_in_driver(engine, context);
  return again == engine->driver.ops->code_out_of_memory ? code : again;
}

/*
 * The driver's wait was made, and a fence from before it is still outstanding: this driver's free does not
 * wait for the device. A program may then rely on a cudaFree that returns, and no free of the process waits
 * again. older_epoch: of such a fence; 0: there was none.
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
 * Waits as the driver's own free does: returns when the device has finished the work that such a free
 * waits for, with the device's error if that failed. If no work is pending, the driver's free would not
 * have waited either. Where the driver cannot wait in a free of a little memory, the block itself goes to the
 * driver. A part of a segment cannot, and then nothing waits: a wait for the whole context could be longer
 * than the driver's free, and hang.
 *
 * An error that stays comes again. After one false answer the program would free the block once more, which
 * is no longer its own: so the driver is asked twice.
 *
 * older_epoch: of a fence that was recorded before; 0: none. ret_made: the driver had a call to wait in.
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
    (void)gp_fences_are_quiet(engine, context->device); /* learns what the driver has waited for */
  }
  gp_reclaim(engine);
  return code;
}

/* How long a free polls before it waits in the driver, and how often without pauses: about a millisecond, in
 * which the driver's free would spin. What more has to be deferred before the next look where one gave no
 * reason to wait, as a share of the bound. Where the driver's wait cannot be made, polls take a hundredth of
 * the time. */
#define LONGEST_POLL_NS UINT64_C(100000000)
#define POLLS_AT_FIRST  1000u
#define LOOK_DIVISION   8
#define REST_NS         (100 * LONGEST_POLL_NS)

/* The bound, but never more than half of what is left for the program: free on the device, by the driver's
 * last word, or under the limit, and idle. The caller holds the device's lock. */
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

/* Half of the bound at most is deferred. Otherwise: the epoch that the oldest of it waits for. */
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

/* Returns when a fence of the context has passed, or when it has paused. */
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

/* Polls until half of the bound is complete, or all work from before the newest free, of which `last` is the
 * epoch. False: the time is over. */
static bool poll(gp_engine_t *engine, gp_context_t *context, uint64_t last)
{
  uint64_t until_ns = gp_now(engine) + LONGEST_POLL_NS;
  uint64_t pause_ns = GP_FIRST_PAUSE_NS;
  uint64_t failures = atomic_load(&context->fences.failures);
  uint64_t epoch = 0;
  unsigned polls = 0;

  for (;;) {
    if (gp_fences_poll_twice(engine)) /* an idle context has then completed all */
      gp_reclaim(engine);
    if (is_relieved(engine, context, &epoch))
      return true;
    bool is_own = atomic_load(&context->completed) < epoch;
    if (!is_own)
      gp_reclaim(engine); /* another thread may have learnt it just now */
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

/* No other context keeps the epoch from being complete. */
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
