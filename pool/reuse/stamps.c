#include "pool/reuse/stamps.h"

void gp_stamps_raise(_Atomic uint64_t *value, uint64_t to)
{
  uint64_t before = atomic_load(value);
  while (before < to && !atomic_compare_exchange_weak(value, &before, to)) {
  }
}

void gp_epoch_complete(gp_context_t *context, uint64_t epoch)
{
  gp_stamps_raise(&context->completed, epoch);
}

uint64_t gp_covered_raise(gp_engine_t *engine)
{
  uint64_t completed = UINT64_MAX;

  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (gp_list_is_empty(gp_live_contexts(engine)))
    return gp_covered(engine);
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context) {
    uint64_t own = atomic_load(&context->completed);
    if (own < completed)
      completed = own;
  }
  gp_assert_internal(completed < atomic_load(&engine->epoch));
  uint64_t before = gp_covered(engine);
  if (completed > before) {
    if (before < atomic_load(&engine->newest_free_epoch))
      atomic_store(&engine->covered_ns, gp_now(engine)); /* before `covered`: no block may seem older */
    atomic_store(&engine->covered, completed);
  }
  return gp_covered(engine);
}

void gp_advance(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&engine->contexts_lock);
  (void)gp_covered_raise(engine);
  gp_lock_release(&engine->contexts_lock);
}
