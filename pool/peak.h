/*
 * The highest use of a device, told while what is held is still that: allocations note it, and the next free,
 * of whatever thread, tells the observer before it frees. A program that only grows hears nothing, however
 * often it allocates. Uses: state.h. See gp_engine_watch_use.
 */
#ifndef GP_POOL_PEAK_H
#define GP_POOL_PEAK_H

#include "pool/state.h"

void gp_peak_is_higher(gp_engine_t *engine, gp_device_t *device);

/* Before a free: the observer hears of what allocations noted. The caller holds no lock. */
static inline void gp_peak_tell(gp_engine_t *engine)
{
  if (__builtin_expect(atomic_load_explicit(&engine->peaks, memory_order_relaxed) != 0, 0))
    gp_engine_tell_peaks(engine);
}

/* More of the device is in use. The caller holds the device's lock. */
static inline void gp_peak_note(gp_engine_t *engine, gp_device_t *device)
{
  if (__builtin_expect(gp_device_use(device) > device->watched_use, 0))
    gp_peak_is_higher(engine, device);
}

#endif
