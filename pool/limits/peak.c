#include "pool/limits/peak.h"

void gp_peak_is_higher(gp_engine_t *engine, gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  device->watched_use = UINT64_MAX; /* no report until the observer gets this peak and sets a new value */
  atomic_fetch_or(&engine->peaks, UINT64_C(1) << device->ordinal);
}
