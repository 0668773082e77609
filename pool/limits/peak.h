/*
 * Reports a device's peak use while the memory is still in use. Allocations record a new peak. The next free,
 * by any thread, reports the peak to the observer before it frees memory. So nothing is reported while a
 * program only allocates. See gp_engine_watch_use.
 */
#ifndef GP_POOL_LIMITS_PEAK_H
#define GP_POOL_LIMITS_PEAK_H

#include "pool/engine_record.h"

void gp_peak_is_higher(gp_engine_t *engine, gp_device_t *device);

/* Reports the peaks that allocations have recorded to the observer. Called before a free. The caller holds no
 * lock. */
static inline void gp_peak_tell(gp_engine_t *engine)
{
  if (__builtin_expect(atomic_load_explicit(&engine->peaks, memory_order_relaxed) != 0, 0))
    gp_engine_tell_peaks(engine);
}

/* Records a new peak after an allocation. The caller holds the device's lock. */
static inline void gp_peak_note(gp_engine_t *engine, gp_device_t *device)
{
  if (__builtin_expect(gp_device_use(device) > device->watched_use, 0))
    gp_peak_is_higher(engine, device);
}

#endif
