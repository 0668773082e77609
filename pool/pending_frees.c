#include "pool/pending_frees.h"

#include <stdlib.h>

static bool has_limit(const gp_engine_t *engine, const gp_device_t *device, const gp_pending_free_t *free)
{
  return free->is_host ? engine->host_limit.limit != UINT64_MAX : device->limit != UINT64_MAX;
}

static void note_stream(const gp_device_t *device, gp_pending_free_t *pending, const gp_order_t *order)
{
  gp_identity_t *identity = order ? order->identity : NULL;

  pending->context = order ? order->context : NULL;
  pending->identity = NULL;
  if (!identity || identity->context->device != device || identity->has_ended)
    return;
  pending->identity = identity;
  pending->identity_id = atomic_load(&identity->id);
  pending->freed_as = ++identity->frees;
}

void gp_pending_free_add(
    gp_engine_t *engine, gp_device_t *device, const gp_pending_free_t *free, const gp_order_t *order)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (!has_limit(engine, device, free))
    return;
  gp_pending_free_t *pending = malloc(sizeof(*pending));
  if (free->is_host)
    atomic_fetch_add(&engine->host_limit.used, free->bytes);
  else if (pending)
    gp_account_keep(engine, device, free->address, free->bytes, free->supply);
  else
    gp_account_keep_for_good(device, gp_account_growth(free->bytes, free->supply));
  if (!pending)
    return;
  *pending = *free;
  note_stream(device, pending, order);
  gp_lock_fence(); /* as at a block's free, see reuse/stamps.h */
  pending->epoch = atomic_load(&engine->epoch);
  gp_stamps_raise(&engine->newest_free_epoch, pending->epoch); /* so that fences are recorded behind it */
  gp_list_push_back(&device->pending_frees, &pending->link);
}

static bool is_lost(const gp_context_t *context)
{
  return context && atomic_load(&context->lost);
}

static bool has_passed(const gp_engine_t *engine, const gp_pending_free_t *pending)
{
  const gp_identity_t *identity = pending->identity;

  return pending->epoch <= gp_covered(engine) || is_lost(pending->owner) || is_lost(pending->context) ||
         (pending->context && atomic_load(&pending->context->completed) >= pending->epoch) ||
         (identity && atomic_load(&identity->id) == pending->identity_id &&
             identity->passed >= pending->freed_as);
}

static void retire(gp_engine_t *engine, gp_device_t *device, gp_pending_free_t *pending)
{
  if (pending->is_host)
    atomic_fetch_sub(&engine->host_limit.used, pending->bytes);
  else
    gp_account_end_kept(engine, device, pending->address, pending->bytes, pending->supply);
  gp_list_remove(&pending->link);
  free(pending);
}

bool gp_pending_frees_retire(gp_engine_t *engine, gp_device_t *device)
{
  bool any = false;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  GP_LIST_EACH_SAFE(&device->pending_frees, gp_pending_free_t, link, pending)
    if (has_passed(engine, pending)) {
      retire(engine, device, pending);
      any = true;
    }
  return any;
}

void gp_pending_frees_passed(
    gp_engine_t *engine, gp_device_t *device, const gp_identity_t *identity, uint64_t id, uint64_t epoch)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  GP_LIST_EACH_SAFE(&device->pending_frees, gp_pending_free_t, link, pending)
    if (pending->identity == identity && pending->identity_id == id && pending->epoch <= epoch)
      retire(engine, device, pending);
}

void gp_pending_frees_fini(gp_device_t *device)
{
  GP_LIST_EACH_SAFE(&device->pending_frees, gp_pending_free_t, link, pending) {
    gp_list_remove(&pending->link);
    free(pending);
  }
}
