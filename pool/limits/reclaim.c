#include "pool/limits/reclaim.h"

#include "pool/reuse/contexts.h"
#include "pool/reuse/mode.h"
#include "pool/reuse/drain.h"
#include "pool/reuse/fences.h"
#include "pool/reuse/stamps.h"

void gp_reclaim(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  gp_contexts_lose_gone(engine);
  gp_advance(engine);
  gp_drain(engine, true);
}

void gp_reclaim_poll(gp_engine_t *engine)
{
  if (gp_fences_poll(engine))
    gp_reclaim(engine);
}

/*
 * Does not wait during a capture. The program's cudaFree or cudaMalloc may be legal during another thread's
 * capture (CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), but synchronizing the context would invalidate the capture.
 */
void gp_reclaim_synchronously(gp_engine_t *engine)
{
  gp_context_t *lagging[GP_LAGGING_MAX];

  gp_assert(!gp_holds_engine_lock());
  int count = gp_fences_lagging(engine, NULL, lagging, GP_LAGGING_MAX);
  for (int i = 0; i < count && gp_engine_enter_wait(engine); i++) {
    (void)gp_fences_wait_context(
        engine, lagging[i]); /* after one error the driver fails the next call, too */
    gp_engine_leave_wait(engine);
  }
  gp_reclaim(engine);
}

#define LEAST_BOUND (32 * GP_MIB)

uint64_t gp_deferred_bound(const gp_engine_t *engine, const gp_device_t *device)
{
  const gp_amount_t *most = &engine->max_deferred;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  uint64_t bound = gp_amount_resolve(most, gp_device_stats(device)->allocated_bytes.current);
  return most->is_share && bound < LEAST_BOUND ? LEAST_BOUND : bound;
}

uint64_t gp_engine_sync_begin(gp_engine_t *engine)
{
  return gp_epoch_begin(engine);
}

/* Does not release memory. The driver's free may wait, but pooling may be stopped by a call of the program
 * that does not wait, such as a look-up. Kept memory is released at a later synchronization of the program,
 * or when memory runs out. */
void gp_engine_stop_pooling(gp_engine_t *engine)
{
  gp_service_t service = gp_engine_service(engine);

  if (service != GP_SERVICE_STOPPED && service != GP_SERVICE_DEAD)
    (void)gp_mode_stop(engine);
}
