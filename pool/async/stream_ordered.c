/* Stream-ordered memory: the attributes of the default memory pool, which the library replaces. The program
 * can read and set them. */
#include "pool/serve/map_range.h"
#include "pool/reuse/mode.h"
#include "pool/limits/reclaim.h"
#include "pool/limits/release.h"
#include "pool/reuse/fences.h"
#include "pool/reuse/stream_records.h"
#include "pool/reuse/stream_points.h"
#include "pool/space/account.h"
#include "pool/space/segment.h"

bool gp_engine_serves_async(const gp_engine_t *engine)
{
  return engine->serves_async && !gp_mode_forwards_async(engine);
}

bool gp_engine_forwards_async(const gp_engine_t *engine)
{
  return engine->forwards_async && gp_engine_service(engine) == GP_SERVICE_POOL;
}

/* Returns true if stream-ordered memory is cut from segments. Idle parts of segments no longer belong to a
 * stream. */
static bool cuts_async(const gp_engine_t *engine)
{
  return engine->orders_plain && engine->type->cuts;
}

/* Returns the bytes of this pool that the program may regard as reserved by its default pool. If
 * stream-ordered memory is cut from segments, the result includes idle pieces between blocks in use. Other
 * idle memory counts as free (cudaMemGetInfo). The caller holds the device's lock. */
static uint64_t reserved_bytes(gp_engine_t *engine, gp_device_t *device)
{
  if (!engine->orders_plain)
    return gp_segment_held(&device->async_context);
  bool has_pieces = cuts_async(engine) && gp_stream_points_are_wanted(engine);
  uint64_t pieces = has_pieces ? gp_device_stats(device)->inactive_split_bytes.current : 0;
  uint64_t idle = device->async_context.range ? device->async_context.range->releasable : 0;
  return gp_locked(device)->pooled_async_bytes + pieces + idle;
}

gp_async_use_t gp_engine_async_use(gp_engine_t *engine, int ordinal)
{
  gp_device_t *device = &engine->devices[ordinal];

  gp_lock_take(&device->lock);
  uint64_t reserved = reserved_bytes(engine, device);
  if (gp_locked(device)->reserved_peak < reserved)
    gp_locked(device)->reserved_peak = reserved;
  gp_async_use_t use = {.kept = gp_bytes_less(reserved, device->pooled_async_live),
      .live = device->pooled_async_live,
      .peak = device->pooled_async_peak,
      .reserved_peak = device->reserved_peak};
  gp_lock_release(&device->lock);
  return use;
}

void gp_engine_async_reset_peak(gp_engine_t *engine, int ordinal, bool of_reserved)
{
  gp_device_t *device = &engine->devices[ordinal];

  gp_lock_take(&device->lock);
  if (of_reserved)
    gp_locked(device)->reserved_peak = reserved_bytes(engine, device);
  else
    gp_locked(device)->pooled_async_peak = device->pooled_async_live;
  gp_lock_release(&device->lock);
}

void gp_engine_async_trim(gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;

  gp_assert(!gp_holds_engine_lock());
  bool is_cut = cuts_async(engine);
  if (!is_cut && gp_engine_async_use(engine, device->ordinal).kept == 0)
    return;
  (void)gp_fences_poll_twice(engine);
  gp_reclaim(engine);
  if (!engine->driver.ops->fence_record) /* without fences, synchronizing a stream has proved nothing */
    gp_stream_records_query(engine, device);
  (void)gp_release_async(engine, device, GP_TRIM_REQUESTED);
  if (!engine->orders_plain || !gp_fences_are_quiet(engine, NULL))
    return; /* also with CUDA before 12.5: a trim must not wait for the streams of other threads */
  if (is_cut)
    (void)gp_release_largest(engine, device, UINT64_MAX, GP_TRIM_REQUESTED);
  else
    (void)gp_release_pooled_async(engine, device, GP_TRIM_REQUESTED);
}

static bool is_last(const gp_context_t *context)
{
  gp_device_t *device = context->device;

  gp_lock_take(&device->lock);
  bool last = gp_device_contexts(device)->next == &context->device_link &&
              context->device_link.next == &device->async_context.device_link;
  gp_lock_release(&device->lock);
  return last;
}

void gp_engine_async_leave(gp_engine_t *engine, gp_context_t *context)
{
  gp_assert(!gp_holds_engine_lock());
  if (!context || !is_last(context) || gp_engine_async_use(engine, context->device->ordinal).kept == 0)
    return;
  (void)gp_fences_poll_twice(engine);
  gp_reclaim(engine);
  (void)gp_release_async(engine, context->device, GP_TRIM_REQUESTED);
}

int gp_engine_async_access(gp_engine_t *engine, int ordinal, int other)
{
  gp_device_t *device = &engine->devices[ordinal];

  if (ordinal == other)
    return 0;
  atomic_store(&device->async_is_apart, true);
  if (engine->type->maps)
    (void)gp_map_range_give_access(engine, gp_engine_device_context(engine, ordinal), other);
  return gp_map_range_give_access(engine, &device->async_context, other);
}
