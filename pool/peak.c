/*
 * The highest use of a device, told while what is held is still that: allocations mark it, and the next free,
 * of whatever thread, tells the observer before it frees. A program that only grows is told nothing, however
 * often it allocates.
 */
#include "pool/state.h"

void gp_peak_mark(gp_engine_t *engine, gp_device_t *device)
{
  device->watched_use = UINT64_MAX; /* once: whoever is told sets the next */
  atomic_fetch_or(&engine->peaks, UINT64_C(1) << device->ordinal);
}

void gp_engine_watch_use(gp_engine_t *engine, int ordinal, uint64_t bytes)
{
  gp_device_t *device = &engine->devices[ordinal];

  gp_lock_take(&device->lock);
  device->watched_use = bytes;
  gp_peak_note(engine, device);
  gp_lock_release(&device->lock);
}

void gp_engine_tell_peaks(gp_engine_t *engine)
{
  if (!atomic_load_explicit(&engine->peaks, memory_order_relaxed))
    return;
  for (uint64_t peaks = atomic_exchange(&engine->peaks, 0); peaks; peaks &= peaks - 1) {
    gp_device_t *device = &engine->devices[__builtin_ctzll(peaks)];
    gp_lock_take(&device->lock);
    uint64_t bytes = gp_device_use(device);
    gp_lock_release(&device->lock);
    if (engine->observer.peak)
      engine->observer.peak(engine->observer.self, device->ordinal, bytes);
  }
}
