#include "pool/serve/heaps.h"
#include "pool/limits/peak.h"

void gp_engine_watch_use(gp_engine_t *engine, int ordinal, uint64_t bytes)
{
  gp_device_t *device = &engine->devices[ordinal];

  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device); /* heaps stay closed while peak use is watched */
  gp_locked(device)->watched_use = bytes;
  gp_peak_note(engine, device);
  gp_lock_release(&device->lock);
}

void gp_engine_tell_peaks(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  if (!atomic_load_explicit(&engine->peaks, memory_order_relaxed))
    return;
  for (uint64_t peaks = atomic_exchange(&engine->peaks, 0); peaks;) {
    gp_device_t *device = gp_device_next(engine, &peaks);
    gp_lock_take(&device->lock);
    gp_heaps_collect(engine, device);
    uint64_t bytes = gp_device_use(device);
    gp_lock_release(&device->lock);
    if (engine->observer.peak)
      engine->observer.peak(engine->observer.self, device->ordinal, bytes);
  }
}

void gp_engine_reset_peaks(gp_engine_t *engine, uint64_t devices)
{
  while (devices) {
    gp_device_t *device = gp_device_next(engine, &devices);
    gp_lock_take(&device->lock);
    gp_heaps_collect(engine, device);
#define GAUGE(name, ...)                                                                                     \
  gp_device_stats(device)->name.peak = gp_device_stats(device)->name.current;                                \
  gp_device_stats(device)->earlier_peaks.name = 0;
#include "format/stats.def"
    gp_lock_release(&device->lock);
  }
}
