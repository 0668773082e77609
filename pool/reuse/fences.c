#include "pool/reuse/fences.h"

#include "pool/driver_calls.h"
#include "pool/mode.h"
#include "pool/reuse/epoch_facts.h"
#include "pool/reuse/single_order.h"
#include "pool/reuse/stamps.h"
#include "pool/reuse/work_flags.h"

void gp_fences_sync_begin(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  gp_assert(!gp_holds_engine_lock());
  gp_work_submitted();
  if (!gp_mode_uses_streams(engine))
    return;
  gp_lock_take(&engine->contexts_lock);
  gp_epoch_sync_begin(engine, context, epoch);
  gp_single_order_sync_begin(engine, context, epoch);
  gp_lock_release(&engine->contexts_lock);
}

void gp_fences_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch)
{
  gp_assert(!gp_holds_engine_lock());
  if (gp_mode_uses_streams(engine)) {
    gp_lock_take(&engine->contexts_lock);
    gp_epoch_sync_end(engine, context, epoch);
    gp_detail_t begun = gp_single_order_sync_end(engine, context, epoch);
    gp_lock_release(&engine->contexts_lock);
    gp_single_order_tell(engine, begun);
  }
  gp_epoch_complete(context, epoch);
}

int gp_fences_lagging(gp_engine_t *engine, const gp_device_t *device, gp_context_t **array, int capacity)
{
  int count = 0;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&engine->contexts_lock);
  GP_LIST_EACH(&engine->contexts, gp_context_t, live_link, context) {
    if (count == capacity)
      break;
    if (!gp_epoch_is_current(engine, context) && !atomic_load(&context->gone) &&
        (!device || context->device == device))
      array[count++] = context;
  }
  gp_lock_release(&engine->contexts_lock);
  return count;
}

/* Asks the outstanding fence. False: it has not passed, or the context has ended. The caller has fence->busy.
 */
static bool ask_fence(gp_engine_t *engine, gp_context_t *context)
{
  gp_fence_t *fence = &context->fence;

  int code = gp_driver_fence_query(engine, &context->driver, fence->handle);
  if (code == engine->driver.ops->code_not_ready)
    return false;
  fence->outstanding = false;
  if (code == 0)
    gp_fences_sync_end(engine, context, fence->epoch);
  else
    gp_driver_note(engine, context, code);
  return !atomic_load(&context->gone);
}

/* The caller has fence->busy. */
static void record_fence(gp_engine_t *engine, gp_context_t *context)
{
  gp_fence_t *fence = &context->fence;

  fence->epoch = gp_epoch_begin(engine); /* before the record: what is freed after it is not covered */
  gp_fences_sync_begin(engine, context, fence->epoch);
  int code = gp_driver_fence_record(engine, &context->driver, &fence->handle);
  fence->outstanding = code == 0;
  if (code == 0)
    gp_driver_count(context, GP_COUNT_FENCE);
  else
    gp_driver_note(engine, context, code);
}

bool gp_fences_poll(gp_engine_t *engine)
{
  gp_context_t *lagging[GP_LAGGING_MAX];

  gp_assert(!gp_holds_engine_lock());
  if (!engine->driver.ops->fence_record)
    return gp_epoch_poll(engine);
  if (!gp_engine_enter(engine))
    return false;
  int count = gp_fences_lagging(engine, NULL, lagging, GP_LAGGING_MAX);
  for (int i = 0; i < count; i++) {
    gp_context_t *context = lagging[i];
    if (atomic_flag_test_and_set_explicit(&context->fence.busy, memory_order_acquire))
      continue; /* another thread is at it */
    bool is_there = !atomic_load(&context->lost);
    if (is_there && context->fence.outstanding)
      is_there = ask_fence(engine, context);
    if (is_there && !gp_epoch_is_current(engine, context) && !gp_engine_forwards(engine))
      record_fence(engine, context);
    atomic_flag_clear_explicit(&context->fence.busy, memory_order_release);
  }
  gp_engine_leave(engine);
  return true;
}

bool gp_fences_can_poll(gp_engine_t *engine)
{
  return engine->driver.ops->fence_record || gp_epoch_can_be_asked(engine);
}

int gp_fences_wait_context(gp_engine_t *engine, gp_context_t *context)
{
  uint64_t epoch = gp_epoch_begin(engine);

  gp_assert(!gp_holds_engine_lock());
  gp_fences_sync_begin(engine, context, epoch);
  int code = gp_driver_wait(engine, &context->driver);
  gp_driver_count(context, GP_COUNT_HOST_WAIT);
  if (code != 0)
    gp_driver_note(engine, context, code);
  else if (epoch >
           atomic_load(&engine->void_epoch)) /* no capture began meanwhile; its begin waits for this */
    gp_fences_sync_end(engine, context, epoch);
  return code;
}
