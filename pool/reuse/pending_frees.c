#include "pool/reuse/pending_frees.h"

#include <stdlib.h>

static bool has_limit(const gp_engine_t *engine, const gp_device_t *device, const gp_pending_free_t *free)
{
  return free->is_host ? engine->host_limit.limit != UINT64_MAX : device->limit != UINT64_MAX;
}

static void note_stream(const gp_device_t *device, gp_pending_free_t *pending, const gp_stream_order_t *order)
{
  gp_stream_record_t *stream_record = order ? order->stream_record : NULL;

  pending->context = order ? order->context : NULL;
  pending->stream_record = NULL;
  if (!stream_record || stream_record->context->device != device || stream_record->has_ended)
    return;
  pending->stream_record = stream_record;
  pending->record_id = atomic_load(&stream_record->id);
  pending->freed_as = ++stream_record->frees;
}

/* Adds a free without a record, because the host is out of memory. The bytes count until every context has
 * completed the newest such free. A small allocation counts as a whole page. */
static void add_unlisted(gp_engine_t *engine, gp_device_t *device, const gp_pending_free_t *free)
{
  gp_supply_t supply = free->supply == GP_SUPPLY_PLAIN ? GP_SUPPLY_PLAIN : GP_SUPPLY_APART;
  uint64_t bytes = free->is_host ? free->bytes : gp_account_growth(device, free->bytes, supply);

  if (free->is_host) {
    atomic_fetch_add(&engine->host_limit.used, bytes);
    device->unlisted_host += bytes;
  } else {
    gp_account_keep_bytes(device, bytes);
    device->unlisted_pending += bytes;
  }
  device->unlisted_epoch = free->epoch;
}

static void add_listed(gp_engine_t *engine, gp_device_t *device, gp_pending_free_t *pending)
{
  if (pending->is_host)
    atomic_fetch_add(&engine->host_limit.used, pending->bytes);
  else
    gp_account_keep(engine, device, pending->address, pending->bytes, pending->supply);
  gp_list_push_back(&device->pending_frees, &pending->link);
}

void gp_pending_free_add(
    gp_engine_t *engine, gp_device_t *device, const gp_pending_free_t *free, const gp_stream_order_t *order)
{
  gp_pending_free_t own = *free;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (!has_limit(engine, device, free))
    return;
  gp_pending_free_t *pending = malloc(sizeof(*pending));
  note_stream(device, &own, order);
  gp_lock_fence(); /* as in gp_stamp, see reuse/stamps.h */
  own.epoch = atomic_load(&engine->epoch);
  gp_stamps_raise(&engine->newest_free_epoch, own.epoch); /* so that fences are recorded after the free */
  if (pending) {
    *pending = own;
    add_listed(engine, device, pending);
  } else {
    add_unlisted(engine, device, &own);
  }
}

bool gp_pending_frees_are_none(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return gp_list_is_empty(&device->pending_frees) && device->unlisted_pending + device->unlisted_host == 0;
}

static bool is_lost(const gp_context_t *context)
{
  return context && atomic_load(&context->lost);
}

static bool has_passed(const gp_engine_t *engine, const gp_pending_free_t *pending)
{
  const gp_stream_record_t *stream_record = pending->stream_record;

  return pending->epoch <= gp_covered(engine) || is_lost(pending->owner) || is_lost(pending->context) ||
         (pending->context && atomic_load(&pending->context->completed) >= pending->epoch) ||
         (stream_record && atomic_load(&stream_record->id) == pending->record_id &&
             stream_record->passed >= pending->freed_as);
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

static bool retire_unlisted(gp_engine_t *engine, gp_device_t *device)
{
  if (device->unlisted_pending + device->unlisted_host == 0 || device->unlisted_epoch > gp_covered(engine))
    return false;
  gp_account_end_kept_bytes(device, device->unlisted_pending);
  atomic_fetch_sub(&engine->host_limit.used, device->unlisted_host);
  device->unlisted_pending = device->unlisted_host = 0;
  return true;
}

bool gp_pending_frees_retire(gp_engine_t *engine, gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  bool any = retire_unlisted(engine, device);
  GP_LIST_EACH_SAFE(&device->pending_frees, gp_pending_free_t, link, pending)
    if (has_passed(engine, pending)) {
      retire(engine, device, pending);
      any = true;
    }
  return any;
}

void gp_pending_frees_passed(gp_engine_t *engine, gp_device_t *device,
    const gp_stream_record_t *stream_record, uint64_t id, uint64_t epoch)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (atomic_load(&stream_record->id) != id) /* the stream has ended: the result may be for another one */
    return;
  GP_LIST_EACH_SAFE(&device->pending_frees, gp_pending_free_t, link, pending)
    if (pending->stream_record == stream_record && pending->record_id == id && pending->epoch <= epoch)
      retire(engine, device, pending);
}

void gp_pending_frees_fini(gp_device_t *device)
{
  GP_LIST_EACH_SAFE(&device->pending_frees, gp_pending_free_t, link, pending) {
    gp_list_remove(&pending->link);
    free(pending);
  }
}
