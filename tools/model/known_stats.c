#include "tools/model/known_stats.h"

gp_known_t gp_stats_known(const gp_snapshot_t *snapshot, const gp_snapshot_device_t *device, size_t stat)
{
  if (!snapshot->lacks_counters)
    return GP_KNOWN;
  switch (stat) {
  case offsetof(gp_stats_t, surplus_bytes):
  case offsetof(gp_stats_t, passthrough_bytes):
  case offsetof(gp_stats_t, pinned_host_bytes):
  case offsetof(gp_stats_t, fences):
  case offsetof(gp_stats_t, host_waits):
  case offsetof(gp_stats_t, num_alloc_retries): return GP_KNOWN_NOT;
  case offsetof(gp_stats_t, inactive_split_bytes): return GP_KNOWN_AT_END;
  case offsetof(gp_stats_t, num_ooms): return snapshot->lacks_history ? GP_KNOWN_NOT : GP_KNOWN;
  case offsetof(gp_stats_t, cache_hits):
  case offsetof(gp_stats_t, cache_misses):
  case offsetof(gp_stats_t, driver_allocs):
  case offsetof(gp_stats_t, driver_frees):
    return snapshot->lacks_history || device->lacks_reserved ? GP_KNOWN_NOT : GP_KNOWN;
  case offsetof(gp_stats_t, segment):
  case offsetof(gp_stats_t, reserved_bytes):
  case offsetof(gp_stats_t, cached_bytes):
    return snapshot->lacks_history || device->lacks_reserved ? GP_KNOWN_AT_END : GP_KNOWN;
  default: return snapshot->lacks_history ? GP_KNOWN_AT_END : GP_KNOWN;
  }
}
