#include "pool/reclaim.h"

#include <sched.h>

#include "pool/contexts.h"
#include "pool/driver_calls.h"
#include "pool/mode.h"
#include "pool/release.h"
#include "pool/reuse/advance.h"
#include "pool/reuse/fences.h"
#include "pool/reuse/stamps.h"

void gp_reclaim(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  gp_contexts_lose_gone(engine);
  for (uint64_t due = gp_advance(engine); due;) {
    gp_device_t *device = gp_device_next(engine, &due);
    gp_release_surplus(engine, device, gp_now(engine));
  }
}

void gp_reclaim_poll(gp_engine_t *engine)
{
  if (gp_fences_poll(engine))
    gp_reclaim(engine);
}

/*
 * No wait begins during a capture: that of another thread may be one beside which the program's call,
 * cudaFree or cudaMalloc, is legal (CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), while a synchronization of the
 * context would spoil it.
 */
int gp_reclaim_wait(gp_engine_t *engine, gp_context_t *own, bool own_device_only)
{
  gp_context_t *lagging[GP_LAGGING_MAX];
  int result = 0;

  gp_assert(!gp_holds_engine_lock());
  int count = gp_fences_lagging(engine, own_device_only ? own->device : NULL, lagging, GP_LAGGING_MAX);
  for (int i = 0; i < count && gp_engine_enter_wait(engine); i++) {
    int code = gp_fences_wait_context(engine, lagging[i]);
    gp_engine_leave_wait(engine);
    if (lagging[i] == own)
      result = code; /* what another context answers is not the program's business here */
  }
  gp_reclaim(engine);
  return result;
}

#define PATIENT_POLLS 16 /* where the clock stands still, as in tests */

bool gp_reclaim_wait_bounded(gp_engine_t *engine, gp_context_t *own)
{
  gp_context_t *lagging[1];
  uint64_t begin_ns = gp_now(engine);

  if (!gp_fences_can_poll(engine))
    return gp_reclaim_wait(engine, own, true) == 0;
  gp_driver_count(own, GP_COUNT_HOST_WAIT);
  for (int polls = 0;; polls++) {
    uint64_t now_ns = gp_now(engine);
    if (!gp_fences_can_poll(engine))
      return gp_reclaim_wait(engine, own, true) == 0;
    gp_reclaim_poll(engine);
    if (gp_fences_lagging(engine, own->device, lagging, 1) == 0)
      return true;
    bool clock_stands_still = polls > PATIENT_POLLS && now_ns == begin_ns;
    if (now_ns - begin_ns > GP_PATIENCE_NS || clock_stands_still || gp_engine_forwards(engine))
      return false;
    sched_yield();
  }
}

#define LEAST_ALLOWANCE (64 * GP_MIB)

uint64_t gp_reclaim_allowance(const gp_engine_t *engine, const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (!engine->max_deferred.is_share)
    return engine->max_deferred.number;
  uint64_t share = gp_amount_resolve(&engine->max_deferred, device->stats->allocated_bytes.current);
  return share > LEAST_ALLOWANCE ? share : LEAST_ALLOWANCE;
}

uint64_t gp_engine_sync_begin(gp_engine_t *engine, gp_context_t *context)
{
  uint64_t epoch = gp_epoch_begin(engine);
  gp_fences_sync_begin(engine, context, epoch);
  return epoch;
}

void gp_engine_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t token)
{
  if (!gp_engine_may_conclude(engine, token))
    return;
  gp_fences_sync_end(engine, context, token);
  gp_reclaim(engine);
}

static uint64_t release_all_idle(gp_engine_t *engine)
{
  uint64_t given = 0;

  GP_DEVICE_EACH(engine, device)
  given += gp_release_largest(engine, device, UINT64_MAX, GP_TRIM_REQUESTED);
  return given;
}

uint64_t gp_engine_empty_cache(gp_engine_t *engine)
{
  gp_reclaim_poll(engine);
  return release_all_idle(engine);
}

/*
 * Look-ups come here, too, and other calls of the program that do not wait. What the device may still use is
 * therefore left to the program's next free, as a kernel may be waiting for this very thread.
 */
void gp_engine_stop_pooling(gp_engine_t *engine)
{
  gp_service_t service = gp_engine_service(engine);

  if (service == GP_SERVICE_STOPPED || service == GP_SERVICE_DEAD)
    return;
  (void)gp_engine_empty_cache(engine); /* it cannot be used any more */
  (void)gp_mode_stop(engine);
}
