/*
 * What a user may change while the program runs: the limit, the peaks, what is cached. The thread that asks
 * is not one of the program's: it waits for no work of the device, and holds locks no longer than an
 * allocation does.
 */
#include "pool/state.h"

/* Sets one device's limit; returns the bytes that are held beyond it. */
static uint64_t set_limit(gp_engine_t *engine, gp_device_t *device, const gp_amount_t *limit)
{
  gp_lock_take(&device->lock);
  engine->limits[device->ordinal] = *limit;
  device->limit = gp_amount_resolve(limit, device->total);
  if (device->limit ==
      UINT64_MAX) { /* what the driver's pools hold beyond what is in use is counted under a limit only */
    device->held -= device->draining;
    device->draining = 0;
  }
  device->unsettled = device->limit != UINT64_MAX && device->uses_pools;
  uint64_t held = device->held - device->draining;
  uint64_t excess = held > device->limit ? held - device->limit : 0;
  device->lowered = excess > 0;
  gp_event_facts(engine, device);
  gp_lock_release(&device->lock);
  return excess;
}

uint64_t gp_engine_set_limits(gp_engine_t *engine, const gp_amount_t limits[GP_MAX_DEVICES])
{
  uint64_t given = 0;

  for (int i = 0; i < GP_MAX_DEVICES; i++) {
    uint64_t excess = set_limit(engine, &engine->devices[i], &limits[i]);
    if (excess > 0)
      given += gp_release_largest(engine, &engine->devices[i], excess, GP_TRIM_REQUESTED);
  }
  atomic_store(&engine->refuse_all, false); /* after the limits: whoever sees it finds them */
  return given;
}

uint64_t gp_engine_empty_cache(gp_engine_t *engine)
{
  uint64_t given = 0;

  gp_reuse_poll(engine);
  for (uint64_t devices = gp_engine_devices(engine); devices; devices &= devices - 1)
    given +=
        gp_release_largest(engine, &engine->devices[__builtin_ctzll(devices)], UINT64_MAX, GP_TRIM_REQUESTED);
  return given;
}

void gp_engine_reset_peaks(gp_engine_t *engine)
{
  for (int i = 0; i < GP_MAX_DEVICES; i++) {
    gp_device_t *device = &engine->devices[i];
    gp_lock_take(&device->lock);
#define GAUGE(name, unit, what) device->stats->name.peak = device->stats->name.current;
#include "trace/format/stats.def"
    gp_lock_release(&device->lock);
  }
}
