#include "pool/limits/give_back.h"

#include "pool/reuse/contexts.h"
#include "pool/serve/heaps.h"
#include "pool/limits/limit.h"
#include "pool/limits/reclaim.h"
#include "pool/limits/release.h"
#include "pool/reuse/drain.h"
#include "pool/reuse/fences.h"
#include "pool/reuse/known_streams.h"
#include "pool/reuse/stamps.h"
#include "pool/reuse/stream_points.h"
#include "pool/space/block.h"
#include "pool/space/surplus.h"
#include "pool/reuse/wait_in_free.h"

#define FREES_BETWEEN_LOOKS 16 /* frees; a check costs two driver calls per context if busy */

/* Records in the statistics how much surplus the pool keeps because the device is busy. Then skips checks for
 * some frees. */
static void note_kept(gp_engine_t *engine, gp_device_t *device, bool is_busy)
{
  gp_lock_take(&device->lock);
  gp_surplus_note_kept(device, is_busy ? gp_surplus_bytes(engine, device, gp_now(engine)) : 0);
  gp_locked(device)->surplus_pause = is_busy ? FREES_BETWEEN_LOOKS : 0;
  gp_lock_release(&device->lock);
}

bool gp_give_back_has(const gp_context_t *context)
{
  return gp_block_has_idle(context) || gp_block_has_idle(&context->device->async_context);
}

/* Returns true if the device has deferred blocks. */
static bool has_deferred(const gp_device_t *device)
{
  bool has = gp_heaps_keep(device) || !gp_list_is_empty(&device->async_context.deferred);

  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context)
    has |= !gp_list_is_empty(&context->deferred);
  return has;
}

/* Returns true if deferred blocks should be drained, because some may then be surplus. A drain closes heaps.
 * So this returns false if heaps are open but nothing is deferred. */
static bool awaits_drain(gp_engine_t *engine, gp_device_t *device, uint64_t now_ns)
{
  bool may_have = gp_device_pending(device) > 0 || device->open_heaps > 0;

  if (!may_have || !gp_surplus_awaits_drain(engine, device, now_ns))
    return false;
  if (device->open_heaps == 0 || has_deferred(device))
    return true;
  device->drained_ns = now_ns;
  return false;
}

/* Returns true if the device has surplus and the context has memory to release. If there is no surplus,
 * records that none is kept: the kept memory has been reused, or its context has ended. */
static bool has_surplus(gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;

  gp_lock_take(&device->lock);
  uint64_t now_ns = gp_device_time(device, gp_now(engine));
  if (awaits_drain(engine, device, now_ns)) {
    gp_lock_release(&device->lock);
    gp_drain_device(engine, device);
    gp_lock_take(&device->lock);
  }
  bool has = gp_surplus_is_due(engine, device, now_ns);
  if (!has)
    gp_surplus_note_kept(device, 0);
  has = has && gp_give_back_has(context);
  gp_lock_release(&device->lock);
  return has;
}

/* Returns true if the pool has idle or deferred memory on the context's device. */
static bool has_unused(gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;

  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device);
  bool has = gp_device_releasable(device) > 0 || !gp_list_is_empty(&context->deferred) ||
             !gp_list_is_empty(&device->async_context.deferred);
  gp_lock_release(&device->lock);
  return has;
}

static uint64_t give_back(gp_engine_t *engine, gp_context_t *context, bool is_quiet)
{
  uint64_t given = 0;

  if (is_quiet) {
    gp_reclaim(engine); /* deferred blocks that become idle may be surplus as well */
    given = gp_release_surplus(engine, context, gp_now(engine));
    given += gp_release_surplus(engine, &context->device->async_context, gp_now(engine));
  }
  note_kept(engine, context->device, !is_quiet);
  return given;
}

uint64_t gp_give_back_in_free(gp_engine_t *engine, gp_context_t *context, bool waits)
{
  gp_device_t *device = context->device;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  bool is_paused = gp_locked(device)->surplus_pause > 0;
  device->surplus_pause -= is_paused;
  gp_lock_release(&device->lock);
  if (is_paused)
    return 0;
  bool is_quiet =
      gp_fences_are_quiet(engine, device) || (waits && gp_wait_in_free_for_quiet(engine, context));
  return give_back(engine, context, is_quiet);
}

/* Returns true if no device had work a moment ago, so that the driver's free finds nothing to wait for.
 * Outside a free, synchronizing one context is not enough, because the driver's free may wait for others. */
static bool is_quiet_everywhere(gp_engine_t *engine)
{
  return engine->driver.ops->fence_record ? gp_fences_are_quiet(engine, NULL)
                                          : gp_known_streams_are_idle(engine);
}

/* Releases memory after pooling has stopped. A segment can be released only as a whole, so this first
 * reclaims blocks. Returns the bytes released. */
static uint64_t release_unused(gp_engine_t *engine, gp_context_t *context)
{
  gp_reclaim(engine);
  return gp_release_unused(engine, context, GP_TRIM_REQUESTED) +
         gp_release_unused(engine, &context->device->async_context, GP_TRIM_REQUESTED);
}

/* Releases surplus after the program has synchronized the context, or memory that the pool kept when pooling
 * stopped. */
static uint64_t give_back_after_sync(gp_engine_t *engine, gp_context_t *context)
{
  bool has_stopped = gp_engine_service(engine) == GP_SERVICE_STOPPED;

  gp_assert(!gp_holds_engine_lock());
  if (has_stopped)
    gp_engine_flush(engine, context->device);
  if (has_stopped ? !has_unused(engine, context) : !has_surplus(engine, context))
    return 0;
  bool is_quiet = is_quiet_everywhere(engine);
  if (has_stopped)
    return is_quiet ? release_unused(engine, context) : 0;
  return give_back(engine, context, is_quiet);
}

/*
 * Releases `bytes` of the device's idle memory: now if the device is quiet, otherwise later as surplus. No
 * call of the program waits for this thread. So on a driver without fences, the device counts as quiet if no
 * stream known to the library has work.
 */
static uint64_t give_back_on_request(gp_engine_t *engine, gp_device_t *device, uint64_t bytes)
{
  uint64_t given = 0;

  gp_assert(!gp_holds_engine_lock());
  bool is_quiet = is_quiet_everywhere(engine);
  gp_reclaim(engine);
  gp_engine_flush(engine, device);
  if (is_quiet) {
    given = gp_release_largest(engine, device, bytes, GP_TRIM_REQUESTED);
  }
  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device); /* heaps stay closed while the request is open */
  uint64_t left = gp_device_stats(device)->cached_bytes.current;
  uint64_t missing = bytes > given ? bytes - given : 0;
  if (!is_quiet)
    gp_surplus_want(device, missing < left ? missing : left, GP_TRIM_REQUESTED);
  gp_lock_release(&device->lock);
  note_kept(engine, device, !is_quiet);
  return given;
}

uint64_t gp_engine_empty_cache(gp_engine_t *engine)
{
  uint64_t given = 0;

  gp_reclaim_poll(engine);
  GP_DEVICE_EACH(engine, device)
  given += give_back_on_request(engine, device, UINT64_MAX);
  return given;
}

static uint64_t set_limit(gp_engine_t *engine, gp_device_t *device, const gp_amount_t *limit)
{
  uint64_t excess = gp_limit_set(engine, device, limit);
  return excess > 0 ? give_back_on_request(engine, device, excess) : 0;
}

uint64_t gp_engine_set_limit(gp_engine_t *engine, int device, const gp_amount_t *limit)
{
  uint64_t given = set_limit(engine, &engine->devices[device], limit);
  gp_mode_accept_limits(engine); /* a thread that sees this also sees the limit */
  return given;
}

uint64_t gp_engine_set_limits(gp_engine_t *engine, const gp_amount_t limits[GP_MAX_DEVICES])
{
  uint64_t given = 0;

  for (int i = 0; i < GP_MAX_DEVICES; i++)
    given += set_limit(engine, &engine->devices[i], &limits[i]);
  gp_mode_accept_limits(engine); /* a thread that sees this also sees the limits */
  return given;
}

void gp_engine_stream_passed(gp_engine_t *engine, const gp_stream_point_t *point)
{
  gp_stream_point_passed(point);
  if (!point->stream_record)
    return;
  gp_device_t *device = point->device;
  gp_lock_take(&device->lock);
  uint64_t now_ns = gp_device_time(device, gp_now(engine));
  (void)gp_stream_points_drain(engine, device, now_ns, GP_DRAIN_AT_ONCE);
  bool is_due = device->async_context.range && device->async_context.range->releasable > 0 &&
                gp_surplus_is_due(engine, device, now_ns);
  gp_lock_release(&device->lock);
  if (is_due)
    (void)gp_release_surplus(engine, &device->async_context, now_ns);
}

void gp_engine_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t token)
{
  if (!gp_engine_may_conclude(engine, token))
    return;
  gp_epoch_complete(context, token);
  gp_contexts_lose_gone(engine);
  gp_advance(engine);
  (void)give_back_after_sync(engine, context);
}
