#include "pool/space/surplus.h"

static bool is_too_much(const gp_engine_t *engine, const gp_device_t *device)
{
  return device->stats->cached_bytes.current > engine->max_cached;
}

static bool is_expired(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns)
{
  if (engine->idle_release_ns == UINT64_MAX || gp_list_is_empty(&device->idle))
    return false;
  const gp_block_t *oldest = gp_list_entry(device->idle.next, gp_block_t, order);
  return now_ns > oldest->idle_ns && now_ns - oldest->idle_ns >= engine->idle_release_ns;
}

bool gp_surplus_is_due(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return is_too_much(engine, device) || is_expired(engine, device, now_ns) ||
         (gp_device_is_over_limit(device) && !gp_list_is_empty(&device->idle));
}

gp_trim_reason_t gp_surplus_reason(const gp_engine_t *engine, const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  return is_too_much(engine, device)       ? GP_TRIM_MAX_CACHED
         : gp_device_is_over_limit(device) ? GP_TRIM_REQUESTED
                                           : GP_TRIM_IDLE;
}
