#include "pool/reuse/drain.h"

#include <limits.h>

#include "pool/serve/heaps.h"
#include "pool/reuse/stream_points.h"

/* Makes at most `most` covered blocks of the context idle, and returns the number of blocks. */
static unsigned drain_context(
    gp_engine_t *engine, gp_context_t *context, uint64_t covered, uint64_t now_ns, unsigned most)
{
  unsigned moved = 0;
  uint64_t since_ns = atomic_load(&engine->covered_ns);

  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  while (moved < most && !gp_list_is_empty(&context->deferred)) {
    gp_block_t *block = gp_list_entry(context->deferred.next, gp_block_t, order);
    if (block->free_epoch > covered)
      break;
    gp_stamp_complete(engine, block, now_ns, since_ns);
    moved++;
  }
  return moved;
}

void gp_drain_few(gp_engine_t *engine, gp_context_t *context, uint64_t covered, uint64_t now_ns)
{
  (void)drain_context(engine, context, covered, now_ns, GP_DRAIN_SOME);
}

static unsigned drain_part(gp_engine_t *engine, gp_device_t *device, uint64_t covered, unsigned most)
{
  unsigned moved = 0;

  device->drained_ns = gp_now(engine);
  moved = gp_stream_points_drain(engine, device, device->drained_ns, most);
  GP_LIST_EACH(gp_device_contexts(device), gp_context_t, device_link, context)
    moved += drain_context(engine, context, covered, device->drained_ns, most - moved);
  return moved;
}

void gp_drain_locked(gp_engine_t *engine, gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_heaps_collect(engine, device);
  (void)drain_part(engine, device, gp_covered(engine), UINT_MAX);
}

static void drain_device(gp_engine_t *engine, gp_device_t *device, bool with_heaps)
{
  uint64_t covered = gp_covered(engine); /* read once, so that concurrent frees do not prolong the loop */
  unsigned moved;

  gp_assert(!gp_holds_engine_lock());
  do {
    gp_lock_take(&device->lock);
    if (with_heaps)
      gp_heaps_collect(engine, device);
    moved = drain_part(engine, device, covered, GP_DRAIN_AT_ONCE);
    gp_lock_release(&device->lock);
  } while (moved == GP_DRAIN_AT_ONCE);
}

void gp_drain_device(gp_engine_t *engine, gp_device_t *device)
{
  drain_device(engine, device, true);
}

static bool has_passed(const gp_block_t *block)
{
  return block->freed_in && atomic_load(&block->freed_in->context->completed) >= block->free_epoch;
}

bool gp_drain_by_own_context(gp_engine_t *engine, gp_device_t *device, unsigned most)
{
  uint64_t now_ns = gp_now(engine);
  bool moved = false;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device);
  GP_LIST_EACH(gp_device_contexts(device), gp_context_t, device_link, context)
    GP_LIST_EACH_SAFE(&context->deferred, gp_block_t, order, block) {
      if (most == 0)
        break;
      most--;
      if (!has_passed(block))
        continue;
      block->free_epoch = 0; /* no other context needs to complete the epoch, as in stream_points.c */
      gp_stamp_complete(engine, block, now_ns, now_ns);
      moved = true;
    }
  gp_lock_release(&device->lock);
  return moved;
}

void gp_drain(gp_engine_t *engine, bool with_heaps)
{
  GP_DEVICE_EACH(engine, device)
  drain_device(engine, device, with_heaps);
}
