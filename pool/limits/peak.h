/*
 * Reports the highest use of a device while that memory is still held. Allocations note a new peak; the
 * next free, by any thread, tells the observer before it frees. While a program only allocates, there is no
 * report. See gp_engine_watch_use.
 */
#ifndef GP_POOL_LIMITS_PEAK_H
#define GP_POOL_LIMITS_PEAK_H

#include "pool/engine_record.h"

void gp_peak_is_higher(gp_engine_t *engine, gp_device_t *device);

/* Before a free: tells the observer the peaks that allocations noted. The caller holds no lock. */
static inline void gp_peak_tell(gp_engine_t *engine)
{
  if (__builtin_expect(atomic_load_explicit(&engine->peaks, memory_order_relaxed) != 0, 0))
    gp_engine_tell_peaks(engine);
}

/* Notes that more of the device is in use. The caller holds the device's lock. */
static inline void gp_peak_note(gp_engine_t *engine, gp_device_t *device)
{
  if (__builtin_expect(gp_device_use(device) > device->watched_use, 0))
    gp_peak_is_higher(engine, device);
}

#endif
