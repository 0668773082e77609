#include "pool/reuse/stream_points.h"

#include "pool/reuse/stamps.h"
#include "pool/reuse/work_flags.h"
#include "pool/space/block_life.h"
#include "pool/space/ordered_blocks.h"

/* The stream of the point lives. The caller holds the lock of the point's device. */
static bool is_there(const gp_stream_point_t *point)
{
  gp_assert_internal(gp_lock_is_held(&point->device->lock));
  return point->id != 0 && atomic_load(&point->identity->id) == point->id;
}

static gp_identity_t *find(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  if (handle > GP_STREAM_PER_THREAD)
    return gp_address_map_find(&engine->identities, handle);
  if (handle != GP_STREAM_PER_THREAD)
    return atomic_load(&context->legacy_identity);
  GP_LIST_EACH(&context->identities, gp_identity_t, link, identity)
    if (gp_own_submitter && identity->submitter == gp_own_submitter &&
        identity->owner == atomic_load(&gp_own_submitter->owners))
      return identity;
  return NULL;
}

/* As far as the stream has got. The caller holds the device's lock. */
static void set_point(gp_stream_point_t *point, const gp_identity_t *identity)
{
  gp_assert_internal(gp_lock_is_held(&point->device->lock));
  point->id = atomic_load(&identity->id);
  point->frees = identity->is_blocking ? identity->entered : identity->frees;
}

gp_stream_point_t gp_stream_point(gp_engine_t *engine, gp_context_t *context, uint64_t handle)
{
  gp_identity_t *identity = engine->keeps_ordered ? find(engine, context, handle) : NULL;
  gp_stream_point_t point = {.identity = identity};

  if (!identity)
    return point;
  point.device = identity->context->device;
  gp_device_take(point.device);
  set_point(&point, identity);
  gp_lock_release(&point.device->lock);
  return point;
}

void gp_stream_point_passed(const gp_stream_point_t *point)
{
  gp_identity_t *identity = point->identity;

  if (!identity || point->frees == 0)
    return;
  gp_device_take(point->device);
  if (is_there(point) && identity->passed < point->frees) {
    identity->passed = point->frees;
    if (gp_list_is_empty(&identity->passed_link))
      gp_list_push_back(&point->device->passed, &identity->passed_link);
  }
  gp_lock_release(&point->device->lock);
}

/* A newer point of the same stream, an ended stream's place, or the oldest one's. */
static gp_stream_point_t *place_of(gp_identity_t *by, const gp_identity_t *identity)
{
  gp_stream_point_t *ended = NULL;

  for (unsigned i = 0; i < GP_AWAITED_POINTS; i++) {
    gp_stream_point_t *known = &by->awaited[i];
    if (known->identity == identity)
      return known;
    if (!ended && (!known->identity || !is_there(known)))
      ended = known;
  }
  return ended ? ended : &by->awaited[by->next_awaited++ % GP_AWAITED_POINTS];
}

void gp_stream_point_awaited(gp_identity_t *by, const gp_stream_point_t *point)
{
  if (!by || !point->identity || point->frees == 0 || point->identity == by ||
      point->device != by->context->device)
    return;
  gp_device_take(point->device);
  if (is_there(point) && !by->has_ended) {
    gp_stream_point_t *place = place_of(by, point->identity);
    if (place->id != point->id || place->frees < point->frees)
      *place = *point;
    by->awaits = true;
  }
  gp_lock_release(&point->device->lock);
}

gp_block_t *gp_stream_points_take(gp_engine_t *engine, gp_identity_t *by, const gp_fit_t *fit)
{
  gp_block_t *block = NULL;

  if (!by->awaits)
    return NULL;
  for (unsigned i = 0; i < GP_AWAITED_POINTS && !block; i++) {
    const gp_stream_point_t *point = &by->awaited[i];
    /* Memory of a context ends with it, and the stream that waits may not. */
    if (point->identity && is_there(point) &&
        (!engine->orders_plain || point->identity->context == by->context))
      block = gp_ordered_find_before(point->identity, fit, point->frees);
  }
  if (block)
    gp_stamp_leave_deferred(block);
  return block;
}

unsigned gp_stream_points_drain_one(
    gp_engine_t *engine, gp_identity_t *identity, uint64_t now_ns, unsigned most)
{
  unsigned moved = 0;

  gp_assert_internal(gp_lock_is_held(&identity->context->device->lock));
  for (size_t i = 0; i < identity->freed.capacity; i++) {
    const gp_bin_t *bin = identity->freed.slots[i].bin;
    for (gp_bin_entry_t *entry = bin ? bin->idle : NULL, *next; entry; entry = next) {
      gp_block_t *block = gp_block_of_entry(entry);
      next = entry->next;
      if (block->freed_as > identity->passed)
        continue;
      if (moved == most)
        return moved;
      gp_stamp_leave_deferred(block);
      block->free_epoch = 0; /* whatever other streams are at */
      gp_block_end_use(engine, block, now_ns);
      gp_block_enter_idle(engine, block, now_ns);
      moved++;
    }
  }
  gp_list_remove(&identity->passed_link);
  return moved;
}

unsigned gp_stream_points_drain(gp_engine_t *engine, gp_device_t *device, uint64_t now_ns, unsigned most)
{
  unsigned moved = 0;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  while (moved < most && !gp_list_is_empty(&device->passed))
    moved += gp_stream_points_drain_one(
        engine, gp_list_entry(device->passed.next, gp_identity_t, passed_link), now_ns, most - moved);
  return moved;
}
