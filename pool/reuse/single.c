#include "pool/reuse/single.h"

#include <sched.h>

#include "pool/driver_calls.h"
#include "pool/reuse/fences.h"
#include "base/log.h"

#define FIRST_PAUSE_NS   UINT64_C(20000)
#define LONGEST_PAUSE_NS UINT64_C(1000000)

/* The caller holds contexts_lock. True: this call ended the mode. */
static bool end(gp_engine_t *engine)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (gp_engine_reuse_mode(engine) != GP_MODE_SINGLE)
    return false;
  gp_mode_end_single(engine);
  return true;
}

/* There is unordered work: that of the newest owner whose block was handed out at once is not known to be
 * complete. If there is none and the mode is over, forgets its epoch. The caller holds contexts_lock. */
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

/* Ends the mode, once. The caller holds no lock. */
static void end_for(gp_engine_t *engine, const char *why)
{
  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&engine->contexts_lock);
  bool ended = end(engine);
  gp_lock_release(&engine->contexts_lock);
  if (ended) {
    gp_log(GP_LOG_INFO, "reuse mode is context from now on: %s", why);
    gp_mode_record(engine, GP_DETAIL_MODE_CONTEXT);
  }
}

static gp_context_t *unordered_context(gp_engine_t *engine)
{
  gp_lock_take(&engine->contexts_lock);
  gp_context_t *context = has_unordered(engine) ? engine->single.context : NULL;
  gp_lock_release(&engine->contexts_lock);
  return context;
}

/*
 * Records the one fence in the default stream, right behind the unordered work. A fence of a later moment
 * would come behind what other streams have been given since, and they behind it: such a wait may not end. So
 * threads that come meanwhile wait for the record, which does not wait for the device.
 */
static int record_fence(gp_engine_t *engine, gp_context_t *context)
{
  gp_single_state_t *single = &engine->single;
  int state = GP_SINGLE_NO_FENCE;

  while (!atomic_compare_exchange_strong(&single->fence_state, &state, GP_SINGLE_RECORDING)) {
    if (state == GP_SINGLE_HAS_FENCE)
      return 0;
    state = GP_SINGLE_NO_FENCE;
    sched_yield();
  }
  int code = gp_driver_enter_stream(engine, &context->driver, GP_STREAM_LEGACY, &single->fence);
  atomic_store(&single->fence_state, code == 0 ? GP_SINGLE_HAS_FENCE : GP_SINGLE_NO_FENCE);
  return code;
}

/* For whom unordered work is settled: the host, which waits for it; a created stream, by its handle, which
 * the GPU has wait; or a stream that comes behind the default stream by CUDA's rule, and needs the fence
 * only. */
#define FOR_HOST    UINT64_MAX
#define FOR_ORDERED UINT64_C(0)

/* One look at the fence. code_not_ready: the host has to look again. *ret_refused: the driver gives no fence.
 * The caller may call the driver. */
static int look(gp_engine_t *engine, gp_context_t *context, uint64_t whom, bool *ret_refused)
{
  const int not_ready = engine->driver.ops->code_not_ready;
  int code = record_fence(engine, context);

  if (code == 0)
    code = gp_driver_fence_query(engine, &context->driver, engine->single.fence);
  if (code == 0) {
    atomic_store(&engine->single.unordered_epoch, 0);
    return 0;
  }
  if (code == not_ready && whom == FOR_ORDERED)
    return 0;
  if (code == not_ready && whom != FOR_HOST &&
      gp_driver_stream_wait(engine, &context->driver, whom, engine->single.fence) == 0)
    return 0;
  if (code == not_ready)
    return code;
  gp_driver_note(engine, context, code);
  *ret_refused = !atomic_load(&context->gone);
  return code;
}

static int wait_for_context(gp_engine_t *engine, gp_context_t *context)
{
  if (!gp_engine_enter_wait(engine))
    return engine->driver.ops->code_not_ready; /* later */
  int code = gp_fences_wait_context(engine, context);
  gp_engine_leave_wait(engine);
  return code;
}

/*
 * Settles the unordered work, if there is any. A capture does not begin before that (gp_capture_begin), so
 * the engine is suspended only while a context ends, or for as long as a capture runs before which the driver
 * refused both the fence and the wait: then no call can be made, and this gives up.
 */
static int settle(gp_engine_t *engine, uint64_t whom)
{
  const int not_ready = engine->driver.ops->code_not_ready;
  uint64_t suspended_ns = 0;
  bool counted = false;

  for (uint64_t pause_ns = FIRST_PAUSE_NS;; pause_ns *= 2 * pause_ns <= LONGEST_PAUSE_NS ? 2 : 1) {
    bool may_call = gp_engine_enter_question(engine);
    bool refused = false;
    gp_context_t *context = unordered_context(engine);
    int code = context && may_call ? look(engine, context, whom, &refused) : not_ready;
    if (may_call)
      gp_engine_leave(engine);
    if (!context)
      return 0;
    if (refused)
      code = wait_for_context(engine, context);
    suspended_ns += may_call && !refused ? 0 : pause_ns;
    if (code != not_ready || suspended_ns > GP_AWAIT_CALLS_NS)
      return code;
    if (!counted)
      gp_driver_count(context, GP_COUNT_HOST_WAIT);
    counted = true;
    gp_driver_pause(engine, pause_ns);
  }
}

int gp_single_end(gp_engine_t *engine, const char *why)
{
  return gp_single_end_for_stream(engine, FOR_HOST, why);
}

int gp_single_end_for_stream(gp_engine_t *engine, uint64_t handle, const char *why)
{
  if (gp_single_is_over(engine))
    return 0;
  end_for(engine, why);
  return settle(engine, handle);
}

bool gp_single_has_unordered(gp_engine_t *engine)
{
  return !gp_single_is_over(engine) && unordered_context(engine);
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
  engine->single.context = NULL; /* its work is over and its memory gone: no work is unordered */
}
