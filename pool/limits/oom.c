/*
 * The steps that may make room, in the order of their cost to the program. They form one pass, which is
 * repeated if other threads have freed memory during it (gp_oom_again):
 *
 *   0  release memory that was kept when pooling stopped
 *   1  reclaim freed memory whose work the device has completed
 *   2  release idle mapped memory of stream-ordered requests, which does not wait
 *   3  wait briefly for another thread that is releasing memory
 *   4  wait, by polling, for pending work of the device
 *   5  release idle blocks, largest first, as many bytes as are missing
 *   6  release all idle memory, also that of the driver's own pool
 *   7  wait longer for another thread that is releasing memory
 *   8  on drivers without fences: wait for the device in the driver
 *   9  release the memory that step 8 made idle
 *   10 nothing: another process may have released memory
 *
 * The driver's free waits for the device, while unmapping does not. So before steps 0, 5, 6, 8 and 9 the
 * thread waits, by polling, for a moment when the device has no work (wait.h); if no such moment comes, the
 * step is skipped. If all steps fail, the caller tries the exact size, and then reports.
 *
 * One thread at a time takes steps on a device (oom_turn.h). Memory that steps 5, 6 and 9 release is reserved
 * for the next attempt of that thread.
 */
#include "pool/limits/oom.h"

#include <limits.h>

#include "pool/reuse/await_pending.h"
#include "pool/space/driver_calls.h"
#include "pool/limits/limit.h"
#include "pool/reuse/mode.h"
#include "pool/serve/heaps.h"
#include "pool/limits/oom_turn.h"
#include "pool/limits/reclaim.h"
#include "pool/limits/release.h"
#include "pool/reuse/drain.h"
#include "pool/reuse/stream_records.h"
#include "pool/space/account.h"
#include "pool/space/block.h"
#include "pool/reuse/wait.h"

#define RETURN_PAUSE_NS UINT64_C(100000)

static void count_retry(gp_device_t *device)
{
  gp_lock_take(&device->lock);
  gp_device_stats(device)->num_alloc_retries++;
  gp_lock_release(&device->lock);
}

static uint64_t bytes_of(gp_device_t *device, const uint64_t *field)
{
  gp_lock_take(&device->lock);
  gp_assert_internal(gp_lock_is_held(&device->lock)); /* the lock guards every field that callers pass */
  uint64_t bytes = *field;
  gp_lock_release(&device->lock);
  return bytes;
}

static bool has_deferred(gp_engine_t *engine, gp_device_t *device)
{
  gp_lock_take(&device->lock); /* the lock also guards the pointer to the statistics */
  gp_heaps_collect(engine, device);
  uint64_t bytes = gp_device_pending(device);
  gp_lock_release(&device->lock);
  return bytes > 0;
}

uint64_t gp_oom_largest_idle(gp_device_t *device)
{
  gp_lock_take(&device->lock);
  uint64_t size = gp_block_largest_bytes(device);
  gp_lock_release(&device->lock);
  return size;
}

/* Returns true if some idle memory could be released to the driver. */
static bool has_releasable(gp_device_t *device)
{
  gp_lock_take(&device->lock);
  bool has = gp_device_releasable(device) > 0;
  gp_lock_release(&device->lock);
  return has;
}

/* Returns how many bytes must be released before `bytes` fit under the limit, or into the free memory that
 * the driver reports. If they already seem to fit, the driver's memory is fragmented, and the result is
 * `bytes`. */
static uint64_t missing_bytes(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit)
{
  gp_device_t *device = context->device;
  uint64_t free_bytes = 0;
  uint64_t total_bytes;

  if (by_limit) {
    bytes = gp_account_growth(NULL, bytes, GP_SUPPLY_PLAIN); /* the limit counts whole pages */
    gp_lock_take(&device->lock);
    free_bytes =
        gp_locked(device)->committed_bytes < device->limit ? device->limit - device->committed_bytes : 0;
    gp_lock_release(&device->lock);
  } else {
    (void)gp_limit_ask(engine, context, &free_bytes, &total_bytes);
  }
  return free_bytes < bytes ? bytes - free_bytes : bytes;
}

/* Trims the driver's own pools. They can release memory once the device has reached its stream-ordered frees.
 * Returns false if the pools have nothing to release, or if the device is busy. */
static bool trim_driver_pool(gp_engine_t *engine, gp_context_t *context, gp_oom_attempts_t *attempts)
{
  uint64_t reserved = UINT64_MAX; /* if the driver cannot be queried, its pools may have some */
  uint64_t used;

  if (!engine->driver.ops->trim_async || !gp_engine_enter(engine))
    return false;
  if (engine->driver.ops->async_reserved &&
      gp_driver_async_reserved(engine, &context->driver, &reserved, &used) != 0)
    reserved = UINT64_MAX;
  gp_engine_leave(engine);
  if (reserved <= bytes_of(context->device, &context->device->async_live) ||
      !gp_wait_until_quiet(engine, context->device, attempts) || !gp_engine_enter_wait(engine))
    return false;
  gp_driver_trim_async(engine, &context->driver);
  gp_engine_leave_wait(engine);
  gp_limit_settle(engine, context);
  return true;
}

/* Waits until the device is quiet and the thread has the turn. Checks both again after each wait, because the
 * device may become busy while the thread waits for its turn. Returns false if the device does not become
 * quiet. */
static bool await_quiet_turn(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts)
{
  do {
    if (!gp_wait_until_quiet(engine, device, attempts))
      return false;
  } while (gp_oom_turn_take(engine, device, attempts));
  return true;
}

/* Releases idle blocks of the device once the device is quiet. Returns true if it released any. */
static bool trim(gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_oom_attempts_t *attempts)
{
  if (!has_releasable(device) || !await_quiet_turn(engine, device, attempts))
    return false;
  gp_oom_turn_reserve(device);
  return gp_release_largest(engine, device, bytes, GP_TRIM_OOM) > 0;
}

/* Returns true if pooling has stopped and the pool still keeps memory of the device. */
static bool keeps_after_stop(gp_engine_t *engine, gp_device_t *device)
{
  return gp_engine_service(engine) == GP_SERVICE_STOPPED &&
         (has_deferred(engine, device) || has_releasable(device));
}

bool gp_oom_release_after_stop(gp_engine_t *engine, gp_context_t *context, gp_oom_attempts_t *attempts)
{
  gp_device_t *device = context->device;
  gp_context_t *contexts[GP_OOM_CONTEXTS];
  uint64_t given = 0;
  int count = 0;

  gp_assert(!gp_holds_engine_lock());
  if (!keeps_after_stop(engine, device) || !await_quiet_turn(engine, device, attempts))
    return false;
  gp_engine_flush(engine, device);
  gp_reclaim(engine); /* a segment can be released only when all of it is idle */
  gp_lock_take(&device->lock);
  GP_LIST_EACH(gp_device_contexts(device), gp_context_t, device_link, other)
    if (count < GP_OOM_CONTEXTS)
      contexts[count++] = other;
  gp_lock_release(&device->lock);
  for (int i = 0; i < count; i++)
    given += gp_release_unused(engine, contexts[i], GP_TRIM_REQUESTED);
  return given > 0;
}

/* Returns a count that grows whenever the program frees memory of the device. The caller holds the device's
 * lock. */
static uint64_t freed(gp_engine_t *engine, gp_device_t *device)
{
  gp_heaps_collect(engine, device);
  return gp_device_stats(device)->allocation.freed + gp_device_stats(device)->passthrough_bytes.freed;
}

/* Returns a count that grows when other threads make memory available: with each free, with each reservation
 * that they cancel, and with the end of a context, during which the engine can release nothing. The caller
 * holds the device's lock. */
static uint64_t came_back(gp_engine_t *engine, gp_device_t *device)
{
  return freed(engine, device) + device->cancelled + atomic_load(&engine->endings_over);
}

/* Memory of the device as reported by the driver. */
typedef struct figures {
  uint64_t free_bytes, total_bytes; /* total_bytes 0: not known */
  uint64_t pools_reserved;          /* reserved by the driver's own pools; GP_POOLS_UNTOLD: not known */
} figures_t;

static figures_t ask_figures(gp_engine_t *engine, gp_context_t *context)
{
  figures_t figures = {0, 0, 0};
  uint64_t reserved, used;

  if (!gp_engine_enter(engine))
    return figures;
  if (gp_driver_memory_info(engine, &context->driver, &figures.free_bytes, &figures.total_bytes) != 0)
    figures.total_bytes = 0;
  else
    figures.free_bytes = gp_driver_available(engine, &context->driver, figures.free_bytes);
  if (engine->driver.ops->async_reserved) {
    bool is_known = gp_driver_async_reserved(engine, &context->driver, &reserved, &used) == 0;
    figures.pools_reserved = is_known ? reserved : GP_POOLS_UNTOLD;
  }
  gp_engine_leave(engine);
  return figures;
}

/*
 * Returns true if the request cannot fit even into a process that uses only the bytes that the program has
 * requested and not freed. Ignores page rounding by the driver. Programs probe for memory with sizes that
 * cannot succeed, and such a probe must not cost them the whole cache. Returns false in case of doubt.
 */
bool gp_oom_is_hopeless(gp_engine_t *engine, gp_context_t *context, uint64_t bytes)
{
  gp_device_t *device = context->device;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  uint64_t before = came_back(engine, device) + device->releases.finished_count;
  gp_lock_release(&device->lock);
  figures_t figures = ask_figures(engine, context);
  gp_lock_take(&device->lock);
  uint64_t after = came_back(engine, device) + device->releases.finished_count;
  const gp_stats_t *stats = gp_device_stats(device);
  uint64_t live = stats->requested_bytes.current + stats->passthrough_bytes.current;
  uint64_t taken = gp_bytes_less(figures.total_bytes, figures.free_bytes);
  /* The driver's pools may have reserved more than is in use, or an older driver may report too little, so
   * use the larger value. */
  uint64_t by_pools = gp_account_others(device) + figures.pools_reserved;
  uint64_t ours = by_pools > gp_account_given(device) ? by_pools : gp_account_given(device);
  uint64_t others = gp_bytes_less(taken, ours);
  bool exceeds_device =
      figures.total_bytes > 0 && bytes > gp_bytes_less(gp_bytes_less(figures.total_bytes, others), live);
  bool exceeds_limit = device->limit != UINT64_MAX && bytes > gp_bytes_less(device->limit, live);
  bool is_changing = before != after || !gp_releases_are_none(&device->releases);
  gp_lock_release(&device->lock);
  return (exceeds_device || exceeds_limit) && !is_changing;
}

typedef enum gp_step {
  STEP_AFTER_STOP,
  STEP_RECLAIM,
  STEP_GIVE_ASYNC,
  STEP_AWAIT_BRIEFLY,
  STEP_WAIT,
  STEP_TRIM,
  STEP_TRIM_ALL,
  STEP_AWAIT,
  STEP_SYNCHRONIZE,
  STEP_TRIM_AT_LAST,
  STEP_TRY_AGAIN,
  STEP_COUNT
} gp_step_t;

/* Returns true if the step is to be repeated as long as it makes room. */
static bool repeats(gp_step_t step)
{
  return step == STEP_WAIT || step == STEP_AWAIT_BRIEFLY || step == STEP_AWAIT;
}

/* Waits for releases by other threads. All such waits of an allocation together take at most GP_WAIT_MISS_NS,
 * however many releases finish meanwhile. */
static bool await_briefly(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts)
{
  gp_oom_attempts_t brief = {.later_ns = attempts->brief_ns};
  bool finished = gp_await_release(engine, device, &brief, GP_WAIT_MISS_NS);

  attempts->brief_ns = brief.later_ns;
  return finished;
}

/* Takes one step. Returns false if the step cannot have made room. */
static bool take_step(gp_engine_t *engine, gp_context_t *context, gp_step_t step, uint64_t bytes,
    bool by_limit, gp_oom_attempts_t *attempts)
{
  gp_device_t *device = context->device;

  switch (step) {
  case STEP_AFTER_STOP: return gp_oom_release_after_stop(engine, context, attempts);
  case STEP_RECLAIM:
    if (has_deferred(engine, device)) {
      gp_reclaim_poll(engine);
      (void)gp_drain_by_own_context(engine, device, UINT_MAX);
      gp_stream_records_query(engine, device);
    } else if (bytes_of(device, &device->draining) == 0) {
      return false;
    }
    gp_limit_settle(engine, context);
    return true;
  case STEP_GIVE_ASYNC: return gp_release_async(engine, device, GP_TRIM_OOM) > 0;
  case STEP_AWAIT_BRIEFLY: return await_briefly(engine, device, attempts);
  case STEP_WAIT:
    return gp_wait_for_deferred(engine, device, attempts) ||
           (by_limit && gp_pending_frees_wait(engine, device, attempts));
  case STEP_TRIM: return trim(engine, device, missing_bytes(engine, context, bytes, by_limit), attempts);
  case STEP_TRIM_ALL: {
    bool trimmed = trim(engine, device, UINT64_MAX, attempts);
    bool pool_may_help = !by_limit || bytes_of(device, &device->draining) > 0;
    return (pool_may_help && trim_driver_pool(engine, context, attempts)) || trimmed;
  }
  case STEP_AWAIT: return gp_await_release(engine, device, attempts, engine->patience_ns);
  case STEP_SYNCHRONIZE:
    if (engine->driver.ops->fence_record || !has_deferred(engine, device) ||
        !await_quiet_turn(engine, device, attempts))
      return false;
    gp_reclaim_synchronously(engine);
    return true;
  case STEP_TRIM_AT_LAST:
    return !engine->driver.ops->fence_record && trim(engine, device, UINT64_MAX, attempts);
  case STEP_TRY_AGAIN: return !by_limit;
  default: return false;
  }
}

/* At the first step of a pass, records the time and the value of came_back. */
static void begin_pass(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts)
{
  if (attempts->passes > 0)
    return;
  attempts->passes = 1;
  attempts->start_ns = gp_now(engine);
  gp_lock_take(&device->lock);
  attempts->came_back = came_back(engine, device);
  gp_lock_release(&device->lock);
}

/* Takes the next steps before `end` until one may have made room. Returns false if none did so. */
static bool next_step(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit,
    gp_oom_attempts_t *attempts, gp_step_t end)
{
  bool may_help = false;

  gp_assert(!gp_holds_engine_lock());
  gp_oom_turn_attempted(context->device);
  begin_pass(engine, context->device, attempts);
  while (!may_help && attempts->next_step < (int)end) {
    gp_step_t step = (gp_step_t)attempts->next_step;
    (void)gp_oom_turn_take(engine, context->device, attempts);
    may_help = take_step(engine, context, step, bytes, by_limit, attempts);
    if (may_help)
      gp_engine_flush(engine, context->device);
    if (!may_help || !repeats(step))
      attempts->next_step++;
  }
  if (may_help) /* the thread may have given up the turn to wait */
    (void)gp_oom_turn_take(engine, context->device, attempts);
  return may_help;
}

bool gp_oom_next_step(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit, gp_oom_attempts_t *attempts)
{
  bool may_help = next_step(engine, context, bytes, by_limit, attempts, STEP_COUNT);
  if (may_help)
    count_retry(context->device);
  return may_help;
}

#define LEAST_PASSES 16 /* passes that are allowed even if GPUPOOL_PATIENCE is 0 */

/*
 * Returns true if came_back has grown since the pass began. Otherwise waits for other threads to free memory:
 * the request would fit, so only fragmentation by their blocks can prevent it. After a wait has timed out, no
 * thread waits here until the next free.
 */
static bool await_return(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts)
{
  uint64_t begin_ns = gp_now(engine), passed_ns = begin_ns - attempts->start_ns;
  uint64_t left_ns = gp_bytes_less(engine->patience_ns, passed_ns);
  uint64_t limit_ns = left_ns < GP_OOM_STALL_NS ? left_ns : GP_OOM_STALL_NS;

  if (left_ns == 0 && attempts->passes >= LEAST_PASSES)
    return false;
  for (;;) {
    gp_lock_take(&device->lock);
    uint64_t before = attempts->came_back;
    attempts->came_back = came_back(engine, device);
    gp_oom_turn_t *turn = &gp_locked(device)->oom_turn;
    uint64_t next_free = freed(engine, device) + 1;
    bool waits = turn->is_shared && turn->waited_for != next_free;
    if (waits && gp_now(engine) - begin_ns >= limit_ns) {
      waits = false;
      turn->waited_for = next_free;
    }
    gp_lock_release(&device->lock);
    if (attempts->came_back != before || !waits)
      return attempts->came_back != before;
    gp_oom_turn_pause(engine, device, RETURN_PAUSE_NS);
  }
}

bool gp_oom_again(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_oom_attempts_t *attempts)
{
  gp_device_t *device = context->device;

  gp_assert(!gp_holds_engine_lock());
  (void)gp_wait_for_endings(engine, device, attempts);
  if (gp_engine_forwards(engine) || !await_return(engine, device, attempts) ||
      gp_oom_is_hopeless(engine, context, bytes))
    return false;
  attempts->passes++;
  attempts->next_step = 0;
  attempts->begin_epoch = 0;
  attempts->brief_ns = 0;
  return true;
}

/* Takes all steps that can make room for a driver call whose need for memory the engine does not know.
 * Returns true if a step may have made room. */
bool gp_engine_make_room(gp_engine_t *engine, gp_context_t *context)
{
  gp_oom_attempts_t attempts = {.next_step = 0};
  bool changed = false;

  while (next_step(engine, context, UINT64_MAX, false, &attempts, STEP_TRY_AGAIN))
    changed = true;
  if (changed) {
    (void)gp_oom_turn_take(engine, context->device, &attempts);
    gp_oom_turn_reserve(context->device);
  } else {
    gp_oom_turn_leave(context->device);
  }
  return changed;
}

void gp_engine_room_used(gp_context_t *context)
{
  gp_oom_turn_leave(context->device);
}

int gp_oom_make_room(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_oom_attempt_fn attempt,
    void *arg, bool *by_limit, gp_oom_attempts_t *attempts)
{
  const int out_of_memory = engine->driver.ops->code_out_of_memory;
  int code = out_of_memory;

  while (code == out_of_memory && gp_oom_next_step(engine, context, bytes, *by_limit, attempts))
    code = attempt(arg, by_limit);
  if (code != out_of_memory)
    gp_oom_turn_leave(context->device);
  return code;
}
